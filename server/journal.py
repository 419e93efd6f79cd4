"""The journal: the newest requests of clients, for tests that ask what was requested."""

from typing import Any, Final

from klamm.server.recent_requests import Which
from klamm.server.request_log import RequestLog

LOOKED_AT: Final = 1_000
"""The lines that `newest` looks at: more can arrive between two calls."""


class Journal:
    """The newest lines of a request log, if it keeps them."""

    def __init__(self, request_log: RequestLog | None) -> None:
        self._log = request_log

    def find(self, which: Which, most: int) -> list[dict[str, Any]]:
        """Requests of clients, as members of lines of the request log (`RecentRequests.find`). A request is among them
        before its client has the answer. Empty if they are not kept."""
        log = self._log
        if log is None or log.recent is None:
            return []
        log.flush()
        return [log.journal_members_of(line, seq) for seq, line in log.recent.find(which, most)]

    def newest(self, after_seq: int, most: int) -> list[dict[str, Any]]:
        """The newest requests behind `after_seq`, without their bodies (`RecentRequests.newest`)."""
        log = self._log
        if log is None or log.recent is None:
            return []
        log.flush()
        return [log.members_of(line, seq) for seq, line in log.recent.newest(after_seq, most, LOOKED_AT)]

    @property
    def apis(self) -> set[str]:
        """The names of the APIs that were requested."""
        return set() if self._log is None or self._log.recent is None else self._log.recent.apis
