"""A broker that Klamm does not simulate: it uses the controller's listener and has two log directories.

Its registration, a failed directory (KIP-858) and a directory that it closes to new replicas cause records that
simulated brokers never cause.
"""

import trio

from klamm import AdminClient, Cluster, NewTopic
from klamm.admin.connection import Connection, open_connection
from klamm.broker.simulated_broker import REGISTERED_FEATURES
from klamm.protocol.messages.brokers import broker_heartbeat, broker_registration
from klamm.protocol.messages.brokers.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from klamm.protocol.messages.brokers.broker_registration import BrokerRegistrationRequest, Feature, Listener
from klamm.protocol.uuid import Uuid
from klamm.server.addresses import decode_address
from tools.toolchain_checks.report import CheckFailed

OUTSIDE_BROKER = 50
DIRECTORIES = tuple(Uuid.from_text(text) for text in ("OUTSIDEdirectoryAAAAAg", "OUTSIDEdirectoryBBBBBg"))
_INCARNATION = Uuid.from_text("OUTSIDEincarnationAAAg")
_PORT = 19_092  # no client connects to it


async def play_outside_broker(cluster: Cluster, admin: AdminClient) -> None:
    """Register, serve, lead a partition, lose a directory, cordon the other, and stop the heartbeats."""
    cluster_id = (await admin.describe_cluster()).cluster_id
    connection = await open_connection(decode_address(cluster.controller_bootstrap_servers), "50", 1 << 20)
    try:
        broker_epoch = await _register(connection, cluster_id)
        await _beat(connection, broker_epoch)
        topic = NewTopic("outside", replica_assignments={0: (OUTSIDE_BROKER, 1), 1: (1, OUTSIDE_BROKER)})
        for result in await admin.create_topics([topic]):
            result.raise_for_error()
        await _beat(connection, broker_epoch, cordoned=())
        await _beat(connection, broker_epoch, offline=DIRECTORIES[:1])
        await _beat(connection, broker_epoch, cordoned=DIRECTORIES[1:])
    finally:
        await connection.aclose()


async def _register(connection: Connection, cluster_id: str) -> int:
    request = BrokerRegistrationRequest(
        broker_id=OUTSIDE_BROKER,
        cluster_id=cluster_id,
        incarnation_id=_INCARNATION,
        listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=_PORT)],
        features=[
            Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, lowest, highest in REGISTERED_FEATURES
        ],
        rack=None,
        log_dirs=DIRECTORIES,
    )
    response = await connection.exchange(broker_registration.API, broker_registration.API.latest_stable, request)
    if response.error_code:
        raise CheckFailed(f"broker {OUTSIDE_BROKER} cannot register: error {response.error_code}")
    return response.broker_epoch


async def _beat(
    connection: Connection,
    broker_epoch: int,
    *,
    offline: tuple[Uuid, ...] = (),
    cordoned: tuple[Uuid, ...] | None = None,
) -> BrokerHeartbeatResponse:
    request = BrokerHeartbeatRequest(
        broker_id=OUTSIDE_BROKER,
        broker_epoch=broker_epoch,
        current_metadata_offset=broker_epoch,
        offline_log_dirs=offline,
        cordoned_log_dirs=cordoned,
    )
    with trio.fail_after(10):
        response = await connection.exchange(broker_heartbeat.API, broker_heartbeat.API.latest_stable, request)
    if response.error_code or response.is_fenced:
        raise CheckFailed(f"broker {OUTSIDE_BROKER} cannot serve: {response}")
    return response
