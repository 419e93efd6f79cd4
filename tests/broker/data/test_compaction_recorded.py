"""What is left of logs that were compacted, beside a recording of Apache Kafka 4.3.0: the same batches and records.

`tests/golden/compaction` says how it was made; it lacks the last batch, which is in the active segment. Delete horizons
depend on the time of a compaction, and compressed bytes on the library, so they are compared by what they mean.
"""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from klamm.broker.data.codecs import UNCOMPRESSED
from klamm.broker.data.filtered_batches import DELETE_HORIZON
from klamm.broker.data.log_compaction import LogCompaction
from klamm.broker.data.record_batches import ProducedBatch, read_produced
from klamm.broker.data.record_contents import decode_records, split_batches
from tests.broker.data.cleanup_cases import ALL, COMPACTS, Log

RECORDING = Path(__file__).resolve().parents[2] / "golden" / "compaction" / "compaction.jsonl.gz"
CASES = [json.loads(line) for line in gzip.decompress(RECORDING.read_bytes()).splitlines()]


def facts(batch: ProducedBatch, *, by_broker: bool) -> Any:
    """The fields of a batch, and its records. With `by_broker` its times are those of the append."""
    has_horizon = bool(batch.attributes & DELETE_HORIZON)
    records = [one._replace(timestamp_ms=0) if by_broker else one for one in decode_records(batch, ALL)]
    base_ms = -1 if has_horizon or by_broker else batch.base_timestamp_ms
    max_ms = -1 if by_broker else batch.max_timestamp_ms
    raw = batch.records if batch.compression == UNCOMPRESSED and not has_horizon and not by_broker else b""
    return replace(batch, records=raw, base_timestamp_ms=base_ms, max_timestamp_ms=max_ms), records


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["case"]))
def test_the_same_batches_stay(case: dict[str, Any]) -> None:
    configs = case["configs"]
    by_broker = configs["message.timestamp.type"] == "LogAppendTime"
    rules = replace(
        COMPACTS,
        segment_ms=int(configs["segment.ms"]),
        delete_retention_ms=int(configs["delete.retention.ms"]),
        min_cleanable_dirty_ratio=float(configs["min.cleanable.dirty.ratio"]),
    )
    log, now_ms = Log(rules), 1
    for number, one in enumerate(case["rounds"]):
        for place, raw in enumerate(one["batches"], start=1):
            reported = read_produced(bytes.fromhex(raw), api_version=11, max_message_bytes=ALL)
            assert isinstance(reported, ProducedBatch)
            now_ms += 2 * rules.segment_ms if place == len(one["batches"]) else 1
            log.log.roll(len(reported.records), now_ms if by_broker else reported.max_timestamp_ms, rules, now_ms)
            log.found.append(reported, now_ms, log_append_time=by_broker)
        while (dirty := log.dirty(now_ms)) is not None:
            for _ in LogCompaction(log.found, dirty, rules, now_ms).steps():
                pass
        expected = [facts(each, by_broker=by_broker) for each in split_batches(bytes.fromhex(one["stored"]))]
        assert [facts(each, by_broker=by_broker) for each in log.batches[:-1]] == expected, f"round {number}"
