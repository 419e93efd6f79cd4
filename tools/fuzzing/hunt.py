"""Plays sessions against a live server, and keeps those that break one of its promises."""

from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Final

from klamm.cluster.server_process import ServerFailed
from tools.fuzzing.broken import Broken
from tools.fuzzing.corpus import keep
from tools.fuzzing.live_server import LiveServer
from tools.fuzzing.sessions import Session, Step, session_to_line

LIFE_SESSIONS: Final = 2000
"""A server that has executed this many sessions is replaced by a new one, because it keeps what it granted to
clients."""
MAX_FOUND: Final = 20
MAX_DETAIL: Final = 500
REPEATING_SECONDS: Final = 60.0
_BEFORE: Final = (0, 1, 8, 64)


class Hunt:
    """Plays sessions to a server as long as the server works, and stores one session for each broken promise."""

    def __init__(self, seconds: float, corpus: Path) -> None:
        self.started = monotonic()
        self.deadline = self.started + seconds
        self.executions = 0
        self.found: list[Path] = []
        self._corpus = corpus
        self._stack = ExitStack()
        self._server: LiveServer | None = None
        self._life: list[Session] = []
        self._before: dict[str, list[Session]] = {}
        self._promises: set[str] = set()

    @property
    def is_over(self) -> bool:
        return monotonic() >= self.deadline or len(self.found) >= MAX_FOUND

    def server(self) -> LiveServer:
        """The server; a new one if the last one has served long enough."""
        if self._server is None or len(self._life) >= LIFE_SESSIONS:
            self.close()
            self._server = self._stack.enter_context(LiveServer())
        return self._server

    def close(self) -> None:
        """Stop the server and remove its files. A server that does not end properly is a finding."""
        self._server, life, self._life = None, self._life, []
        try:
            self._stack.close()
        except ServerFailed as error:
            self._write(_together(life[-_BEFORE[-1] :]), "the server does not end well", str(error))

    def play(self, session: Session) -> None:
        """One execution. Raises Broken if this promise was not known to be broken."""
        server = self.server()
        self.executions += 1
        self._life.append(session)
        try:
            server.play(session)
        except Broken as broken:
            self._before.setdefault(broken.promise, self._life[:-1][-_BEFORE[-1] :])
            if not broken.promise.startswith("bug: "):  # The server is of no use any more.
                self.close()
            if broken.promise not in self._promises:
                raise

    def keep(self, session: Session, broken: Broken) -> None:
        """Store a finding: the session, with those before it if it needs them, on a server of its own."""
        self._promises.add(broken.promise)
        before = self._before[broken.promise]
        whole, alone = session, False
        ends_at = monotonic() + REPEATING_SECONDS
        for count in _BEFORE:
            if monotonic() > ends_at:
                break
            whole = _together([*(before[-count:] if count else ()), session])
            if alone := self._breaks(whole, broken.promise):
                break
        remark = "" if alone else "not seen a second time: "
        self._write(whole if alone else session, broken.promise, broken.detail, remark)

    def _write(self, session: Session, promise: str, detail: str, remark: str = "") -> None:
        found = f"{remark}{promise}: " + detail.strip().rpartition("\n")[2][:MAX_DETAIL]
        path = keep(self._corpus, promise, "", session_to_line(session, found))
        self.found.append(path)
        print(f"found after {monotonic() - self.started:.0f} s, {self.executions} sessions: {promise}", flush=True)
        print(f"{detail}\nfound: {path}", flush=True)

    def _breaks(self, session: Session, promise: str) -> bool:
        self.close()
        try:
            self.server().play(session)
        except Broken as broken:
            return broken.promise == promise
        finally:
            self.close()
        return False


def _together(sessions: list[Session]) -> Session:
    """Several sessions as one, each on connections of its own."""
    steps = list[Step]()
    for session in sessions:
        first = 1 + max((step.connection for step in steps), default=-1)
        steps += [Step(first + step.connection, step.listener, step.sent) for step in session]
    return tuple(steps)
