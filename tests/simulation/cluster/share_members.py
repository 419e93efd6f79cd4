"""Share groups (KIP-932) in a simulated cluster: members take records of topics that others delete, move and write to,
while brokers and the whole server come and go. Each process of the server has members of its own, with the same names.

Members behave as clients do: a session with each leader, acknowledgements of all types with fetches and without, a new
connection after an error. Now and then one crashes and comes back under another name, or leaves.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import trio

from klamm.broker.share_partitions.acknowledgement import ACCEPT, REJECT, RELEASE, RENEW
from klamm.protocol.api import Api
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.internal_topics import CONSUMER_OFFSETS
from klamm.protocol.messages.configs import incremental_alter_configs
from klamm.protocol.messages.configs.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from klamm.protocol.messages.data import produce
from klamm.protocol.messages.groups import find_coordinator
from klamm.protocol.messages.shares import share_acknowledge, share_fetch, share_group_heartbeat
from klamm.protocol.messages.topics import create_topics
from tests.broker.data.batches import batch
from tests.simulation.cluster.asked import Asked
from tests.simulation.cluster.client import SimulatedClient
from tests.simulation.cluster.deliveries import Acks, RecordAt, Sent
from tests.simulation.cluster.share_groups import GROUPS, SUBSCRIBED, Connections, ShareGroups
from tests.simulation.cluster.surroundings import random_of
from tests.simulation.cluster.violation import Violation
from tests.simulation.cluster.witness import Place
from tests.simulation.model_configs import SET

E = ErrorCode
MEMBERS_OF_EACH: Final = 2
GROUP_CONFIG: Final = 32
PATIENCE_SECONDS: Final = 20.0
PAUSE_SECONDS: Final = (0.05, 0.3, 1.0, 1.0)
WAITS_MS: Final = (0, 0, 0, 200)
MOODS: Final = (
    (ACCEPT, ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT, RENEW),
    (RELEASE, RELEASE, RELEASE, RELEASE, RELEASE, ACCEPT),
)
"""Acknowledgement types that a member chooses from."""
FINAL_EPOCH: Final = -1
TIMEOUT_MS: Final = 5_000


def begin(groups: ShareGroups) -> None:
    """A process of the server has begun."""
    tasks = groups.world.living.tasks
    tasks.start_soon(_feed, groups, random_of(groups.world.seed, f"feeder {groups.world.lives}"))
    for group_id in GROUPS:
        for _ in range(MEMBERS_OF_EACH):
            tasks.start_soon(_live, groups, group_id)


async def _live(groups: ShareGroups, group_id: str) -> None:
    while not groups.quiet:
        groups.names += 1
        member = _Member(groups, group_id, f"{group_id}-{groups.names}")
        await member.live()


async def _feed(groups: ShareGroups, chance: Random) -> None:
    """The topics are created and written to."""
    connections = Connections(groups.world)
    while not groups.calm:
        await trio.sleep(chance.choice(PAUSE_SECONDS))
        name = chance.choice(SUBSCRIBED)
        topic = groups.world.living.image.topics_by_name.get(name)
        if topic is None:
            client = connections.any(chance)
            if client is not None and (name != SUBSCRIBED[0] or chance.random() < 0.2):
                made = create_topics.CreatableTopic(name=name, num_partitions=2, replication_factor=-1)
                groups.ask(
                    client, create_topics.API, create_topics.CreateTopicsRequest(topics=[made], timeout_ms=5_000)
                )
            continue
        index = chance.randrange(groups.world.living.image.partition_count(topic))
        client = connections.of(groups.partition((topic.topic_id, index)).leader)
        if client is not None:
            groups.world.batches += 1
            value, count = b"<%d>" % groups.world.batches, chance.choice((1, 2, 7))
            data = produce.PartitionProduceData(index=index, records=batch(count, value=value))
            topics = [produce.TopicProduceData(name=name, topic_id=topic.topic_id, partition_data=[data])]
            acks = chance.choice((-1, -1, 1))
            groups.ask(
                client,
                produce.API,
                produce.ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=topics),
            )


@dataclass(slots=True)
class _Session:
    """With one broker, on one connection."""

    client: SimulatedClient
    epoch: int = 0
    places: set[Place] = field(default_factory=set)


class _Member:
    """One member, from its first heartbeat until it leaves or crashes."""

    def __init__(self, groups: ShareGroups, group_id: str, name: str) -> None:
        self.groups, self.group_id, self.name = groups, group_id, name
        self.world = groups.world
        self.life = self.world.lives
        self.chance = random_of(self.world.seed, name)
        self.mood = self.chance.choice(MOODS)
        self.deliveries = groups.deliveries[group_id]
        self.connections = Connections(self.world, self.deliveries.ends)
        self.sessions: dict[int, _Session] = {}
        self.epoch = 0
        self.names_topics = True
        """The next heartbeat does. Kafka's client does so when it joins and after each heartbeat that failed: the lost
        answer may have had the assignment, which the coordinator repeats only to a member that names its topics."""
        self.owned: list[Place] = []
        self.held: set[RecordAt] = set()
        self.world.note(f"{name} begins")

    async def live(self) -> None:
        while not self.groups.quiet:
            await self._beat()
            for _ in range(self.chance.choice((1, 2, 3))):
                if self.owned:
                    await self._consume()
            await trio.sleep(PAUSE_SECONDS[-1] if self.groups.calm else self.chance.choice(PAUSE_SECONDS))
            fate = 1.0 if self.groups.calm else self.chance.random()
            if fate < 0.01:
                self.world.note(f"{self.name} crashes")
                break
            if fate < 0.02:
                await self._leave()
                break
        self.connections.hang_up()

    async def _ask(self, client: SimulatedClient, api: Api[Any, Any], request: Message) -> Asked:
        """With the response, if it came."""
        asked = self.groups.ask(client, api, request)
        await client.wait_for(asked, PATIENCE_SECONDS)
        if asked.response is None:
            client.hang_up()
        return asked

    # -- membership ------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        self.groups.watch_internal_topics()
        client = await self._coordinator()
        if client is None:
            return
        request = share_group_heartbeat.ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.name,
            member_epoch=self.epoch,
            subscribed_topic_names=list(SUBSCRIBED) if self.names_topics else None,
        )
        response = (await self._ask(client, share_group_heartbeat.API, request)).response
        self.names_topics = response is None or bool(response.error_code)
        if response is None:
            return
        if response.error_code in (E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.GROUP_ID_NOT_FOUND):
            self.epoch, self.owned = 0, []
        elif not response.error_code:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.owned = [
                    (topic.topic_id, index)
                    for topic in response.assignment.topic_partitions
                    for index in topic.partitions
                ]

    async def _coordinator(self) -> SimulatedClient | None:
        """A connection to the group's coordinator; before it is known, the group is made ready."""
        living = self.world.living
        if self.group_id not in self.groups.configured:
            await self._configure()
            return None
        leader = living.brokers.coordinators.leader_of(living.image, CONSUMER_OFFSETS, self.group_id)
        if leader is None:
            client = self.connections.any(self.chance)
            if client is not None:
                wanted = find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group_id])
                await self._ask(client, find_coordinator.API, wanted)
            return None
        return self.connections.of(leader)

    async def _configure(self) -> None:
        client = self.connections.any(self.chance)
        if client is None:
            return
        change = AlterableConfig(name="share.auto.offset.reset", config_operation=SET, value="earliest")
        resource = AlterConfigsResource(resource_type=GROUP_CONFIG, resource_name=self.group_id, configs=[change])
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
        response = (await self._ask(client, incremental_alter_configs.API, request)).response
        if response is not None and not response.responses[0].error_code:
            self.groups.configured.add(self.group_id)

    async def _leave(self) -> None:
        for broker_id, session in sorted(self.sessions.items()):
            if session.epoch and session.client.is_of_use:
                self.deliveries.ends(session.client.name)
                request = share_acknowledge.ShareAcknowledgeRequest(
                    group_id=self.group_id, member_id=self.name, share_session_epoch=FINAL_EPOCH
                )
                self.world.note(f"{self.name} closes its session with {broker_id}")
                await self._ask(session.client, share_acknowledge.API, request)
        self.epoch = -1
        await self._beat()

    # -- records ---------------------------------------------------------------------------------------------------

    async def _consume(self) -> None:
        """One fetch from the leader of an owned partition; acknowledgements go with it, or before it."""
        image = self.world.living.image
        places = [place for place in self.owned if place[0] in image.topics_by_id]
        if not places:
            return
        place = self.chance.choice(places)
        broker_id = self.groups.partition(place).leader
        client = self.connections.of(broker_id)
        if client is None:
            return
        session = self.sessions.get(broker_id)
        if session is None or session.client is not client:
            session = self.sessions[broker_id] = _Session(client)
        acks = self._acknowledgements(broker_id) if session.epoch else []
        is_renewing = any(kind == RENEW for _, kind in acks)
        if acks and (is_renewing or self.chance.random() < 0.6):
            if not await self._acknowledge(session, acks, is_renewing=is_renewing):
                self.sessions.pop(broker_id, None)
                return
            acks = []
        if not client.is_of_use or not await self._fetch(session, place, acks):
            self.sessions.pop(broker_id, None)

    def _acknowledgements(self, broker_id: int) -> Acks:
        """Some of what the member holds from a broker, or all of it."""
        image, chance, calm = self.world.living.image, self.chance, self.groups.calm
        self.held = {record for record in self.held if record[0][0] in image.topics_by_id}
        mine = sorted(record for record in self.held if self.groups.partition(record[0]).leader == broker_id)
        mine = [record for record in mine if calm or chance.random() < 0.8]
        acks = [(record, ACCEPT if calm else chance.choice(self.mood)) for record in mine]
        self.held -= {record for record, kind in acks if kind != RENEW}
        return acks

    def _sent(self, session: _Session, fetched: set[Place], acks: Acks) -> Sent:
        epochs = {place: self.groups.leader_epoch(place) for place in {*fetched, *(record[0] for record, _ in acks)}}
        sent = Sent(
            self.name, session.client.name, self.life, trio.current_time(), tuple(sorted(fetched)), acks, epochs
        )
        self.deliveries.sends(sent)
        return sent

    async def _fetch(self, session: _Session, place: Place, acks: Acks) -> bool:
        """Whether the session goes on."""
        batches = _by_place(acks, share_fetch.AcknowledgementBatch)
        named: dict[Any, list[Any]] = {}
        for topic_id, index in sorted({place, *batches}):
            one = share_fetch.FetchPartition(
                partition_index=index, acknowledgement_batches=batches.get((topic_id, index), ())
            )
            named.setdefault(topic_id, []).append(one)
        request = share_fetch.ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.name,
            share_session_epoch=session.epoch,
            max_wait_ms=self.chance.choice(WAITS_MS),
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=self.chance.choice((1, 5, 100)),
            batch_size=self.chance.choice((1, 5, 100)),
            share_acquire_mode=self.chance.choice((0, 0, 1)),
            topics=[share_fetch.FetchTopic(topic_id=topic_id, partitions=found) for topic_id, found in named.items()],
        )
        session.places |= {place, *batches}
        sent = self._sent(session, session.places, acks)
        asked = await self._ask(session.client, share_fetch.API, request)
        if asked.response is None:
            return False
        self.deliveries.answered(sent)
        if asked.response.error_code:
            return False
        session.epoch += 1
        self._judge(session, sent, asked)
        return True

    def _judge(self, session: _Session, sent: Sent, asked: Asked) -> None:
        may_end = session.client.may_be_closed or not session.client.is_of_use
        try:
            for topic in asked.response.responses:
                for found in topic.partitions:
                    place = topic.topic_id, found.partition_index
                    epoch = self.groups.leader_epoch(place)
                    self.deliveries.acknowledged(sent, asked.decided_at, place, found.acknowledge_error_code)
                    for records in found.acquired_records:
                        offsets = self.deliveries.acquired(
                            sent, asked.decided_at, place, epoch, records, may_end=may_end
                        )
                        self.held |= {(place, offset) for offset in offsets}
        except Violation as violation:
            self.world.violations.append(violation)

    async def _acknowledge(self, session: _Session, acks: Acks, *, is_renewing: bool) -> bool:
        """Whether the session goes on."""
        named: dict[Any, list[Any]] = {}
        for (topic_id, index), batches in sorted(_by_place(acks, share_acknowledge.AcknowledgementBatch).items()):
            one = share_acknowledge.AcknowledgePartition(partition_index=index, acknowledgement_batches=batches)
            named.setdefault(topic_id, []).append(one)
        request = share_acknowledge.ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.name,
            share_session_epoch=session.epoch,
            is_renew_ack=is_renewing,
            topics=[
                share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=found)
                for topic_id, found in named.items()
            ],
        )
        sent = self._sent(session, set(), acks)
        asked = await self._ask(session.client, share_acknowledge.API, request)
        if asked.response is None or asked.response.error_code:
            return False
        session.epoch += 1
        try:
            for topic in asked.response.responses:
                for found in topic.partitions:
                    place = topic.topic_id, found.partition_index
                    self.deliveries.acknowledged(sent, asked.decided_at, place, found.error_code)
        except Violation as violation:
            self.world.violations.append(violation)
        return True


def _by_place(acks: Acks, batch_class: Any) -> dict[Place, list[Any]]:
    found: dict[Place, list[Any]] = {}
    for (place, offset), kind in sorted(acks):
        one = batch_class(first_offset=offset, last_offset=offset, acknowledge_types=[kind])
        found.setdefault(place, []).append(one)
    return found
