"""A broker that is no part of the server: it registers on the controller's listener and beats, as real ones do."""

import trio

from klamm.controller.transitions.features import SUPPORTED_FEATURES
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers import broker_heartbeat, broker_registration
from klamm.protocol.messages.brokers.broker_registration import Feature, Listener
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
        if self._broker_epoch < 0:
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

    def _hear(self, asked: Asked) -> None:
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
