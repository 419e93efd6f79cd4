"""The invariants that concern the coordinators' state, by name."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from klamm.broker.coordinator.batches import EndOfTransaction, decode_records
from klamm.broker.coordinator.outbox import Written
from klamm.broker.coordinator.shard import Shard
from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.record_batches import decode_header
from klamm.broker.groups.classic_group import GroupState
from klamm.broker.groups.consumer.group import ConsumerGroup
from klamm.broker.groups.consumer.replay import replay
from klamm.broker.groups.groups_with_streams import GroupsWithStreams
from klamm.broker.groups.offsets import Offsets
from klamm.broker.groups.share.group import ShareGroup, StateTopics
from klamm.broker.groups.share.replay import replay as replay_share
from klamm.broker.groups.streams.group import StreamsGroup
from klamm.broker.groups.streams.replay import replay as replay_streams
from klamm.broker.share_state.states import ShareStates
from klamm.broker.transactions.transaction import AT_REST
from klamm.broker.transactions.transactions import Transactions
from klamm.controller.metadata.image import MetadataImage
from klamm.protocol.coordinator_records import decode_key, decode_value
from klamm.protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from klamm.protocol.records.coordinator.groups import OffsetCommitKey, OffsetCommitValue
from tests.broker.groups.consumer_host import same
from tests.simulation.applications.members import Member
from tests.simulation.applications.streams_members import active_tasks
from tests.simulation.applications.world import SUBSCRIBED_PARTITIONS, WRITTEN, WRITTEN_PARTITIONS, World
from tests.simulation.cluster.violation import demand


class Coordinated(Protocol):
    """A cluster whose coordinators can be seen."""

    @property
    def image(self) -> MetadataImage: ...
    @property
    def data(self) -> DataPlane: ...
    def shards(self, topic_name: str) -> list[Shard]:
        """The loaded shards of an internal topic."""


def states(world: Coordinated) -> list[tuple[Shard, GroupsWithStreams]]:
    """The shards of groups that are loaded."""
    return [
        (shard, shard.state) for shard in world.shards(CONSUMER_OFFSETS) if isinstance(shard.state, GroupsWithStreams)
    ]


def a_partition_belongs_to_one_member(world: World) -> None:
    """As the coordinator sees it, and of consumer groups (KIP-848)."""
    for _, state in states(world):
        for group in state.consumer.groups.values():
            owners = Counter(
                (topic_id, partition)
                for member in group.members.values()
                for epochs in (member.assigned, member.pending_revocation)
                for topic_id, partitions in epochs.items()
                for partition in partitions
            )
            double = [place for place, count in owners.items() if count > 1]
            demand("a_partition_belongs_to_one_member", not double, f"{group.group_id}: {double}")


def a_task_is_active_at_one_member(world: World) -> None:
    """As the coordinator sees it, and of streams groups (KIP-1071)."""
    for _, state in states(world):
        for group in state.streams.groups.values():
            double = [task for task, count in Counter(active_tasks(group)).items() if count > 1]
            demand("a_task_is_active_at_one_member", not double, f"{group.group_id}: {double}")


def a_coordinator_is_what_its_records_make(world: Coordinated) -> None:
    """A coordinator that replays the partition now has the same consumer groups and the same offsets."""
    for shard, state in states(world):
        found = world.data.find(*shard.key)
        if found is None:
            continue
        groups: dict[str, ConsumerGroup] = {}
        streams: dict[str, StreamsGroup] = {}
        share: dict[str, ShareGroup] = {}
        offsets = Offsets()
        at, end = found.log.log_start_offset, found.log.log_end_offset
        while at < end:
            batch = decode_header(found.log.read(at, 1, end) or b"")
            for record in decode_records(batch):
                if isinstance(record, EndOfTransaction):
                    offsets.end_transaction(record.producer_id, committed=record.committed)
                    continue
                key = decode_key(CONSUMER_OFFSETS, record.key or b"")
                value = (
                    None if key is None or record.value is None else decode_value(CONSUMER_OFFSETS, key, record.value)
                )
                if isinstance(key, OffsetCommitKey):
                    assert value is None or isinstance(value, OffsetCommitValue)
                    producer_id = batch.producer_id if batch.is_transactional else -1
                    offsets.replay(key, value, Written(record.offset, record.timestamp_ms, producer_id))
                elif key is not None and not replay(groups, key, value) and not replay_streams(streams, key, value):
                    replay_share(share, key, value, record.timestamp_ms)
            at = batch.base_offset + batch.last_offset_delta + 1
        name = "a_coordinator_is_what_its_records_make"
        demand(name, offsets.by_group == state.offsets.by_group, f"{offsets.by_group} {state.offsets.by_group}")
        pending = {producer_id: of for producer_id, of in state.offsets.pending.items() if any(of.values())}
        demand(name, offsets.pending == pending, f"{offsets.pending} {pending}")
        demand(name, groups.keys() == state.consumer.groups.keys(), f"{groups.keys()}")
        for group_id, group in groups.items():
            demand(name, same(group, state.consumer.groups[group_id]), group_id)
        demand(name, _shown(streams) == _shown(state.streams.groups), f"{_shown(streams)}")
        shown = _shown_shares(share), _shown_shares(state.share.groups)
        demand(name, shown[0] == shown[1], f"{shown}")


def a_share_coordinator_is_what_its_records_make(world: Coordinated) -> None:
    """A share coordinator that replays its partition now has the same state of the same share partitions."""
    if SHARE_GROUP_STATE not in world.image.topics_by_name:
        return
    for shard in world.shards(SHARE_GROUP_STATE):
        found = world.data.find(*shard.key)
        assert isinstance(shard.state, ShareStates)
        if found is None:
            continue
        made = ShareStates(_no_topics, 1)
        at, end = found.log.log_start_offset, found.log.log_end_offset
        while at < end:
            batch = decode_header(found.log.read(at, 1, end) or b"")
            for record in decode_records(batch):
                assert not isinstance(record, EndOfTransaction)
                key = decode_key(SHARE_GROUP_STATE, record.key or b"")
                assert key is not None
                value = None if record.value is None else decode_value(SHARE_GROUP_STATE, key, record.value)
                made.replay(key, value, Written(record.offset, record.timestamp_ms, -1))
            at = batch.base_offset + batch.last_offset_delta + 1
        name = "a_share_coordinator_is_what_its_records_make"
        demand(name, made.by_key == shard.state.by_key, f"{made.by_key} {shard.state.by_key}")


def _no_topics() -> Any:
    raise AssertionError("replay needs no topics")


def _shown(groups: Mapping[str, StreamsGroup]) -> dict[str, object]:
    """What the records of streams groups say."""
    return {
        name: (group.members, group.target, group.topology, group.group_epoch, group.assignment_epoch, group.state)
        for name, group in groups.items()
    }


def _shown_shares(groups: Mapping[str, ShareGroup]) -> dict[str, object]:
    """What the records of share groups say. When an initialization was asked for is not among it."""
    return {
        name: (
            group.members,
            group.target,
            group.group_epoch,
            group.assignment_epoch,
            group.metadata_hash,
            _shown_topics(group.state_topics),
        )
        for name, group in groups.items()
    }


def _shown_topics(topics: StateTopics | None) -> object:
    if topics is None:
        return None
    kinds = topics.initializing, topics.initialized
    return [{topic_id: one.partitions for topic_id, one in kind.items()} for kind in kinds], topics.deleting


ALWAYS = (
    a_partition_belongs_to_one_member,
    a_task_is_active_at_one_member,
    a_coordinator_is_what_its_records_make,
    a_share_coordinator_is_what_its_records_make,
)


def everything_is_at_rest(world: World, members: list[Member]) -> None:
    """When nothing happens any more: groups are stable and whole, transactions are over."""
    found: dict[str, object] = {}
    for _, state in states(world):
        found.update(state.groups)
        found.update(state.consumer.groups)
        found.update(state.streams.groups)
        found.update(state.share.groups)
    for group_id in sorted({member.group_id for member in members}):
        _group_is_stable(group_id, found.get(group_id), [one for one in members if one.group_id == group_id])
    for shard in world.shards(TRANSACTION_STATE):
        assert isinstance(shard.state, Transactions)
        open_ones = [one for one in shard.state.by_id.values() if one.state not in AT_REST]
        demand("every_transaction_ends", not open_ones, f"{open_ones}")
    topic = world.image.topics_by_name[WRITTEN]
    for partition in range(WRITTEN_PARTITIONS):
        log = world.data.find(topic.topic_id, partition)
        if log is not None:
            high_watermark = log.high_watermark(world.clock.now_ms)
            stable = log.last_stable_offset(high_watermark) == high_watermark == log.log.log_end_offset
            demand("every_transaction_ends", stable, f"partition {partition}")


def _group_is_stable(group_id: str, group: object, members: list[Member]) -> None:
    name = "every_group_becomes_stable"
    expected = {member.member_id for member in members}
    if isinstance(group, (ConsumerGroup, ShareGroup, StreamsGroup)):
        demand(name, group.state == "Stable", f"{group_id} is {group.state}")
        demand(name, group.members.keys() == expected, f"{group_id}: {group.members.keys()} not {expected}")
    else:
        state = getattr(group, "state", None)
        demand(name, state is GroupState.STABLE, f"{group_id} is {state}")
        ids = group.members.keys()  # type: ignore[attr-defined]
        demand(name, ids == expected, f"{group_id}: {ids} not {expected}")
    owned = Counter(partition for member in members for partition in member.owned)
    if isinstance(group, ShareGroup):  # members share partitions
        demand("every_partition_has_an_owner_in_the_end", len(owned) == WRITTEN_PARTITIONS, f"{group_id}: {members}")
        return
    whole = owned == Counter(range(SUBSCRIBED_PARTITIONS))
    demand("every_partition_has_one_owner_in_the_end", whole, f"{group_id}: {members}")
