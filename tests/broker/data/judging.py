"""What a topic says of a batch whose header is right, with Kafka's defaults for the configs that are not given."""

from dataclasses import replace
from typing import Any

from klamm.broker.data.record_batches import ProducedBatch, RefusedBatch
from klamm.broker.data.records import Room, validate_records
from klamm.controller.configs import RecordRules
from tests.broker.data.batches import NOW_MS

HOUR_MS = 3_600_000
ANY_AGE = 2**63 - 1
DEFAULTS = RecordRules(
    max_message_bytes=1_048_588,
    log_append_time=False,
    timestamp_before_max_ms=ANY_AGE,
    timestamp_after_max_ms=HOUR_MS,
    is_compacted=False,
    deletes_records=True,
    min_insync_replicas=1,
    segment_bytes=1 << 30,
)


def judge(
    batch: ProducedBatch, *, now_ms: int = NOW_MS, room: Room | None = None, **configs: Any
) -> ProducedBatch | RefusedBatch:
    rules = replace(DEFAULTS, **configs)
    return validate_records(batch, rules, partition_name="t-0", now_ms=now_ms, room=room or Room.at_most())
