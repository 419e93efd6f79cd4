"""The messages on which the codecs are compared: those that a test suite's clients send and receive. Small requests are
from the recorded frames in tests/golden, so that none of them was chosen in favour of a codec."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from klamm.protocol import Api, Message, Uuid, encode_message
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.configs import describe_configs
from klamm.protocol.messages.data import fetch
from klamm.protocol.messages.topics import create_topics, metadata

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden" / "wire" / "wire.jsonl.gz"
SMALL_FRAME_BYTES = 150
REPLICAS = ((1, 2, 3), (2, 3, 1), (3, 1, 2))


@dataclass(frozen=True, slots=True)
class Case:
    """One message in one version."""

    what: str
    api: Api[Message, Message]
    version: int
    message: Message

    @property
    def flexible(self) -> bool:
        return self.api.flexible(self.version)

    @property
    def is_request(self) -> bool:
        return isinstance(self.message, self.api.request)

    def raw(self) -> bytes:
        """The bytes of the body."""
        return encode_message(self.message, self.version, self.flexible)


def cases() -> Iterator[Case]:
    """The cases that the requirements of the codec name."""
    yield Case("CreateTopics request, 10 topics", create_topics.API, 7, _create_topics(10))
    yield Case("CreateTopics request, 1,000 topics", create_topics.API, 7, _create_topics(1000))
    yield Case("Metadata response, 1,000 topics × 10", metadata.API, 12, _metadata(1000, 10))
    yield Case("Fetch response, 50 partitions of 16 KiB", fetch.API, 13, _fetch(5, 10, 1 << 14))
    yield Case("DescribeConfigs response, 300 entries", describe_configs.API, 4, _configs(300))
    yield Case("ApiVersions response, 75 APIs", api_versions.API, 4, _api_versions(75))


def small_requests() -> list[bytes]:
    """A thousand recorded frames of mixed APIs and versions, each with header and body, in turn."""
    frames = []
    with gzip.open(GOLDEN, "rt") as lines:
        for line in lines:
            vector = json.loads(line)
            if vector.get("kind") == "request" and len(vector["hex"]) <= 2 * SMALL_FRAME_BYTES:
                frames.append(bytes.fromhex(vector["hex"]))
    return frames


def _create_topics(count: int) -> Message:
    config = create_topics.CreatableTopicConfig
    return create_topics.CreateTopicsRequest(
        topics=[
            create_topics.CreatableTopic(
                name=f"orders-{index}",
                num_partitions=6,
                replication_factor=3,
                configs=[config(name="retention.ms", value="86400000")],
            )
            for index in range(count)
        ]
    )


def _metadata(topics: int, partitions: int) -> Message:
    return metadata.MetadataResponse(
        cluster_id="5L6g3nShT-eMCtK--X86sw",
        controller_id=1,
        brokers=[
            metadata.MetadataResponseBroker(node_id=broker, host="127.0.0.1", port=9092 + broker, rack=f"rack-{broker}")
            for broker in (1, 2, 3)
        ],
        topics=[
            metadata.MetadataResponseTopic(
                name=f"orders-{topic}",
                topic_id=Uuid(b"klamm" + topic.to_bytes(11, "big")),
                partitions=[
                    metadata.MetadataResponsePartition(
                        partition_index=partition,
                        leader_id=REPLICAS[partition % 3][0],
                        leader_epoch=0,
                        replica_nodes=REPLICAS[partition % 3],
                        isr_nodes=REPLICAS[partition % 3],
                    )
                    for partition in range(partitions)
                ],
            )
            for topic in range(topics)
        ],
    )


def _fetch(topics: int, partitions: int, size: int) -> Message:
    return fetch.FetchResponse(
        responses=[
            fetch.FetchableTopicResponse(
                topic_id=Uuid(b"klamm" + topic.to_bytes(11, "big")),
                partitions=[
                    fetch.PartitionData(
                        partition_index=partition,
                        high_watermark=1000,
                        last_stable_offset=1000,
                        log_start_offset=0,
                        aborted_transactions=(),
                        records=bytes([partition + 1]) * size,
                    )
                    for partition in range(partitions)
                ],
            )
            for topic in range(topics)
        ]
    )


def _configs(count: int) -> Message:
    entries = [
        describe_configs.DescribeConfigsResourceResult(
            name=f"some.topic.config.{index}",
            value=str(index),
            config_source=5,
            config_type=3,
            synonyms=[
                describe_configs.DescribeConfigsSynonym(name=f"log.some.config.{index}", value=str(index), source=5)
            ],
        )
        for index in range(count)
    ]
    return describe_configs.DescribeConfigsResponse(
        results=[describe_configs.DescribeConfigsResult(resource_type=2, resource_name="orders", configs=entries)]
    )


def _api_versions(count: int) -> Message:
    keys = [api_versions.ApiVersion(api_key=key, min_version=0, max_version=key % 8) for key in range(count)]
    return api_versions.ApiVersionsResponse(api_keys=keys)
