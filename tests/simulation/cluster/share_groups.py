"""The share groups of a world: what their members were given, whether that may still be trusted, and the connections on
which members talk."""

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from klamm.broker.groups.share.shard import GroupsWithShare
from klamm.controller.configs.in_force import min_insync_replicas
from klamm.controller.metadata.partition import Partition
from klamm.controller.transitions.broker_kinds import is_mixed
from klamm.protocol.api import Api
from klamm.protocol.fields import Message
from klamm.protocol.internal_topics import CONSUMER_OFFSETS, INTERNAL_TOPICS, SHARE_GROUP_STATE
from tests.simulation.cluster.asked import Asked
from tests.simulation.cluster.client import SimulatedClient
from tests.simulation.cluster.deliveries import Deliveries
from tests.simulation.cluster.surroundings import Refused
from tests.simulation.cluster.violation import demand
from tests.simulation.cluster.witness import Place
from tests.simulation.cluster.world import World

SUBSCRIBED: Final = ("apple", "fig")
"""The first one is a topic that other clients delete and create."""
GROUPS: Final = ("eaters", "drinkers")


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
        self.names = 0
        """Of members, so far."""
        self._epochs: dict[str, int] | None = None
        self._offsets_topic: Place | None = None
        """The id and the number of partitions of `__consumer_offsets`, as it was made."""

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
        if not (self.is_certain and self._can_write()):
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
        """Of the groups that simulated brokers coordinate; None: internal topics are not what they were, or cannot be
        written to, so that each heartbeat times out and is tried again, as in Kafka."""
        if not (self.is_certain and self._can_write()):
            return None
        states = self.world.living.brokers.coordinators.loaded_states(CONSUMER_OFFSETS)
        shards = [state.share for state in states if isinstance(state, GroupsWithShare)]
        return {group_id: group.group_epoch for shard in shards for group_id, group in shard.groups.items()}

    def _can_write(self) -> bool:
        """Whether each partition of internal topics has as many replicas in sync as its topic demands."""
        image, settings = self.world.living.image, self.world.living.server.observed.settings
        for name in INTERNAL_TOPICS:
            topic = image.topics_by_name.get(name)
            for index in range(image.partition_count(topic) if topic else 0):
                assert topic is not None
                partition = self.partition((topic.topic_id, index))
                wanted = min_insync_replicas(image.configs, settings, name, partition.leader)
                if len(partition.isr) < min(wanted, len(partition.replicas)):
                    return False
        return True

    def _places(self) -> Iterator[tuple[str, Place]]:
        image = self.world.living.image
        for name in SUBSCRIBED:
            topic = image.topics_by_name.get(name)
            for index in range(image.partition_count(topic) if topic else 0):
                assert topic is not None
                yield name, (topic.topic_id, index)

    def _is_served(self, group_id: str, place: Place) -> bool:
        """Whether leader and coordinators are simulated brokers, or will be: internal topics are made when they are
        needed. Beside brokers from outside they are made on those, if there are enough of them."""
        image, coordinators = self.world.living.image, self.world.living.brokers.coordinators
        key = f"{group_id}:{place[0]}:{place[1]}"
        brokers = (
            self.partition(place).leader,
            coordinators.leader_of(image, CONSUMER_OFFSETS, group_id),
            coordinators.leader_of(image, SHARE_GROUP_STATE, key),
        )
        known = (*self.world.living.server.brokers.by_id, *(() if is_mixed(image) else (None,)))
        return all(one in known for one in brokers)


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
