"""python -m tools.recordings.compaction HOST:PORT FILE: what an Apache Kafka broker leaves of logs that it compacts.

HOST:PORT is the only broker of a new cluster. Each case is a topic of one partition, with some rounds: batches are
produced while the topic is not compacted, the last of them begins a new segment, then the topic is compacted, and
fetched when that changes nothing any more. Kafka's answer to a Fetch ends with the segment, so it lacks the last batch.
The cases are random, but the same in each run, except for their time. FILE gets one JSON object for each, as gzip.
"""

import gzip
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from klamm.protocol.messages.configs import incremental_alter_configs as altering
from tests.broker.data.batches import GZIP, batch, record
from tools.recordings.__main__ import Broker
from tools.recordings.record_cases import Case

CASES, ROUNDS = 48, 3
BACKOFF_MS = 100
STABLE_SECONDS = 3.0
SEGMENT_MS = 1_000
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
KEYS = (b"a", b"b", b"c", b"d", b"e")


def configs_of(number: int) -> dict[str, str]:
    return {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "segment.ms": str(SEGMENT_MS),
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": ("0", "86400000")[number % 2],
        "message.timestamp.type": ("CreateTime", "CreateTime", "LogAppendTime")[number % 3],
    }


class Story:
    """The batches of one case. Times are in ms."""

    def __init__(self, number: int, now_ms: int) -> None:
        self._random = random.Random(number)
        self._time_ms = now_ms - 600_000
        self._sequences: dict[int, int] = {}

    def batches(self) -> list[bytes]:
        """Those of one round."""
        found = [self._batch() for _ in range(self._random.randrange(3, 12))]
        self._time_ms += 5 * SEGMENT_MS
        return [*found, batch([record(key=b"active", value=b"%d" % self._time_ms)], timestamp_ms=self._time_ms)]

    def _batch(self) -> bytes:
        chosen = self._random
        count = chosen.randrange(1, 5)
        deltas = [chosen.randrange(0, 3) for _ in range(count)]
        records = [
            record(
                index,
                timestamp_delta=deltas[index],
                key=chosen.choice(KEYS),
                value=chosen.choice([None, b"1", b"some value"]),
                headers=[(b"h", b"v")] if chosen.random() < 0.2 else (),
            )
            for index in range(count)
        ]
        self._time_ms += chosen.choice([1, 300, 2 * SEGMENT_MS])
        numbers: dict[str, Any] = {"attributes": chosen.choice([0, 0, GZIP])}
        producer_id = chosen.choice([-1, -1, 1_000, 1_001])
        if producer_id >= 0:
            sequence = self._sequences.get(producer_id, 0)
            self._sequences[producer_id] = sequence + count
            numbers |= {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        return batch(records, timestamp_ms=self._time_ms, max_timestamp_ms=self._time_ms + max(deltas), **numbers)


def set_config(broker: Broker, resource_type: int, resource_name: str, name: str, value: str) -> None:
    config = altering.AlterableConfig(name=name, config_operation=0, value=value)
    resource = altering.AlterConfigsResource(resource_type=resource_type, resource_name=resource_name, configs=[config])
    answer = broker.ask(altering.API, 1, altering.IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0, answer


def produce_all(broker: Broker, name: str, batches: list[bytes]) -> None:
    for one in batches:
        answer = broker.produce(name, 0, Case(name, one, {}, 11))
        assert answer.error_code == 0, answer


def stable(broker: Broker, topics: list[str]) -> list[bytes]:
    """What the partitions hold when they do not change any more."""
    found, since = [broker.stored(name, 0) or b"" for name in topics], time.monotonic()
    while time.monotonic() < since + STABLE_SECONDS:
        time.sleep(0.5)
        now = [broker.stored(name, 0) or b"" for name in topics]
        if now != found:
            found, since = now, time.monotonic()
    return found


def main() -> None:
    address, file = sys.argv[1:]
    broker, now_ms = Broker(address), time.time_ns() // 1_000_000
    set_config(broker, BROKER_RESOURCE, "", "log.cleaner.backoff.ms", str(BACKOFF_MS))
    topics = [f"compaction-{number}" for number in range(CASES)]
    for number, name in enumerate(topics):
        broker.create(name, 1, configs_of(number))
    time.sleep(3)
    stories = [Story(number, now_ms) for number in range(CASES)]
    rows: list[dict[str, Any]] = [
        {"case": number, "configs": configs_of(number), "rounds": []} for number in range(CASES)
    ]
    for _ in range(ROUNDS):
        written = [story.batches() for story in stories]
        for name, batches in zip(topics, written, strict=True):
            produce_all(broker, name, batches[:-1])
        time.sleep(1.5 * SEGMENT_MS / 1000)  # for topics whose time is that of the broker
        for name, batches in zip(topics, written, strict=True):
            produce_all(broker, name, batches[-1:])
            set_config(broker, TOPIC_RESOURCE, name, "cleanup.policy", "compact")
        stored_now = stable(broker, topics)
        for name in topics:
            set_config(broker, TOPIC_RESOURCE, name, "cleanup.policy", "delete")
        for row, batches, stored in zip(rows, written, stored_now, strict=True):
            row["rounds"].append({"batches": [one.hex() for one in batches], "stored": stored.hex()})
    text = "".join(json.dumps(row) + "\n" for row in rows)
    Path(file).write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
