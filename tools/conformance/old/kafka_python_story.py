# mypy: ignore-errors
"""The story of kafka-python 1.4.7 as a client of several releases: formats 0, 1 and 2, in each codec."""

import sys
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

VERSIONS = ((0, 8, 2), (0, 9), (0, 10, 0), (0, 10, 1), (0, 11), (1, 0, 0))
CODECS = (None, "gzip", "snappy", "lz4")
RECORDS = 40


def written(servers: str, topic: str, version: tuple) -> int:
    KafkaAdminClient(bootstrap_servers=servers).create_topics([NewTopic(topic, 2, 1)])
    for codec in CODECS:
        producer = KafkaProducer(
            bootstrap_servers=servers, api_version=version, compression_type=codec, linger_ms=20, acks="all"
        )
        sent = [producer.send(topic, b"%d" % n, key=b"k%d" % n, partition=n % 2) for n in range(RECORDS)]
        for one in sent:
            one.get(10)
        producer.close()
    return len(CODECS) * RECORDS


def read(servers: str, topic: str, version: tuple, number: int, group: str | None) -> list:
    consumer = KafkaConsumer(
        bootstrap_servers=servers, api_version=version, group_id=group, auto_offset_reset="earliest",
        enable_auto_commit=False, consumer_timeout_ms=10_000,
    )  # fmt: skip
    if group:
        consumer.subscribe([topic])
    else:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    found = [(one.partition, one.offset, one.key, one.value) for _, one in zip(range(number), consumer, strict=False)]
    if group:
        consumer.commit()
        assert consumer.committed(TopicPartition(topic, 0)) == number // 2
    consumer.close()
    return sorted(found)


for version in VERSIONS:
    name = ".".join(map(str, version))
    topic = f"kafka-python-{name}-{time.time_ns()}"
    number = written(sys.argv[1], topic, version)
    found = read(sys.argv[1], topic, version, number, f"g-{topic}")
    assert [(partition, offset) for partition, offset, _, _ in found] == [
        (partition, offset) for partition in range(2) for offset in range(number // 2)
    ]
    assert read(sys.argv[1], topic, (0, 11), number, None) == found, "other versions read the same"
    print(f"story of kafka-python 1.4.7 as {name} told: {number} records")
