"""Share sessions (KIP-932): which partitions a member fetches from a broker, so that requests need not repeat them.

A session belongs to a member of a group and to the connection on which it began. Its epoch grows with each request, so
that a request that is lost or doubled is noticed. Source of the rules: `SharePartitionManager.newContext` and
`ShareSessionCache` of Apache Kafka 4.3.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from klamm.controller.metadata.partition import LogKey
from klamm.protocol.errors import ErrorCode

INITIAL_EPOCH, FINAL_EPOCH, LAST_EPOCH = 0, -1, 2**31 - 1
MAX_PARTITIONS: Final = 100_000
"""Partitions of all sessions on one broker. Kafka has no such limit. Sessions beyond it get
SHARE_SESSION_LIMIT_REACHED."""
MAX_PARTITIONS_OF_SESSION: Final = 5_000
"""As many as a fetch session may have. Kafka has no such limit; beyond it: SHARE_SESSION_LIMIT_REACHED."""
MAX_GROUPS_OF_CONNECTION: Final = 100
"""The groups of ended sessions that are noted for one connection."""
SessionKey: TypeAlias = tuple[str, str]
"""The ids of a group and of a member."""


@dataclass(slots=True)
class ShareSession:
    """The partitions in the order in which they were added; those with records move to the end."""

    key: SessionKey
    connection_id: int
    partitions: dict[LogKey, bool] = field(default_factory=dict)
    """Whether the next answer has to show the partition, even without records."""
    epoch: int = 1
    """Of the next request."""

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == LAST_EPOCH else self.epoch + 1

    def shows(self, place: LogKey, *, has_records: bool, has_error: bool) -> bool:
        """Whether an answer shows what was found for a partition."""
        return has_records or has_error or self.partitions.get(place, False)

    def note(self, place: LogKey, *, has_records: bool, has_error: bool) -> None:
        """An answer with what was found for a partition is sent."""
        if place not in self.partitions:
            return
        self.partitions[place] = has_error
        if has_records:
            self.partitions[place] = self.partitions.pop(place)


class ShareSessions:
    """The sessions of one broker."""

    def __init__(self, max_sessions: int) -> None:
        """`max_sessions`: `group.share.max.share.sessions`."""
        self._max_sessions = max_sessions
        self._by_key: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[int, dict[SessionKey, ShareSession]] = {}
        self._groups_of: dict[int, set[str]] = {}
        """The groups by the connection on which a session of theirs began."""
        self._members: dict[str, int] = {}
        self.partition_count = 0
        """Of all sessions together."""

    def __len__(self) -> int:
        return len(self._by_key)

    def find(self, key: SessionKey) -> ShareSession | None:
        return self._by_key.get(key)

    def has_group(self, group_id: str) -> bool:
        """Whether a member of the group has a session."""
        return self._members.get(group_id, 0) > 0

    def begin(self, key: SessionKey, connection_id: int, partitions: Iterable[LogKey]) -> ErrorCode:
        """A new session, in place of the former one."""
        self.remove(key)
        wanted = dict.fromkeys(partitions, False)
        if len(self._by_key) >= self._max_sessions or not self._has_room(len(wanted), len(wanted)):
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = self._by_key[key] = ShareSession(key, connection_id, wanted)
        if connection_id:
            self._by_connection.setdefault(connection_id, {})[key] = session
            self._note_group(connection_id, key[0])
        self._members[key[0]] = self._members.get(key[0], 0) + 1
        self.partition_count += len(wanted)
        return ErrorCode.NONE

    def _has_room(self, partitions: int, new: int) -> bool:
        """Whether a session may have so many partitions, of which some are new."""
        return partitions <= MAX_PARTITIONS_OF_SESSION and self.partition_count + new <= MAX_PARTITIONS

    def _note_group(self, connection_id: int, group_id: str) -> None:
        groups = self._groups_of.setdefault(connection_id, set())
        if len(groups) < MAX_GROUPS_OF_CONNECTION:
            groups.add(group_id)

    def check(self, key: SessionKey, epoch: int) -> ErrorCode:
        """Whether the session of a request exists and has this epoch. The final epoch is always right."""
        session = self._by_key.get(key)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        is_right = epoch in (FINAL_EPOCH, session.epoch)
        return ErrorCode.NONE if is_right else ErrorCode.INVALID_SHARE_SESSION_EPOCH

    def update(self, session: ShareSession, added: Iterable[LogKey], forgotten: Iterable[LogKey]) -> ErrorCode:
        """A request of a session: partitions come and go, and the epoch grows."""
        before = len(session.partitions)
        new = [place for place in dict.fromkeys(added) if place not in session.partitions]
        if not self._has_room(before + len(new), len(new)):
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session.partitions.update(dict.fromkeys(new, True))
        for place in forgotten:
            session.partitions.pop(place, None)
        self.partition_count += len(session.partitions) - before
        session.advance()
        return ErrorCode.NONE

    def remove(self, key: SessionKey) -> ShareSession | None:
        """End a session."""
        session = self._by_key.pop(key, None)
        if session is None:
            return None
        self.partition_count -= len(session.partitions)
        self._members[key[0]] -= 1
        if not self._members[key[0]]:
            del self._members[key[0]]
        of_connection = self._by_connection.get(session.connection_id, {})
        if of_connection.get(key) is session:
            del of_connection[key]
        return session

    def groups_on(self, connection_id: int) -> frozenset[str]:
        """The groups of the sessions that began on a connection, also of those that have ended."""
        return frozenset(self._groups_of.get(connection_id, ()))

    def close_connection(self, connection_id: int) -> list[ShareSession]:
        """End the sessions of a connection that was closed, and return them."""
        self._groups_of.pop(connection_id, None)
        sessions = list(self._by_connection.pop(connection_id, {}).values())
        return [session for session in sessions if self.remove(session.key) is not None]
