"""Brokers that Klamm does not simulate: they use the controller's listener, and the first has two log directories.

Its registration, a failed directory (KIP-858) and a directory that it closes to new replicas cause records that
simulated brokers never cause. The second broker has replicas of the same partitions, because all replicas of a
partition are on brokers of one kind.
"""

import trio

from klamm import AdminClient, Cluster, NewTopic
from klamm.admin.connection import Connection, open_connection
from klamm.controller.transitions.features import SUPPORTED_FEATURES
from klamm.protocol.messages.brokers import broker_heartbeat, broker_registration
from klamm.protocol.messages.brokers.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from klamm.protocol.messages.brokers.broker_registration import BrokerRegistrationRequest, Feature, Listener
from klamm.protocol.uuid import Uuid
from klamm.server.addresses import decode_address
from tools.toolchain_checks.report import CheckFailed

OUTSIDE_BROKER, SECOND_BROKER = 50, 51
OUTSIDE_TOPIC = "outside"
DIRECTORIES = tuple(Uuid.from_text(text) for text in ("OUTSIDEdirectoryAAAAAg", "OUTSIDEdirectoryBBBBBg"))
SECOND_DIRECTORIES = (Uuid.from_text("OUTSIDEdirectoryCCCCCg"),)
_INCARNATION = Uuid.from_text("OUTSIDEincarnationAAAg")
_SECOND_INCARNATION = Uuid.from_text("OUTSIDEincarnationBBBg")
_PORT = 19_092  # no client connects to it


async def play_outside_broker(cluster: Cluster, admin: AdminClient) -> None:
    """Register, serve, lead a partition, lose a directory, cordon the other, and stop the heartbeats."""
    cluster_id = (await admin.describe_cluster()).cluster_id
    connection = await open_connection(decode_address(cluster.controller_bootstrap_servers), "50", 1 << 20)
    try:
        second_epoch = await _register(connection, cluster_id, SECOND_BROKER, _SECOND_INCARNATION, SECOND_DIRECTORIES)
        await _beat(connection, second_epoch, broker_id=SECOND_BROKER)
        broker_epoch = await _register(connection, cluster_id, OUTSIDE_BROKER, _INCARNATION, DIRECTORIES)
        await _beat(connection, broker_epoch)
        assignments = {0: (OUTSIDE_BROKER, SECOND_BROKER), 1: (SECOND_BROKER, OUTSIDE_BROKER)}
        topic = NewTopic(OUTSIDE_TOPIC, replica_assignments=assignments)
        for result in await admin.create_topics([topic]):
            result.raise_for_error()
        await _beat(connection, broker_epoch, cordoned=())
        await _beat(connection, broker_epoch, offline=DIRECTORIES[:1])
        await _beat(connection, broker_epoch, cordoned=DIRECTORIES[1:])
    finally:
        await connection.aclose()


async def _register(
    connection: Connection, cluster_id: str, broker_id: int, incarnation_id: Uuid, directories: tuple[Uuid, ...]
) -> int:
    request = BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation_id,
        listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=_PORT)],
        features=[
            Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in SUPPORTED_FEATURES.items()
        ],
        rack=None,
        log_dirs=directories,
    )
    response = await connection.exchange(broker_registration.API, broker_registration.API.latest_stable, request)
    if response.error_code:
        raise CheckFailed(f"broker {broker_id} cannot register: error {response.error_code}")
    return response.broker_epoch


async def _beat(
    connection: Connection,
    broker_epoch: int,
    *,
    broker_id: int = OUTSIDE_BROKER,
    offline: tuple[Uuid, ...] = (),
    cordoned: tuple[Uuid, ...] | None = None,
) -> BrokerHeartbeatResponse:
    request = BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        current_metadata_offset=broker_epoch,
        offline_log_dirs=offline,
        cordoned_log_dirs=cordoned,
    )
    with trio.fail_after(10):
        response = await connection.exchange(broker_heartbeat.API, broker_heartbeat.API.latest_stable, request)
    if response.error_code or response.is_fenced:
        raise CheckFailed(f"broker {broker_id} cannot serve: {response}")
    return response
