"""Runs the cycles of the soak, and takes samples during each cycle and at its end."""

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import klamm
from tools.soak_run.jobs import ask_everything, come_and_go, restart_broker
from tools.soak_run.libraries import LIBRARIES, Library, create, delete, write_and_read
from tools.soak_run.sampling import Sample, leaks, take_sample

SETTLE_SECONDS = 60.0
"""Seconds that the process has to release what has ended: idle threads stay for ten seconds."""
LOOK_SECONDS = 0.05
SAMPLE_SECONDS = 2.0
SAY_EVERY_SECONDS = 30.0
MOST_AT_ONCE = 8
"""The number of threads of one cycle."""


class Soak:
    """One run: `samples` are of the ends of its cycles, `busy` of the time between them."""

    def __init__(self, data_dir: Path, *, seconds: float, requests: int | None) -> None:
        self.samples: list[Sample] = []
        self.busy: list[Sample] = []
        self.first: Sample
        self.last: Sample
        self.requests = 0
        self._data_dir = data_dir
        self._seconds = seconds
        self._enough = requests
        self._began = 0.0
        self._process_id = 0

    @property
    def leaks(self) -> list[str]:
        """The leaks, one clause each."""
        return leaks(self.samples, self.first, self.last)

    def run(self, server: klamm.ServerProcess) -> None:
        """Run until the time has ended or the requests are answered. Raises WrongAnswer, or the exception of a
        library."""
        self._process_id = server.process_id
        self._began = said = time.monotonic()
        self._cycle(server, 0)  # What the first clients import and start stays.
        self.first = self._sample_at_rest(None)
        number = 0
        while not (number and self._is_over()):
            number += 1
            self._cycle(server, number)
            self.samples.append(self._sample_at_rest(self.first.descriptors))
            if time.monotonic() - said > SAY_EVERY_SECONDS:
                said = time.monotonic()
                sys.stderr.write(f"soak: cycle {number}, {self.requests:,} requests, {self._seconds_so_far():.0f} s\n")
        self.last = self._sample_at_rest(self.first.descriptors, self.first.threads)

    def _is_over(self) -> bool:
        if self._enough is not None and self.requests >= self._enough:
            return True
        return self._seconds_so_far() >= self._seconds

    def _cycle(self, server: klamm.ServerProcess, number: int) -> None:
        """All kinds of clients, those of each phase at the same time. Returns when all have finished."""
        host, _, port = server.bootstrap_servers.partition(",")[0].rpartition(":")
        address = (host, int(port))

        def of_libraries(job: Callable[[Library, str, int], int]) -> list[Callable[[], int]]:
            return [partial(job, library, server.bootstrap_servers, number) for library in LIBRARIES]

        raw: list[Callable[[], int]] = [partial(ask_everything, address, number), partial(come_and_go, address, number)]
        restart = partial(restart_broker, server.control_url, number)
        # Not all admin clients repeat a request when its broker stops; producers and consumers do.
        phases: tuple[list[Callable[[], int]], ...] = (
            of_libraries(create),
            [*of_libraries(write_and_read), *raw, restart],
            of_libraries(delete),
        )
        over = threading.Event()
        with ThreadPoolExecutor(MOST_AT_ONCE) as threads:
            watching = threads.submit(self._watch, over)
            try:
                for jobs in phases:
                    for job in [threads.submit(job) for job in jobs]:
                        self.requests += job.result()
            finally:
                over.set()
            watching.result()

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(SAMPLE_SECONDS):
            self.busy.append(self._sample())

    def _sample_at_rest(self, descriptors: int | None, threads: int | None = None) -> Sample:
        """A sample when the numbers of descriptors and threads are at most the given ones, or at the deadline."""
        give_up_at = time.monotonic() + SETTLE_SECONDS
        sample, before = self._sample(), None
        while time.monotonic() < give_up_at:
            if descriptors is None:
                if before and before.descriptors == sample.descriptors:
                    break
            elif sample.descriptors <= descriptors and (threads is None or sample.threads <= threads):
                break
            time.sleep(LOOK_SECONDS if descriptors is not None else SAMPLE_SECONDS)
            sample, before = self._sample(), sample
        return sample

    def _sample(self) -> Sample:
        return take_sample(self._process_id, self._data_dir, self._seconds_so_far(), self.requests)

    def _seconds_so_far(self) -> float:
        return time.monotonic() - self._began
