"""Brokers that are not Klamm's simulated ones, over a socket: they register, serve, lead, and request changes of their
ISR."""

from typing import Any

import trio
from trio.testing import MockClock

import klamm
from klamm import NewTopic
from klamm.controller.transitions.features import SUPPORTED_FEATURES
from klamm.protocol.api import Api
from klamm.protocol.codec.frames import FrameBuffer, encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers import broker_heartbeat, broker_registration
from klamm.protocol.messages.brokers.broker_heartbeat import BrokerHeartbeatRequest
from klamm.protocol.messages.brokers.broker_registration import BrokerRegistrationRequest, Feature, Listener
from klamm.protocol.messages.partitions import alter_partition
from klamm.protocol.messages.partitions.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from klamm.protocol.uuid import Uuid

BROKER_ID, OTHERS = 9, (7, 8)


class Connection:
    """A connection to the controller's listener, with one request at a time."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._frames = FrameBuffer(1_000_000)

    async def ask(self, api: Api[Any, Any], request: Message, version: int | None = None) -> Any:
        version = api.latest_stable if version is None else version
        await self._stream.send_all(encode_frame(encode_request(api, version, 1, "9", request)))
        while (frame := self._frames.next_frame()) is None:
            self._frames.feed(await self._stream.receive_some())
        return decode_response(api, version, frame)[1]


async def join(connection: Connection, cluster_id: str, broker_id: int) -> int:
    """Register a broker and wait until it is unfenced. Returns its epoch."""
    registered = await connection.ask(
        broker_registration.API,
        BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=cluster_id,
            incarnation_id=Uuid(16 * bytes([broker_id])),
            listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9)],
            features=[
                Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            ],
            log_dirs=[Uuid(16 * bytes([16 * broker_id]))],
        ),
    )
    assert registered.error_code == ErrorCode.NONE
    epoch: int = registered.broker_epoch
    beat = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=epoch)
    assert not (await connection.ask(broker_heartbeat.API, beat)).is_fenced
    return epoch


async def test_a_foreign_broker_leads_and_alters_its_isr(mock_clock: MockClock) -> None:
    """A partition's replicas are on brokers of one kind, so that the followers are foreign, too. The clock does not
    advance: no session ends."""
    async with klamm.Cluster(brokers=2, controller_listener="127.0.0.1:0") as cluster:
        host, port = cluster.controller_bootstrap_servers.rsplit(":", 1)
        stream = await trio.open_tcp_stream(host, int(port))
        async with stream, klamm.AdminClient(cluster.bootstrap_servers) as admin:
            connection = Connection(stream)
            cluster_id = (await admin.describe_cluster()).cluster_id
            assert cluster_id is not None
            for broker_id in OTHERS:
                await join(connection, cluster_id, broker_id)
            epoch = await join(connection, cluster_id, BROKER_ID)
            (created,) = await admin.create_topics([NewTopic("t", replica_assignments={0: [BROKER_ID, *OTHERS]})])
            topic_id = created.raise_for_error().topic_id
            assert topic_id is not None

            async def alter(version: int, partition_epoch: int, *isr: int) -> AlterPartitionResponse:
                partition = PartitionData(partition_epoch=partition_epoch)
                if version < 3:
                    partition.new_isr = isr
                else:
                    partition.new_isr_with_epochs = [BrokerState(broker_id=broker_id) for broker_id in isr]
                request = AlterPartitionRequest(
                    broker_id=BROKER_ID,
                    broker_epoch=epoch,
                    topics=[TopicData(topic_id=topic_id, partitions=[partition])],
                )
                response: AlterPartitionResponse = await connection.ask(alter_partition.API, request, version)
                return response

            for version, partition_epoch, isr in ((2, 0, (9, 7)), (3, 1, (9,)), (3, 2, (9, 8))):
                response = await alter(version, partition_epoch, *isr)
                [answer] = response.topics[0].partitions
                assert (response.error_code, answer.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
                assert (answer.leader_id, answer.partition_epoch, tuple(answer.isr)) == (9, partition_epoch + 1, isr)
                (topic,) = (await admin.metadata(["t"])).topics
                assert tuple(topic.raise_for_error().partitions[0].isr) == isr
            late = await alter(3, 0, 9, 7)
            assert late.topics[0].partitions[0].error_code == ErrorCode.INVALID_UPDATE_VERSION
