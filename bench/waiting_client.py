"""A client that asks back to back while a server has long work to do, and what its questions saw of that work.

How long each answer took is the client's own clock. How far the work had come is the server's: its request log tells
for each question how many records the metadata log had. Both stand on one time line, since the client never has two
questions on their way and the request log keeps the order.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from bench.raw_client import RawClient, Refused, api_versions_frame, topic_metadata_frame
from bench.rows import percentile

GIVE_UP_SECONDS = 60.0
QUIET_SECONDS = 0.5
"""Work has ended when the log has not grown for this long."""
LOOK_SECONDS = 0.1
LAST_BYTES = 8 * 1024
OLD_FILES = 5
ASKED = ("ApiVersions", "Metadata")
NS_PER_SECOND = 1e9


@dataclass(frozen=True, slots=True)
class Question:
    """One request. `sent_ns` is on any clock, the same for all; `records` were in the log when it was answered."""

    sent_ns: int
    waited_ns: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The course of a piece of work as requests saw it. It begins when the first request was sent that saw an
    effect."""

    seconds: float
    """Seconds until the answer to the first request that saw `records` more in the log."""
    whole_seconds: float
    """Seconds until the log no longer grew."""
    longest_wait: float
    """Waits in seconds of all requests in flight while the log grew."""
    p99_wait: float
    longest_wait_before: float
    """Waits in seconds without work: the share of the machine and of the client."""
    questions: int
    """While the log grew."""
    grown: int
    """The number of new records."""


def ask_meanwhile(
    address: tuple[str, int], topic_name: str, request_log: Path, begin: Callable[[], None], records: int
) -> list[tuple[int, int]]:
    """Ask before, while and after `begin` is done, until the log has grown by `records` and then grows no more.

    `begin` is called with questions on the way before it, so it must not wait for the server long. Returns the times
    of all questions: sent, and waited, in ns. Raises Refused if the log has not grown so far in time.
    """
    times: list[tuple[int, int]] = []
    frames = cycle([topic_metadata_frame(topic_name), api_versions_frame()])
    with RawClient(address) as client:

        def ask_until(due: float) -> None:
            while time.monotonic() < due:
                sent = time.perf_counter_ns()
                times.append((sent, client.exchange(next(frames)).last_byte_ns))

        ask_until(time.monotonic() + QUIET_SECONDS)
        seen = first = last_records(request_log)
        begin()
        changed_at = time.monotonic()
        give_up_at = changed_at + GIVE_UP_SECONDS
        while seen < first + records or time.monotonic() < changed_at + QUIET_SECONDS:
            ask_until(time.monotonic() + LOOK_SECONDS)
            if (now_there := last_records(request_log)) != seen:
                seen, changed_at = now_there, time.monotonic()
            if time.monotonic() > give_up_at:
                raise Refused(f"{seen - first:,} records came of {records:,} within {GIVE_UP_SECONDS:g} s")
    return times


def last_records(request_log: Path) -> int:
    """The number of records of the metadata log in the last complete line of a request log; 0 without lines."""
    with request_log.open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - LAST_BYTES))
        lines = file.read().split(b"\n")[:-1]
    return int(json.loads(lines[-1])["log_end_offset"]) if lines else 0


def join_times(times: Sequence[tuple[int, int]], request_log: Path) -> list[Question]:
    """The requests, which must be the last of their kind in the request log; read after the server has ended."""
    records = [line["log_end_offset"] for line in _lines(request_log) if line["api"] in ASKED][-len(times) :]
    if len(records) < len(times):
        raise Refused("the request log has fewer lines than questions were asked")
    return [Question(*pair, there) for pair, there in zip(times, records, strict=True)]


def work_seen(questions: Sequence[Question], records: int) -> Work:
    """What the questions saw of the work that adds `records`, of other work that it brings about, and of the waits."""
    before = questions[0].records
    after = questions[-1].records
    if after - before < records:
        raise Refused(f"{after - before:,} records came of {records:,}")
    at = _first_with(questions, before + 1)
    done, over = _first_with(questions, before + records), _first_with(questions, after)
    waits = [question.waited_ns / NS_PER_SECOND for question in questions]
    during = waits[at : over + 1]
    return Work(
        seconds=_from_to(questions, at, done),
        whole_seconds=_from_to(questions, at, over),
        longest_wait=max(during),
        p99_wait=percentile(during, 99),
        longest_wait_before=max(waits[:at], default=0.0),
        questions=len(during),
        grown=after - before,
    )


def _first_with(questions: Sequence[Question], records: int) -> int:
    return next(at for at, question in enumerate(questions) if question.records >= records)


def _from_to(questions: Sequence[Question], first: int, last: int) -> float:
    return (questions[last].sent_ns + questions[last].waited_ns - questions[first].sent_ns) / NS_PER_SECOND


def _lines(request_log: Path) -> Iterator[dict[str, Any]]:
    """All lines, the oldest first; rotated files have numbers, and 1 is the newest."""
    old = [request_log.with_name(f"{request_log.name}.{number}") for number in range(OLD_FILES, 0, -1)]
    for path in (*old, request_log):
        if path.exists():
            with path.open() as file:
                yield from map(json.loads, file)
