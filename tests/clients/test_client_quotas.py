"""kafka-python 3: client quotas and the quorum. It has no methods for quotas, but it has their messages."""

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest

from klamm.cluster.server_process import ServerProcess

USER = "quota-user"


@pytest.fixture(scope="module")
def admin(server: ServerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=server.bootstrap_servers.split(","))
    yield client
    client.close()


def send(admin: KafkaAdminClient, request: Any) -> dict[str, Any]:
    """The answer to a request of the client's own, in the newest version that both sides know."""
    answer: dict[str, Any] = admin._manager.run(admin._manager.send, request).to_dict()
    return answer


def alteration(*operations: tuple[str, float, bool]) -> AlterClientQuotasRequest:
    entry = AlterClientQuotasRequest.EntryData
    return AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[
                    entry.EntityData(entity_type="user", entity_name=USER),
                    entry.EntityData(entity_type="client-id", entity_name=None),
                ],
                ops=[entry.OpData(key=key, value=value, remove=remove) for key, value, remove in operations],
            )
        ],
        validate_only=False,
    )


def test_quotas_are_set_described_and_removed(admin: KafkaAdminClient) -> None:
    rates = [("producer_byte_rate", 1024.0, False), ("request_percentage", 12.5, False)]
    assert [entry["error_code"] for entry in send(admin, alteration(*rates))["entries"]] == [0]
    component = DescribeClientQuotasRequest.ComponentData(entity_type="user", match_type=0, match=USER)
    described = DescribeClientQuotasRequest(components=[component], strict=False)
    [found] = send(admin, described)["entries"]
    assert {one["entity_type"]: one["entity_name"] for one in found["entity"]} == {"user": USER, "client-id": None}
    assert {one["key"]: one["value"] for one in found["values"]} == {key: value for key, value, _ in rates}
    send(admin, alteration(*[(key, 0.0, True) for key, _, _ in rates]))
    assert not send(admin, described)["entries"]


def test_the_quorum_is_the_controller_alone(admin: KafkaAdminClient) -> None:
    quorum = admin.describe_metadata_quorum()
    [partition] = quorum["topics"][0]["partitions"]
    [voter] = partition["current_voters"]
    assert (partition["leader_id"], voter["replica_id"], partition["error"]) == (3000, 3000, None)
    assert 0 < partition["high_watermark"] <= voter["log_end_offset"]
    assert [node["node_id"] for node in quorum["nodes"]] == [3000]
