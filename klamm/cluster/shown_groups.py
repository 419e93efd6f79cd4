"""The groups of all coordinators, as the page and the metrics show them: state, members and lag."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from klamm.broker.groups.groups_with_streams import GroupsWithStreams
from klamm.protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from klamm.server.server import Server

KINDS: Final = ("classic", "consumer", "share", "streams")
MAX_SHOWN_MEMBERS: Final = 20
MAX_SHARE_STATES: Final = 10_000
"""The share partitions that are examined for the lag of share groups, at some 0.2 µs each."""


@dataclass(frozen=True, slots=True)
class GroupOfKind:
    """A group with the state machine of its shard."""

    group_id: str
    kind: str
    group: Any
    shard: GroupsWithStreams

    @property
    def state(self) -> str:
        """Kafka's name of the state."""
        return str(getattr(self.group.state, "value", self.group.state))


def all_groups(server: Server) -> Iterator[GroupOfKind]:
    """The groups of all loaded shards. A classic group without a protocol type has committed offsets alone."""
    for state in server.brokers.coordinators.loaded_states(CONSUMER_OFFSETS):
        if isinstance(state, GroupsWithStreams):
            by_kind: tuple[Mapping[str, Any], ...] = (
                state.groups,
                state.consumer.groups,
                state.share.groups,
                state.streams.groups,
            )
            for kind, groups in zip(KINDS, by_kind, strict=True):
                for group_id, group in groups.items():
                    yield GroupOfKind(group_id, kind, group, state)


def group_count(server: Server) -> int:
    """The number of all groups."""
    return sum(
        len(state.groups) + len(state.consumer.groups) + len(state.share.groups) + len(state.streams.groups)
        for state in server.brokers.coordinators.loaded_states(CONSUMER_OFFSETS)
        if isinstance(state, GroupsWithStreams)
    )


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a group has read."""

    offsets: int = 0
    """The partitions with an offset of the group."""
    lag: int | None = None
    """The messages that the group has not read; None: no partition has an offset."""

    def plus(self, lag: int) -> "Progress":
        """With one more partition."""
        return Progress(self.offsets + 1, (self.lag or 0) + max(0, lag))


def share_progress(server: Server, group_ids: Collection[str]) -> dict[str, Progress]:
    """How far share groups have read, of at most `MAX_SHARE_STATES` share partitions (KIP-1226: the records behind the
    start offset whose delivery is not complete)."""
    found: dict[str, Progress] = {}
    shards: list[Any] = server.brokers.coordinators.loaded_states(SHARE_GROUP_STATE) if group_ids else []
    for key, known in islice((one for state in shards for one in state.by_key.items()), MAX_SHARE_STATES):
        topic = server.image.topics_by_id.get(key.topic_id) if key.group_id in group_ids else None
        if topic is not None and min(known.start_offset, known.delivery_complete_count) >= 0:
            end = log_end(server, topic.name, key.partition)
            lag = end - known.start_offset - known.delivery_complete_count
            found[key.group_id] = found.get(key.group_id, Progress()).plus(lag)
    return found


def _committed_progress(server: Server, found: GroupOfKind, most_offsets: int) -> Progress:
    offsets, lag, counted = 0, 0, 0
    for topic_name, partitions in found.shard.offsets.of_group(found.group_id).items():
        offsets += len(partitions)
        for index, committed in partitions.items():
            if counted < most_offsets:
                counted += 1
                lag += max(0, log_end(server, topic_name, index) - committed.offset)
    return Progress(offsets, lag if counted else None)


def described(
    server: Server, found: GroupOfKind, most_offsets: int, shares: Mapping[str, Progress] = MappingProxyType({})
) -> dict[str, Any]:
    """A group as JSON. `offsets` are the partitions with a committed offset, of which `most_offsets` count for the lag;
    the lag is null if there are none. `shares` has how far share groups are."""
    members = list(found.group.members.values())
    is_share = found.kind == "share"
    progress = shares.get(found.group_id, Progress()) if is_share else _committed_progress(server, found, most_offsets)
    return {
        "id": found.group_id,
        "kind": found.kind,
        "state": found.state,
        "members": [{"client_id": one.client_id, "host": one.client_host} for one in members[:MAX_SHOWN_MEMBERS]],
        "member_count": len(members),
        "offsets": progress.offsets,
        "lag": progress.lag,
    }


def log_end(server: Server, topic_name: str, index: int) -> int:
    """The high watermark of a partition; 0 if it never held a record or does not exist."""
    topic = server.image.topics_by_name.get(topic_name)
    log = None if topic is None else server.brokers.data.find(topic.topic_id, index)
    return 0 if log is None else log.high_watermark(server.now_ms())
