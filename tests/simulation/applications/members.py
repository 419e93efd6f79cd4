"""Members of groups, as clients are written: they join, beat, commit what they own, and begin anew when fenced."""

from dataclasses import dataclass, field
from random import Random

from klamm.broker.groups.consumer.group import ConsumerGroup
from klamm.broker.groups.streams.group import StreamsGroup
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from klamm.protocol.messages.groups.heartbeat import HeartbeatRequest
from klamm.protocol.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from klamm.protocol.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.protocol.messages.offsets.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offsets.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.uuid import Uuid
from tests.simulation.applications.truth import Commit, Offsets
from tests.simulation.applications.world import GROUP, SUBSCRIBED, SUBSCRIBED_PARTITIONS, Application, Ask, World
from tests.simulation.cluster.violation import demand

E = ErrorCode
SESSION_MS, REBALANCE_MS = 3_000, 4_000
BEAT_MS, RETRY_MS = 400, 100
FENCED = frozenset(
    {
        E.ILLEGAL_GENERATION,
        E.UNKNOWN_MEMBER_ID,
        E.REBALANCE_IN_PROGRESS,
        E.FENCED_INSTANCE_ID,
        E.STALE_MEMBER_EPOCH,
        E.FENCED_MEMBER_EPOCH,
        E.GROUP_ID_NOT_FOUND,
    }
)
"""Errors of OffsetCommit after which the offset is not committed, for certain."""


@dataclass
class Member:
    """What a member knows. `epoch` is the generation in a classic group."""

    name: str
    group_id: str
    instance_id: str | None
    member_id: str = ""
    epoch: int = -1
    owned: frozenset[int] = frozenset()
    leaving: bool = False
    """Whether it leaves the group instead of its next heartbeat."""
    is_fenced: bool = False
    """Whether another member has its instance id: it ends, as Kafka's clients do."""
    commits: bool = True
    chance: Random = field(default_factory=Random)

    def identity(self) -> MemberIdentity:
        return MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)


def commit(world: World, offsets: Offsets, me: Member) -> Application:
    """Commit an offset of one owned partition, and judge the answer."""
    place = me.group_id, me.chance.choice(sorted(me.owned))
    offset = offsets.next_offset()
    arrived: list[tuple[Commit, bool]] = []
    partition = OffsetCommitRequestPartition(partition_index=place[1], committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=me.group_id,
        generation_id_or_member_epoch=me.epoch,
        member_id=me.member_id,
        group_instance_id=me.instance_id,
        topics=[OffsetCommitRequestTopic(name=SUBSCRIBED, partitions=[partition])],
    )
    is_known = knows(world, me)
    ask = Ask(
        (GROUP, me.group_id),
        request,
        9,
        lambda: arrived.append((offsets.arrives(place, offset), is_known())),
    )
    response = yield ask
    if response is None or not arrived:
        return
    code = response.topics[0].partitions[0].error_code
    made, was_known = arrived[0]
    if code == E.NONE:
        reason = f"{me.name} of {me.group_id} in epoch {request.generation_id_or_member_epoch} committed {place}"
        demand("a_fenced_member_changes_nothing", was_known, reason)
        offsets.acknowledged(place, made)
    elif code in FENCED:
        offsets.refused(place, made)


def knows(world: World, me: Member):  # type: ignore[no-untyped-def]
    """What tells whether the coordinator has the member in its present epoch."""
    group_id, member_id, epoch, instance_id = me.group_id, me.member_id, me.epoch, me.instance_id

    def is_known() -> bool:
        for shard in world.shards("__consumer_offsets"):
            state = shard.state
            kinds = state.consumer.groups, state.streams.groups, state.groups  # type: ignore[attr-defined]
            group = next((groups[group_id] for groups in kinds if group_id in groups), None)
            if isinstance(group, (ConsumerGroup, StreamsGroup)):
                return member_id in group.members
            if group is not None:
                return (
                    member_id in group.members
                    and group.generation_id == epoch
                    and (instance_id is None or group.static_members.get(instance_id) == member_id)
                )
        return False

    return is_known


def fetch_offset(offsets: Offsets, group_id: str, partition: int, *, stable: bool = False) -> Application:
    """Read one committed offset, and judge it."""
    place = group_id, partition
    possible: list[list[Commit]] = []
    topics = [OffsetFetchRequestTopics(name=SUBSCRIBED, partition_indexes=[partition])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)], require_stable=stable
    )
    response = yield Ask((GROUP, group_id), request, 9, lambda: possible.append(offsets.possible(place)))
    if response is None or not possible or response.groups[0].error_code:
        return
    found = response.groups[0].topics[0].partitions[0]
    if not found.error_code:
        offsets.shown(place, found.committed_offset, possible[0])


# -- classic groups ------------------------------------------------------------------------------------------------


