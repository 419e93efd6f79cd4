"""Tries faults: each in a fork of a warm process, with the tests that run the faulty lines.

The process collects the tests of one module once; a run without faults in a fork records which test runs which lines.
Each fault is planted in another fork, whose tests end at the first failure. A fault in code that runs at import cannot
be planted there: it is tried in a copy of the tree, in a new process. With --confirm, so is each survivor.
"""

import os
import pickle
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tools.mutation.code_swap import code_swaps, swap_code
from tools.mutation.faults import Fault, loaded_path
from tools.mutation.own_process import first_failure
from tools.mutation.traced_lines import LineTracer, Traced
from tools.mutation.verdict import DEATH, TIME, Verdict

MEMORY_BYTES: Final = 6 << 30
"""Address space of one trial: a faulty loop may allocate without end."""
FILE_BYTES: Final = 1 << 30
"""The largest file that a trial may write."""
_ERROR: Final = "error"
TIMES_SLOWER: Final = 4.0
"""The time limit of a test is this many times its duration under the tracer, and some seconds more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The limits of trials."""

    jobs: int
    """Trials at the same time."""
    confirm: bool
    """Whether each survivor is tried again in a process of its own."""
    seconds: float
    """The time after which no trial begins."""
    spare_seconds: float
    """How many seconds a test may take beyond TIMES_SLOWER times its duration under the tracer."""


class Campaign:
    """A pytest plugin that tries faults in place of running the collected tests. `verdicts` has the results."""

    def __init__(self, faults: Sequence[Fault], terms: Terms, tell: Callable[[Verdict], None]) -> None:
        self.verdicts: list[Verdict] = []
        self.failed: list[str] = []
        """Tests that fail without any fault: then no fault can be tried."""
        self._faults = faults
        self._terms = terms
        self._ends_at = time.monotonic() + terms.seconds
        self._tell = tell
        self._scratch = Path(tempfile.mkdtemp(prefix="klamm-mutation-"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Failures are not minimised. Test modules read the profile when they are imported."""
        from hypothesis import Phase, settings  # late, because pytest rewrites it first

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutation", settings.get_profile("quick"), phases=phases, database=None)
        settings.load_profile("mutation")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        try:
            self._try_all(session)
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)
        return True

    def _try_all(self, session: pytest.Session) -> None:
        traced = self._trace(session)
        self.failed = traced.failed
        if traced.failed:
            return
        running: dict[int, _Trial] = {}
        try:
            self._try_each(session, traced, running)
        finally:
            for pid in running:
                os.killpg(pid, signal.SIGKILL)

    def _try_each(self, session: pytest.Session, traced: Traced, running: dict[int, "_Trial"]) -> None:
        waiting = list(reversed(self._faults))
        while running or (waiting and time.monotonic() < self._ends_at):
            while waiting and len(running) < self._terms.jobs and time.monotonic() < self._ends_at:
                trial = _Trial(waiting.pop(), session, traced, self._scratch, self._terms)
                running[trial.pid] = trial
            time.sleep(0.005)
            for trial in [*running.values()]:
                if (verdict := trial.verdict()) is not None:
                    del running[trial.pid]
                    self.verdicts.append(verdict)
                    self._tell(verdict)

    def _trace(self, session: pytest.Session) -> Traced:
        files = frozenset(loaded_path(fault.file) for fault in self._faults)
        answer = self._scratch / "traced"

        def trace() -> None:
            tracer = LineTracer(files)
            session.config.pluginmanager.register(tracer)
            for place, item in enumerate(session.items):
                following = session.items[place + 1] if place + 1 < len(session.items) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            answer.write_bytes(pickle.dumps(tracer.traced))

        pid = _fork(trace, self._scratch)
        os.waitpid(pid, 0)
        _raise_error(self._scratch)
        traced: Traced = pickle.loads(answer.read_bytes())  # written by a fork of this process
        return traced


class _Trial:
    """One fault in one fork, which writes its verdict to a file."""

    def __init__(self, fault: Fault, session: pytest.Session, traced: Traced, scratch: Path, terms: Terms) -> None:
        self.fault = fault
        path = loaded_path(fault.file)
        chosen = traced.tests_of(path, fault.line, fault.last_line)
        self.tests = len(chosen)
        items = {item.nodeid: item for item in session.items}
        self._asked = chosen or sorted(items, key=traced.seconds.__getitem__)
        self._answer = Path(tempfile.mkdtemp(dir=scratch)) / "seen_by"
        self._confirm = terms.confirm
        self._limits = [TIMES_SLOWER * traced.seconds[test] + terms.spare_seconds for test in self._asked]
        self._seconds = TIMES_SLOWER * sum(traced.seconds[test] for test in self._asked) + terms.spare_seconds
        self.pid = _fork(lambda: self._run([items[test] for test in self._asked]), self._answer.parent)

    def _run(self, items: list[pytest.Item]) -> None:
        path = loaded_path(self.fault.file)
        swaps = code_swaps(path, Path(path).read_text(encoding="utf-8"), self.fault.text)
        if swaps is None or not swap_code(path, swaps):
            self._answer.write_text(self._in_own_process())
            return
        seen_by = _first_failure(items, self._limits) if swaps else ""
        self._answer.write_text(seen_by or (self._in_own_process() if self._confirm else ""))

    def _in_own_process(self) -> str:
        return first_failure(self.fault, self._asked, self._answer.parent, seconds=2 * self._seconds)

    def verdict(self) -> Verdict | None:
        """The verdict when the trial has ended; None while it runs."""
        done, status = os.waitpid(self.pid, os.WNOHANG)
        if not done:
            return None
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # processes that its tests have started
        late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
        _raise_error(self._answer.parent)
        seen_by = TIME if late else self._answer.read_text() if self._answer.exists() else DEATH
        shutil.rmtree(self._answer.parent, ignore_errors=True)
        return Verdict(self.fault, seen_by, self.tests)


class _Failures:
    """A pytest plugin that stores the first failure."""

    def __init__(self) -> None:
        self.first = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.first:
            self.first = report.nodeid


def _first_failure(items: Sequence[pytest.Item], limits: Sequence[float]) -> str:
    """Run tests until one fails. Returns its name, or nothing. A test above its limit, in seconds, ends the process
    with SIGALRM."""
    if not items:
        return ""
    failures = _Failures()
    items[0].config.pluginmanager.register(failures)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for item, following, seconds in zip(items, [*items[1:], None], limits, strict=True):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failures.first:
            break
    signal.setitimer(signal.ITIMER_REAL, 0)
    return failures.first


def _raise_error(scratch: Path) -> None:
    """Raise the error of a fork outside of its tests: a bug of the campaign itself."""
    error = scratch / _ERROR
    if error.exists():
        raise RuntimeError(error.read_text())


def _fork(work: Callable[[], Any], scratch: Path) -> int:
    """A fork of this process that does the work without output and exits. It leads a process group."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
        silent = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silent, descriptor)
        os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)
        work()
        code = 0
    except Exception:  # noqa: BLE001  # told by the parent
        (scratch / _ERROR).write_text(traceback.format_exc())
    finally:
        os._exit(code)
