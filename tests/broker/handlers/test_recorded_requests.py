"""The answers of Apache Kafka 4.3 to Produce requests with a batch that it cannot look at (tests/golden/records)."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from klamm.controller.outcome import NoReply
from klamm.protocol.messages.data.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.controller.handlers.cluster import DrivenCluster

GOLDEN = Path(__file__).parents[2] / "golden" / "records" / "requests.jsonl.gz"
RECORDED_MS = 1_795_000_000_000
"""Some time before the recording."""
YEAR_MS = 366 * 24 * 3_600_000
ROWS = [json.loads(line) for line in gzip.decompress(GOLDEN.read_bytes()).decode().splitlines()]


@pytest.fixture(scope="module")
def cluster() -> DrivenCluster:
    cluster = DrivenCluster(1, racks=("a",), profile="kafka")
    for topic_name in ("one", "two", "__consumer_offsets"):
        assert cluster.create_at(topic_name, [1], [1], [1]).error_code == 0
    cluster.clock.now_ms = RECORDED_MS + YEAR_MS
    return cluster


def request_of(row: dict[str, Any]) -> ProduceRequest:
    topics: dict[str, list[PartitionProduceData]] = {}
    for topic_name, partition, data in row["written"]:
        one = PartitionProduceData(index=partition, records=bytes.fromhex(data))
        topics.setdefault(topic_name, []).append(one)
    wanted = [TopicProduceData(name=name, partition_data=partitions) for name, partitions in topics.items()]
    return ProduceRequest(acks=row["acks"], timeout_ms=1000, topic_data=wanted)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["case"])
def test_a_request_is_answered_as_by_kafka(cluster: DrivenCluster, row: dict[str, Any]) -> None:
    if row["answers"] == "closed":
        with pytest.raises(NoReply):
            cluster.ask(request_of(row), version=row["api_version"])
        return
    answer = cluster.ask(request_of(row), version=row["api_version"])
    answers = [
        [topic.name, one.index, one.error_code, one.error_message, one.base_offset >= 0, one.log_start_offset]
        for topic in answer.responses
        for one in topic.partition_responses
    ]
    assert sorted(answers, key=lambda one: one[:2]) == row["answers"]
