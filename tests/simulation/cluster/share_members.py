"""Share groups (KIP-932) in a simulated cluster: members take records of topics that others delete, move and write to,
while brokers and the whole server come and go. Each process of the server has members of its own, with the same names.

Members behave as clients do: a session with each leader, acknowledgements of all types with fetches and without, a new
connection after an error. Now and then one crashes and comes back under another name, or leaves.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import trio

from klamm.broker.groups.share.shard import GroupsWithShare
from klamm.broker.share_partitions.acknowledgement import ACCEPT, REJECT, RELEASE, RENEW
from klamm.controller.metadata.partition import Partition
from klamm.protocol.api import Api
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.internal_topics import CONSUMER_OFFSETS, INTERNAL_TOPICS, SHARE_GROUP_STATE
from klamm.protocol.messages.configs import incremental_alter_configs
from klamm.protocol.messages.configs.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from klamm.protocol.messages.data import produce
from klamm.protocol.messages.groups import find_coordinator
from klamm.protocol.messages.shares import share_acknowledge, share_fetch, share_group_heartbeat
from klamm.protocol.messages.topics import create_topics
from tests.broker.data.batches import batch
from tests.simulation.cluster.asked import Asked
from tests.simulation.cluster.client import SimulatedClient
from tests.simulation.cluster.deliveries import Acks, Deliveries, RecordAt, Sent
from tests.simulation.cluster.surroundings import Refused, random_of
from tests.simulation.cluster.violation import Violation, demand
from tests.simulation.cluster.witness import Place
from tests.simulation.cluster.world import World
from tests.simulation.model_configs import SET

E = ErrorCode
SUBSCRIBED: Final = ("apple", "fig")
"""The first one is a topic that other clients delete and create."""
GROUPS: Final = ("eaters", "drinkers")
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


class ShareGroups:
    """The groups of a world, and what their members were given."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.deliveries = {group_id: Deliveries(group_id) for group_id in GROUPS}
        self.calm = False
        """Members accept all that they get, and stay."""
        self.quiet = False
        """Members have got everything, and do nothing any more."""
        self.configured: set[str] = set()
        """Groups that begin at the earliest offset, as an answer says."""
        self.is_certain = True
        """Internal topics have lost nothing, as far as anybody can know."""
        self._names = 0
        self._epochs: dict[str, int] | None = None
        self._offsets_topic: Place | None = None
        """The id and the number of partitions of `__consumer_offsets`, as it was made."""

    def begin(self) -> None:
        """A process of the server has begun."""
        tasks = self.world.living.tasks
        tasks.start_soon(self._feed, random_of(self.world.seed, f"feeder {self.world.lives}"))
        for group_id in GROUPS:
            for _ in range(MEMBERS_OF_EACH):
                tasks.start_soon(self._live, group_id)

    async def _live(self, group_id: str) -> None:
        while not self.quiet:
            self._names += 1
            member = _Member(self, group_id, f"{group_id}-{self._names}")
            await member.live()

    async def _feed(self, chance: Random) -> None:
        """The topics are created and written to."""
        connections = Connections(self.world)
        while not self.calm:
            await trio.sleep(chance.choice(PAUSE_SECONDS))
            name = chance.choice(SUBSCRIBED)
            topic = self.world.living.image.topics_by_name.get(name)
            if topic is None:
                client = connections.any(chance)
                if client is not None and (name != SUBSCRIBED[0] or chance.random() < 0.2):
                    made = create_topics.CreatableTopic(name=name, num_partitions=2, replication_factor=-1)
                    self.ask(
                        client, create_topics.API, create_topics.CreateTopicsRequest(topics=[made], timeout_ms=5_000)
                    )
                continue
            index = chance.randrange(self.world.living.image.partition_count(topic))
            client = connections.of(self.partition((topic.topic_id, index)).leader)
            if client is not None:
                self.world.batches += 1
                value, count = b"<%d>" % self.world.batches, chance.choice((1, 2, 7))
                data = produce.PartitionProduceData(index=index, records=batch(count, value=value))
                topics = [produce.TopicProduceData(name=name, topic_id=topic.topic_id, partition_data=[data])]
                acks = chance.choice((-1, -1, 1))
                self.ask(
                    client,
                    produce.API,
                    produce.ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=topics),
                )

    def ask(self, client: SimulatedClient, api: Api[Any, Any], request: Message) -> Asked:
        self.world.note(f"{client.name} asks {client.broker_id}: {api.name} {request}")
        return client.ask(api, api.latest_stable, request)

    def partition(self, place: Place) -> Partition:
        image = self.world.living.image
        return image.partitions.read(image.topics_by_id[place[0]].row, place[1])

    def leader_epoch(self, place: Place) -> int:
        image = self.world.living.image
        topic = image.topics_by_id.get(place[0])
        return -1 if topic is None else self.partition(place).leader_epoch

    def forget(self, place: Place) -> None:
        """A partition has a leader that need not have all records: if it is internal, coordinators may have lost what
        they had written."""
        topic = self.world.witness.shadow.topics_by_id.get(place[0])
        if topic is not None and topic.name in INTERNAL_TOPICS:
            self._doubt()

    def watch_internal_topics(self) -> None:
        """With another `__consumer_offsets`, or more partitions of it, groups begin anew, as in Kafka."""
        image = self.world.living.image
        topic = image.topics_by_name.get(CONSUMER_OFFSETS)
        if topic is not None:
            found = topic.topic_id, image.partition_count(topic)
            self._offsets_topic = self._offsets_topic or found
            if self._offsets_topic != found:
                self._doubt()

    def _doubt(self) -> None:
        self.is_certain = False
        for deliveries in self.deliveries.values():
            deliveries.forget()

    # -- the end ---------------------------------------------------------------------------------------------------

    def skipped(self) -> dict[str, list[int]]:
        """What members have not been given, though brokers that are up have it, by partition and group."""
        self.watch_internal_topics()
        if not self.is_certain:
            return {}
        found: dict[str, list[int]] = {}
        if self.quiet:
            return found
        for group_id, deliveries in self.deliveries.items():
            for name, place in self._places():
                if not self._is_served(group_id, place):
                    continue
                log = self.world.living.find_records(place)
                if log is not None:
                    wanted = range(log.log.log_start_offset, log.high_watermark(self.world.now_ms()))
                    skipped = deliveries.skipped(place, wanted)
                    if skipped:
                        found[f"{group_id} {name}-{place[1]}"] = skipped
        return found

    def stop_if_all_is_given(self) -> None:
        """Members stop when groups are as they were at the last call. Then replicas of internal topics can catch up."""
        before, self._epochs = self._epochs, self._group_epochs()
        self.quiet = self.quiet or (not self.skipped() and before == self._epochs)

    def demand_all(self) -> None:
        """Raises Violation if anything is skipped, or if groups still change."""
        skipped = self.skipped()
        demand("no_record_is_skipped", not skipped, f"{skipped}")
        demand("every_share_group_becomes_stable", self.quiet, f"{self._epochs}")

    def _group_epochs(self) -> dict[str, int] | None:
        """Of the groups that simulated brokers coordinate; None: internal topics are not what they were."""
        if not self.is_certain:
            return None
        states = self.world.living.brokers.coordinators.loaded_states(CONSUMER_OFFSETS)
        shards = [state.share for state in states if isinstance(state, GroupsWithShare)]
        return {group_id: group.group_epoch for shard in shards for group_id, group in shard.groups.items()}

    def _places(self) -> Iterator[tuple[str, Place]]:
        image = self.world.living.image
        for name in SUBSCRIBED:
            topic = image.topics_by_name.get(name)
            for index in range(image.partition_count(topic) if topic else 0):
                assert topic is not None
                yield name, (topic.topic_id, index)

    def _is_served(self, group_id: str, place: Place) -> bool:
        """Whether leader and coordinators are simulated brokers, or will be: internal topics are made when they are
        needed."""
        image, coordinators = self.world.living.image, self.world.living.brokers.coordinators
        key = f"{group_id}:{place[0]}:{place[1]}"
        brokers = (
            self.partition(place).leader,
            coordinators.leader_of(image, CONSUMER_OFFSETS, group_id),
            coordinators.leader_of(image, SHARE_GROUP_STATE, key),
        )
        return all(one is None or one in self.world.living.server.brokers.by_id for one in brokers)


class Connections:
    """Those of one application, each to one broker."""

    def __init__(self, world: World, on_end: Any = None) -> None:
        self._world = world
        self._on_end = on_end
        self._by_broker: dict[int, SimulatedClient] = {}

    def of(self, broker_id: int) -> SimulatedClient | None:
        """An open connection to this broker; None: there cannot be one."""
        known = self._by_broker.get(broker_id)
        if known is not None and known.is_of_use:
            return known
        if broker_id not in self._world.living.server.brokers.by_id:
            return None
        try:
            client = SimulatedClient(self._world, broker_id)
        except Refused:
            return None
        client.is_private = True
        if self._on_end is not None:
            client.on_end = self._on_end
        self._by_broker[broker_id] = client
        return client

    def any(self, chance: Random) -> SimulatedClient | None:
        return self.of(chance.choice(sorted(self._world.living.server.brokers.by_id)))

    def hang_up(self) -> None:
        for client in self._by_broker.values():
            client.hang_up()


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
            subscribed_topic_names=list(SUBSCRIBED) if self.epoch == 0 else None,
        )
        response = (await self._ask(client, share_group_heartbeat.API, request)).response
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
