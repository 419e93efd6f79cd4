"""A broker that is no part of the server: it registers on the controller's listener, beats, and reports the ISRs of the
partitions that it leads, as real ones do. Its followers have always caught up."""

import trio

from klamm.controller.transitions.features import SUPPORTED_FEATURES
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers import broker_heartbeat, broker_registration
from klamm.protocol.messages.brokers.broker_registration import Feature, Listener
from klamm.protocol.messages.partitions import alter_partition
from klamm.protocol.messages.partitions.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from tests.controller.handlers.cluster import directory, incarnation
from tests.simulation.cluster.asked import Asked
from tests.simulation.cluster.client import SimulatedClient
from tests.simulation.cluster.surroundings import Refused
from tests.simulation.cluster.world import HOST, World

BEAT_SECONDS = 1.0


class OutsideBroker:
    """Registers again in a new life whenever it is not known any more."""

    def __init__(self, world: World, broker_id: int) -> None:
        self.broker_id = broker_id
        self.silent = False
        self.life = 0
        self._world = world
        self._client: SimulatedClient | None = None
        self._broker_epoch = -1
        self._asked: Asked | None = None

    @property
    def client_name(self) -> str | None:
        return self._client.name if self._client else None

    async def live(self) -> None:
        """Until the server ends."""
        while True:
            if not self.silent:
                self._beat()
            await trio.sleep(BEAT_SECONDS)

    def _beat(self) -> None:
        client = self._client
        if client is None or not client.is_of_use:
            try:
                self._client = client = SimulatedClient(self._world, None)
            except Refused:
                return
            self._asked = None
        asked = self._asked
        if asked is not None and asked.response is None:
            return
        if asked is not None:
            self._hear(asked)
        isrs = self._growing_isrs() if asked is not None and asked.api is broker_heartbeat.API else []
        if isrs:
            self._asked = client.ask(
                alter_partition.API,
                3,
                AlterPartitionRequest(broker_id=self.broker_id, broker_epoch=self._broker_epoch, topics=isrs),
            )
        elif self._broker_epoch < 0:
            self.life += 1
            self._asked = client.ask(broker_registration.API, 4, self._registration())
        else:
            self._asked = client.ask(
                broker_heartbeat.API,
                2,
                broker_heartbeat.BrokerHeartbeatRequest(
                    broker_id=self.broker_id,
                    broker_epoch=self._broker_epoch,
                    current_metadata_offset=self._world.living.log.end_offset - 1,
                ),
            )

    def _growing_isrs(self) -> list[TopicData]:
        """Partitions that it leads, in which a live replica is outside the ISR or the leader recovers."""
        image, found = self._world.living.image, []
        live = {one.broker_id for one in image.brokers.values() if one.live}
        if self.broker_id not in live:
            return []
        for topic in list(image.topics_by_name.values()):
            for index in range(image.partition_count(topic)):
                partition = image.partitions.read(topic.row, index)
                joining = [one for one in partition.replicas if one in live and one not in partition.isr]
                if partition.leader != self.broker_id or not (joining or partition.leader_recovery_state):
                    continue
                isr = [(one, image.brokers[one].broker_epoch) for one in (*partition.isr, *joining) if one in live]
                change = PartitionData(
                    partition_index=index,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    new_isr_with_epochs=[BrokerState(broker_id=one, broker_epoch=epoch) for one, epoch in isr],
                )
                found.append(TopicData(topic_id=topic.topic_id, partitions=[change]))
        return found

    def _hear(self, asked: Asked) -> None:
        if asked.api is alter_partition.API:
            return  # a refused change is reported again with the next state
        if asked.api is broker_registration.API:
            if asked.response.error_code == ErrorCode.NONE:
                self._broker_epoch = asked.response.broker_epoch
        elif asked.response.error_code != ErrorCode.NONE:
            self._broker_epoch = -1

    def _registration(self) -> broker_registration.BrokerRegistrationRequest:
        return broker_registration.BrokerRegistrationRequest(
            broker_id=self.broker_id,
            cluster_id=self._world.living.log.cluster_id,
            incarnation_id=incarnation(self.broker_id, self.life),
            listeners=[Listener(name="PLAINTEXT", host=HOST, port=9_100 + self.broker_id)],
            features=[
                Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            ],
            rack="a",
            log_dirs=[directory(self.broker_id)],
        )
