# mypy: ignore-errors
"""The story of pykafka 2.8: a topic that Metadata creates, a simple and a balanced consumer."""

import sys
import time

from pykafka import KafkaClient
from pykafka.common import CompressionType, OffsetType

CODECS = (CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY)
RECORDS = 10
NUMBER = RECORDS * len(CODECS)

for version in ("0.9.0", "0.10.2", "1.0.0"):
    client = KafkaClient(hosts=sys.argv[1], broker_version=version)
    name = f"pykafka-{version}-{time.time_ns()}".encode()
    topic = client.topics[name]
    for codec in CODECS:
        with topic.get_sync_producer(compression=codec) as producer:
            for n in range(RECORDS):
                producer.produce(b"%d" % n)
    for consumer in (
        topic.get_simple_consumer(
            consumer_group=b"s-" + name, auto_offset_reset=OffsetType.EARLIEST, consumer_timeout_ms=5_000
        ),
        topic.get_balanced_consumer(
            consumer_group=b"b-" + name, managed=True, auto_offset_reset=OffsetType.EARLIEST, consumer_timeout_ms=5_000
        ),
    ):
        assert [one.offset for _, one in zip(range(NUMBER), consumer, strict=False)] == list(range(NUMBER))
        consumer.commit_offsets()
        consumer.stop()
    assert topic.latest_available_offsets()[0].offset[0] == NUMBER
    print(f"story of pykafka 2.8 as {version} told: {NUMBER} records")
