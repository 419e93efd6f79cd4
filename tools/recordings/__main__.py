"""python -m tools.recordings HOST:PORT FOLDER: how an Apache Kafka broker answers record batches with faults.

HOST:PORT is the only broker of a new cluster. Each case of `record_cases` gets a partition of its own, is sent in one
Produce request, and what the partition then holds is fetched: batches.jsonl.gz in FOLDER gets one JSON object for each.
requests.jsonl.gz gets one for each of `request_cases`.
"""

import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any

from bench.raw_client import RawClient, Refused
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data import fetch, produce
from klamm.protocol.messages.data.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages.data.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.messages.topics import create_topics
from klamm.protocol.messages.topics.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tools.recordings.record_cases import Case, cases
from tools.recordings.request_cases import RequestCase, request_cases

KEPT_BYTES = 20_000
"""Larger batches are described by their length alone when they are stored."""


class Broker:
    """One connection to the broker."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._client = RawClient((host, int(port)))

    def ask(self, api: Any, version: int, request: Any, *, within_seconds: float | None = None) -> Any:
        if within_seconds is not None:
            self._client._socket.settimeout(within_seconds)
        answer = self._client.exchange(encode_frame(encode_request(api, version, 1, "recorder", request)))
        return decode_response(api, version, bytes(answer.payload))[1]

    def create(self, topic_name: str, partitions: int, configs: dict[str, str]) -> None:
        named = [CreatableTopicConfig(name=name, value=value) for name, value in configs.items()]
        topic = CreatableTopic(name=topic_name, num_partitions=partitions, replication_factor=1, configs=named)
        answer = self.ask(create_topics.API, 5, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        assert answer.topics[0].error_code == 0, answer

    def produce(self, topic_name: str, partition: int, case: Case) -> Any:
        data = [PartitionProduceData(index=partition, records=case.records)]
        topic = TopicProduceData(name=topic_name, partition_data=data)
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
        return self.ask(produce.API, case.api_version, request).responses[0].partition_responses[0]

    def stored(self, topic_name: str, partition: int) -> bytes | None:
        wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 22)
        request = FetchRequest(topics=[FetchTopic(topic=topic_name, partitions=[wanted])], max_bytes=1 << 22)
        answer = self.ask(fetch.API, 11, request).responses[0].partitions[0]
        return bytes(answer.records) if answer.records else None


def recorded(broker: Broker, topic_name: str, partition: int, case: Case) -> dict[str, Any]:
    answer, now_ms = None, 0
    while answer is None or answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:  # the partition is being made
        now_ms = time.time_ns() // 1_000_000
        answer = broker.produce(topic_name, partition, case)
    stored = None if answer.error_code else broker.stored(topic_name, partition)
    return {
        "case": case.name,
        "configs": case.configs,
        "api_version": case.api_version,
        "topic": topic_name,
        "partition": partition,
        "now_ms": now_ms,
        "records": case.records.hex(),
        "error_code": answer.error_code,
        "error_message": answer.error_message,
        "record_errors": [[error.batch_index, error.batch_index_error_message] for error in answer.record_errors],
        "base_offset": answer.base_offset,
        "log_append_time_ms": answer.log_append_time_ms,
        "log_start_offset": answer.log_start_offset,
        "stored": stored.hex() if stored and len(stored) < KEPT_BYTES else None,
        "stored_bytes": len(stored) if stored else None,
    }


def recorded_request(broker: Broker, case: RequestCase) -> dict[str, Any]:
    topics: dict[str, list[PartitionProduceData]] = {}
    for topic_name, partition, data in case.written:
        topics.setdefault(topic_name, []).append(PartitionProduceData(index=partition, records=data))
    wanted = [TopicProduceData(name=name, partition_data=partitions) for name, partitions in topics.items()]
    request = ProduceRequest(
        acks=case.acks, timeout_ms=10_000, transactional_id=case.transactional_id, topic_data=wanted
    )
    row: dict[str, Any] = {
        "case": case.name,
        "acks": case.acks,
        "api_version": case.api_version,
        "written": [[topic_name, partition, data.hex()] for topic_name, partition, data in case.written],
    }
    try:
        answer = broker.ask(produce.API, case.api_version, request, within_seconds=2 if case.acks == 0 else None)
    except TimeoutError:
        return row | {"answers": "none"}
    except (ConnectionError, Refused):
        return row | {"answers": "closed"}
    answers = [
        [topic.name, one.index, one.error_code, one.error_message, one.base_offset >= 0, one.log_start_offset]
        for topic in answer.responses
        for one in topic.partition_responses
    ]
    return row | {"answers": sorted(answers, key=lambda one: one[:2])}


def main() -> None:
    address, folder = sys.argv[1:]
    broker, now_ms = Broker(address), time.time_ns() // 1_000_000
    by_configs: dict[str, list[Case]] = {}
    for case in cases(now_ms):
        by_configs.setdefault(json.dumps(case.configs, sort_keys=True), []).append(case)
    rows = []
    for place, (configs, same) in enumerate(by_configs.items()):
        topic_name = f"records-{place}"
        broker.create(topic_name, len(same), json.loads(configs))
        time.sleep(1)
        rows += [recorded(broker, topic_name, partition, case) for partition, case in enumerate(same)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (Path(folder) / "batches.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    for topic_name in ("one", "two", "__consumer_offsets"):
        broker.create(topic_name, 3, {})
    time.sleep(2)
    text = "".join(json.dumps(recorded_request(Broker(address), case)) + "\n" for case in request_cases(now_ms))
    (Path(folder) / "requests.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
