"""Members of share groups (KIP-932), as clients are written: a session with each leader, acknowledgements of all types,
a new session after each lost response."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from klamm.broker.share_partitions.acknowledgement import ACCEPT, REJECT, RELEASE, RENEW
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.shares import share_acknowledge, share_fetch
from klamm.protocol.messages.shares.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from klamm.protocol.uuid import Uuid
from tests.simulation.applications.deliveries import Acks, Arrival, Deliveries, Place
from tests.simulation.applications.members import BEAT_MS, RETRY_MS, Member
from tests.simulation.applications.world import GROUP, LEADER, WRITTEN, Application, Ask, World

E = ErrorCode
WAITS_MS = (0, 0, 0, 0, 0, 100)
FETCHES = 3
"""Fetches between two heartbeats."""
MOODS = (
    (ACCEPT, ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT, RENEW),
    (RELEASE, RELEASE, RELEASE, RELEASE, RELEASE, ACCEPT),
)
"""Acknowledgement types that a member chooses from."""
FINAL_EPOCH = -1


@dataclass(slots=True)
class _Session:
    """With one broker."""

    epoch: int = 0
    partitions: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Consumer:
    """What a member knows of records."""

    world: World
    deliveries: Deliveries
    me: Member
    mood: Sequence[int]
    sessions: dict[int, _Session] = field(default_factory=dict)
    held: list[Place] = field(default_factory=list)

    @property
    def topic_id(self) -> Uuid:
        return self.world.image.topics_by_name[WRITTEN].topic_id


def share_member(world: World, deliveries: Deliveries, me: Member) -> Application:
    """A member that joins, takes records and acknowledges them. When `commits` is off, it accepts all of them."""
    me.member_id, me.epoch = me.name, 0
    consumer = _Consumer(world, deliveries, me, me.chance.choice(MOODS))
    while not me.leaving:
        beaten: ShareGroupHeartbeatResponse | None = yield _beat(me)
        if beaten is None:
            continue
        if beaten.error_code in (E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.GROUP_ID_NOT_FOUND):
            me.epoch, me.owned = 0, frozenset()
        elif beaten.error_code:
            yield RETRY_MS
        else:
            me.epoch = beaten.member_epoch
            if beaten.assignment is not None:
                me.owned = frozenset(one for topic in beaten.assignment.topic_partitions for one in topic.partitions)
            began_ms = world.clock.now_ms
            for _ in range(FETCHES if me.commits else 1):
                if me.owned:
                    yield from _consume(consumer)
            yield max(1, BEAT_MS - (world.clock.now_ms - began_ms))
    for broker_id in sorted(consumer.sessions):
        yield from _close(consumer, broker_id)
    me.epoch = -1
    yield _beat(me)
    me.owned = frozenset()


def _beat(me: Member) -> Ask:
    request = ShareGroupHeartbeatRequest(
        group_id=me.group_id, member_id=me.member_id, member_epoch=me.epoch, subscribed_topic_names=[WRITTEN]
    )
    return Ask((GROUP, me.group_id), request, may_be_late=False)


def _consume(consumer: _Consumer) -> Application:
    """One fetch from the leader of an owned partition; acknowledgements go with it, or before it."""
    me, chance = consumer.me, consumer.me.chance
    partition = chance.choice(sorted(me.owned))
    broker_id = consumer.world.broker_at((LEADER, (WRITTEN, partition)))
    session = consumer.sessions.setdefault(broker_id, _Session())
    acks = _acknowledgements(consumer, broker_id)
    is_renewing = any(kind == RENEW for _, kind in acks)
    if acks and session.epoch and (is_renewing or chance.random() < 0.6):
        yield from _acknowledge(consumer, broker_id, partition, acks, is_renewing=is_renewing)
        acks = []
        session = consumer.sessions.setdefault(broker_id, _Session())
    if not session.epoch:
        acks = []
    session.partitions.add(partition)
    yield from _fetch(consumer, broker_id, partition, acks)


def _acknowledgements(consumer: _Consumer, broker_id: int) -> Acks:
    """Some of what the member holds from a broker, or all of it."""
    chance, led = consumer.me.chance, _led(consumer, broker_id)
    mine = sorted(place for place in consumer.held if place[0] in led)
    if consumer.me.commits:
        mine = [place for place in mine if chance.random() < 0.8]
    acks = [(place, chance.choice(consumer.mood) if consumer.me.commits else ACCEPT) for place in mine]
    consumer.held = [place for place in consumer.held if place not in set(mine)]
    consumer.held += [place for place, kind in acks if kind == RENEW]
    return acks


def _led(consumer: _Consumer, broker_id: int) -> set[int]:
    return {
        index for index, partition in enumerate(consumer.world.partitions(WRITTEN)) if partition.leader == broker_id
    }


def _by_partition(acks: Acks, batch: Any) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for (partition, offset), kind in sorted(acks):
        one = batch(first_offset=offset, last_offset=offset, acknowledge_types=[kind])
        found.setdefault(partition, []).append(one)
    return found


def _fetch(consumer: _Consumer, broker_id: int, partition: int, acks: Acks) -> Application:
    me, session = consumer.me, consumer.sessions[broker_id]
    batches = _by_partition(acks, share_fetch.AcknowledgementBatch)
    named = [
        share_fetch.FetchPartition(partition_index=index, acknowledgement_batches=batches.get(index, ()))
        for index in sorted({partition, *batches})
    ]
    request = share_fetch.ShareFetchRequest(
        group_id=me.group_id,
        member_id=me.member_id,
        share_session_epoch=session.epoch,
        max_wait_ms=me.chance.choice(WAITS_MS),
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=me.chance.choice((1, 5, 100)),
        batch_size=me.chance.choice((1, 5, 100)),
        share_acquire_mode=me.chance.choice((0, 0, 1)),
        topics=[share_fetch.FetchTopic(topic_id=consumer.topic_id, partitions=named)],
    )
    session.partitions.update(batches)
    fetched = sorted(session.partitions)
    arrived: list[Arrival] = []
    response = yield _ask(consumer, partition, request, fetched, acks, arrived)
    if response is None or not arrived:
        consumer.sessions.pop(broker_id, None)
        return
    consumer.deliveries.answered(fetched)
    if response.error_code:
        consumer.sessions.pop(broker_id, None)
        return
    session.epoch += 1
    for found in (one for topic in response.responses for one in topic.partitions):
        index = found.partition_index
        consumer.deliveries.acknowledged(me.name, index, found.acknowledge_error_code, acks, arrived[0])
        for records in found.acquired_records:
            consumer.held += consumer.deliveries.acquired(me.name, index, records, arrived[0])


def _acknowledge(consumer: _Consumer, broker_id: int, partition: int, acks: Acks, *, is_renewing: bool) -> Application:
    me, session = consumer.me, consumer.sessions[broker_id]
    named = [
        share_acknowledge.AcknowledgePartition(partition_index=index, acknowledgement_batches=batches)
        for index, batches in _by_partition(acks, share_acknowledge.AcknowledgementBatch).items()
    ]
    request = share_acknowledge.ShareAcknowledgeRequest(
        group_id=me.group_id,
        member_id=me.member_id,
        share_session_epoch=session.epoch,
        is_renew_ack=is_renewing,
        topics=[share_acknowledge.AcknowledgeTopic(topic_id=consumer.topic_id, partitions=named)],
    )
    arrived: list[Arrival] = []
    response = yield _ask(consumer, partition, request, (), acks, arrived)
    if response is None or not arrived or response.error_code:
        consumer.sessions.pop(broker_id, None)
        return
    session.epoch += 1
    for found in (one for topic in response.responses for one in topic.partitions):
        consumer.deliveries.acknowledged(me.name, found.partition_index, found.error_code, acks, arrived[0])


def _close(consumer: _Consumer, broker_id: int) -> Application:
    """End the session with a broker, which makes what the member has of it free."""
    led = sorted(_led(consumer, broker_id))
    if not led or not consumer.sessions[broker_id].epoch:
        return
    request = share_acknowledge.ShareAcknowledgeRequest(
        group_id=consumer.me.group_id, member_id=consumer.me.member_id, share_session_epoch=FINAL_EPOCH
    )
    deliveries, name = consumer.deliveries, consumer.me.name
    at = LEADER, (WRITTEN, led[0])
    yield Ask(at, request, arrives=lambda: deliveries.ends(name), may_stray=False, connection=name)


def _ask(
    consumer: _Consumer, partition: int, request: Any, fetched: Iterable[int], acks: Acks, arrived: list[Arrival]
) -> Ask:
    deliveries, name, fetched = consumer.deliveries, consumer.me.name, list(fetched)
    return Ask(
        (LEADER, (WRITTEN, partition)),
        request,
        arrives=lambda: arrived.append(deliveries.arrives(name, fetched, acks)),
        may_stray=False,
        connection=name,
    )
