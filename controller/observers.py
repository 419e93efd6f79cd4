"""The observers of the metadata log: which replicas fetch it, up to where, and when they had all of it (KIP-642).

Soft state of the leader, with the rules of Kafka's LeaderState: DescribeQuorum lists an observer until it has not
fetched for five minutes. Kafka keeps any number of them. Here, beyond a limit, the one with the oldest last fetch is
forgotten.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass

OBSERVER_SESSION_MS: Final = 300_000
"""Kafka's LeaderState.OBSERVER_SESSION_TIMEOUT_MS."""
MAX_OBSERVERS: Final = 10_000


class ObserverKey(NamedTuple):
    """A replica of the metadata log: a node, and its directory."""

    replica_id: int
    directory_id: Uuid


class ObserverFetch(NamedTuple):
    """A fetch from `offset` on, which was found in a log that ends at `end_offset`."""

    key: ObserverKey
    offset: int
    end_offset: int


@dataclass(slots=True)
class ObserverState:
    """What is known of one observer. A time is -1 before it is known."""

    end_offset: int = 0
    """The end of its log, from which it fetches."""
    fetched_ms: int = -1
    caught_up_ms: int = -1
    """The last time at which it had the whole log."""
    leader_end_offset: int = -1
    """The end of the leader's log at its last fetch."""


class Observers:
    """The observers by replica, in the order of their last fetches."""

    def __init__(self) -> None:
        self._states: dict[ObserverKey, ObserverState] = {}

    def note(self, fetch: ObserverFetch, now_ms: int) -> None:
        """Take a fetch into account. A negative replica id is that of a reader that is no replica."""
        if fetch.key.replica_id < 0:
            return
        state = self._states.pop(fetch.key, None) or ObserverState()
        if fetch.offset >= fetch.end_offset:
            state.caught_up_ms = max(now_ms, state.caught_up_ms)
        elif 0 < state.leader_end_offset <= fetch.offset:
            state.caught_up_ms = max(state.fetched_ms, state.caught_up_ms)
        state.leader_end_offset = max(fetch.end_offset, state.leader_end_offset)
        state.fetched_ms = max(now_ms, state.fetched_ms)
        state.end_offset = fetch.offset
        self._states[fetch.key] = state
        if len(self._states) > MAX_OBSERVERS:
            del self._states[next(iter(self._states))]

    def seen(self, now_ms: int) -> Iterator[tuple[ObserverKey, ObserverState]]:
        """The observers whose last fetch is not too long ago, by id."""
        for key in sorted(self._states):
            state = self._states[key]
            if now_ms - state.fetched_ms < OBSERVER_SESSION_MS:
                yield key, state
