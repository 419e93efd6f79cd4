"""The groups of all coordinators, as the page and the metrics show them: state, members and lag."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from klamm.broker.groups.groups_with_streams import GroupsWithStreams
from klamm.protocol.internal_topics import CONSUMER_OFFSETS
from klamm.server.server import Server

KINDS: Final = ("classic", "consumer", "share", "streams")
MAX_SHOWN_MEMBERS: Final = 20


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


def described(server: Server, found: GroupOfKind, most_offsets: int) -> dict[str, Any]:
    """A group as JSON. `offsets` are the partitions with a committed offset, of which `most_offsets` count for the lag;
    the lag is null if there are none."""
    members = list(found.group.members.values())
    offsets, lag, counted = 0, 0, 0
    for topic_name, partitions in found.shard.offsets.of_group(found.group_id).items():
        offsets += len(partitions)
        for index, committed in partitions.items():
            if counted < most_offsets:
                counted += 1
                lag += max(0, log_end(server, topic_name, index) - committed.offset)
    return {
        "id": found.group_id,
        "kind": found.kind,
        "state": found.state,
        "members": [{"client_id": one.client_id, "host": one.client_host} for one in members[:MAX_SHOWN_MEMBERS]],
        "member_count": len(members),
        "offsets": offsets,
        "lag": lag if counted else None,
    }


def log_end(server: Server, topic_name: str, index: int) -> int:
    """The high watermark of a partition; 0 if it never held a record or does not exist."""
    topic = server.image.topics_by_name.get(topic_name)
    log = None if topic is None else server.brokers.data.find(topic.topic_id, index)
    return 0 if log is None else log.high_watermark(server.now_ms())
