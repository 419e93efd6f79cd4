"""Members of streams groups (KIP-1071): they bring a topology with a store, run tasks, and begin anew when fenced."""

from collections.abc import Iterable

from klamm.broker.groups.streams.group import StreamsGroup
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.streams.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.simulation.applications.members import BEAT_MS, REBALANCE_MS, RETRY_MS, Member, commit, fetch_offset
from tests.simulation.applications.truth import Offsets
from tests.simulation.applications.world import GROUP, SUBSCRIBED, SUBSCRIBED_PARTITIONS, Application, Ask, World

E = ErrorCode
SUBTOPOLOGY = "0"
PROCESSES = 3


def streams_member(world: World, offsets: Offsets, me: Member) -> Application:
    """A thread of an application. After a lost answer it joins again: Kafka's coordinator does not repeat tasks."""
    me.member_id, me.epoch = me.name, 0
    standby: frozenset[int] = frozenset()
    wanted: tuple[frozenset[int], frozenset[int]] | None = None
    while not me.leaving:
        if wanted is not None and me.chance.random() < 0.8:
            (me.owned, standby), wanted = wanted, None
        beaten: StreamsGroupHeartbeatResponse | None = yield _beat(me, standby, says=me.chance.random() < 0.7)
        if beaten is None or beaten.error_code in (E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.GROUP_ID_NOT_FOUND):
            me.epoch, me.owned, standby, wanted = 0, frozenset(), frozenset(), None
        elif beaten.error_code:
            yield RETRY_MS
        else:
            me.epoch = beaten.member_epoch
            if beaten.active_tasks is not None:
                wanted = _partitions(beaten.active_tasks), _partitions(beaten.standby_tasks or ())
            yield BEAT_MS
            if me.owned and me.commits and me.chance.random() < 0.7:
                yield from commit(world, offsets, me)
            if me.commits and me.chance.random() < 0.3:
                yield from fetch_offset(offsets, me.group_id, me.chance.randrange(SUBSCRIBED_PARTITIONS))
    me.epoch = -1
    yield _beat(me, standby, says=False)
    me.owned = frozenset()


def _beat(me: Member, standby: frozenset[int], *, says: bool) -> Ask:
    joins = me.epoch == 0
    changelog = TopicInfo(name=f"{me.group_id}-store-changelog")
    one = Subtopology(subtopology_id=SUBTOPOLOGY, source_topics=[SUBSCRIBED], state_changelog_topics=[changelog])
    request = StreamsGroupHeartbeatRequest(
        group_id=me.group_id,
        member_id=me.member_id,
        member_epoch=me.epoch,
        rebalance_timeout_ms=REBALANCE_MS if joins else -1,
        topology=Topology(subtopologies=[one]) if joins else None,
        process_id=f"p{len(me.name) % PROCESSES}{me.name[-1]}" if joins else None,
        active_tasks=_listed(me.owned) if joins or says else None,
        standby_tasks=_listed(standby) if joins or says else None,
        warmup_tasks=[] if joins or says else None,
    )
    return Ask((GROUP, me.group_id), request, may_be_late=False)


def _listed(partitions: frozenset[int]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=SUBTOPOLOGY, partitions=sorted(partitions))] if partitions else []


def _partitions(tasks: Iterable[TaskIds]) -> frozenset[int]:
    return frozenset(partition for each in tasks for partition in each.partitions)


def active_tasks(group: StreamsGroup) -> list[tuple[str, int]]:
    """The tasks that members have, or have still to give up, as often as they have them."""
    return [
        (subtopology, partition)
        for member in group.members.values()
        for tasks in (member.assigned.active, member.pending_revocation.active)
        for subtopology, partitions in tasks.items()
        for partition in partitions
    ]