def classic_member(world: World, offsets: Offsets, me: Member) -> Application:
    """A member of a classic group."""
    while not me.leaving:
        me.owned, me.epoch = frozenset(), -1
        if me.is_fenced:
            return
        joined: JoinGroupResponse | None = yield Ask((GROUP, me.group_id), _join_request(me))
        if joined is None:
            continue
        if joined.error_code:
            me.member_id = joined.member_id if joined.error_code == E.MEMBER_ID_REQUIRED else me.member_id
            _learn(me, joined.error_code)
            yield RETRY_MS
            continue
        me.member_id, me.epoch = joined.member_id, joined.generation_id
        synced = yield Ask((GROUP, me.group_id), _sync_request(me, joined))
        if synced is None or synced.error_code:
            _learn(me, E.NONE if synced is None else synced.error_code)
            yield RETRY_MS
            continue
        me.owned = frozenset(synced.assignment)
        yield from _be_stable(world, offsets, me)
    if me.member_id:
        yield Ask((GROUP, me.group_id), LeaveGroupRequest(group_id=me.group_id, members=[me.identity()]))
    me.owned = frozenset()


def _learn(me: Member, code: int) -> None:
    me.is_fenced |= code == E.FENCED_INSTANCE_ID
    if code == E.UNKNOWN_MEMBER_ID:
        me.member_id = ""


def _join_request(me: Member) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=me.group_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=me.member_id,
        group_instance_id=me.instance_id,
        protocol_type="bytes",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )


def _sync_request(me: Member, joined: JoinGroupResponse) -> SyncGroupRequest:
    """The leader's has an assignment: the numbers of the partitions."""
    ids = [one.member_id for one in joined.members]
    given = [
        SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(range(SUBSCRIBED_PARTITIONS)[at :: len(ids)]))
        for at, member_id in enumerate(ids)
    ]
    return SyncGroupRequest(
        group_id=me.group_id,
        generation_id=me.epoch,
        member_id=me.member_id,
        group_instance_id=me.instance_id,
        protocol_type="bytes",
        protocol_name="range",
        assignments=given if joined.leader == me.member_id else (),
    )


def _be_stable(world: World, offsets: Offsets, me: Member) -> Application:
    """Beat and commit until the group rebalances."""
    while not me.leaving:
        yield BEAT_MS
        if me.owned and me.commits and me.chance.random() < 0.7:
            yield from commit(world, offsets, me)
        if me.commits and me.chance.random() < 0.3:
            yield from fetch_offset(offsets, me.group_id, me.chance.randrange(SUBSCRIBED_PARTITIONS))
        request = HeartbeatRequest(
            group_id=me.group_id, generation_id=me.epoch, member_id=me.member_id, group_instance_id=me.instance_id
        )
        beaten = yield Ask((GROUP, me.group_id), request)
        code = E.NONE if beaten is None else beaten.error_code
        _learn(me, code)
        if code in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID, E.ILLEGAL_GENERATION, E.REBALANCE_IN_PROGRESS):
            return


# -- KIP-848 -------------------------------------------------------------------------------------------------------


def consumer_member(world: World, offsets: Offsets, me: Member) -> Application:
    """A member of a consumer group (KIP-848)."""
    topic_id = world.image.topics_by_name[SUBSCRIBED].topic_id
    me.member_id, me.epoch, says_all = me.name, 0, True
    wanted: frozenset[int] | None = None
    while not me.leaving:
        if wanted is not None and me.chance.random() < 0.8:
            me.owned, wanted = wanted, None
        says_owned = says_all or me.chance.random() < 0.5
        beaten: ConsumerGroupHeartbeatResponse | None = yield _beat(me, topic_id, says_all, says_owned)
        if beaten is None:
            says_all = True
            continue
        says_all = False
        if beaten.error_code in (E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.GROUP_ID_NOT_FOUND):
            me.epoch, me.owned, wanted, says_all = 0, frozenset(), None, True
        elif beaten.error_code in (E.FENCED_INSTANCE_ID, E.UNRELEASED_INSTANCE_ID):
            return
        elif beaten.error_code:
            says_all = True
            yield RETRY_MS
        else:
            me.epoch = beaten.member_epoch
            if beaten.assignment is not None:
                wanted = frozenset(
                    partition for topic in beaten.assignment.topic_partitions for partition in topic.partitions
                )
            yield BEAT_MS
            if me.owned and me.commits and me.chance.random() < 0.7:
                yield from commit(world, offsets, me)
            if me.commits and me.chance.random() < 0.3:
                yield from fetch_offset(offsets, me.group_id, me.chance.randrange(SUBSCRIBED_PARTITIONS))
    me.epoch = -2 if me.instance_id is not None and me.chance.random() < 0.5 else -1
    yield _beat(me, topic_id, False, False)
    me.owned = frozenset()


def _beat(me: Member, topic_id: Uuid, says_all: bool, says_owned: bool) -> Ask:
    owned = [TopicPartitions(topic_id=topic_id, partitions=sorted(me.owned))] if me.owned else []
    joins = me.epoch == 0
    request = ConsumerGroupHeartbeatRequest(
        group_id=me.group_id,
        member_id=me.member_id,
        member_epoch=me.epoch,
        instance_id=me.instance_id,
        rebalance_timeout_ms=REBALANCE_MS if says_all or joins else -1,
        topic_partitions=[] if joins else owned if says_owned else None,
        subscribed_topic_names=[SUBSCRIBED] if says_all or joins else None,
    )
    # The response of a late one may be the only one with an assignment. Kafka's clients would not learn it either.
    return Ask((GROUP, me.group_id), request, may_be_late=False)
