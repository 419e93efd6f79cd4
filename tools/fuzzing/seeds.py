"""The first inputs of the codec's fuzzer: the frames of tests/golden, and batches and streams made of them."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

from klamm.protocol import RecordType, encode_frame, encode_message, encode_request, encode_response
from klamm.protocol.record_batch import encode_batch
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from klamm.protocol.uuid import Uuid
from tools.fuzzing.codec_cases import CodecCase, all_kinds, blob_types, declaration

GOLDEN: Final = Path(__file__).resolve().parents[2] / "tests" / "golden" / "wire"
_BATCH_RECORDS: Final = 40
"""The number of partition records that are read as columns."""
_STREAM_FRAMES: Final = 3


def golden_lines(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(GOLDEN / name, "rt") as lines:
        yield from map(json.loads, lines)


def golden_cases() -> list[CodecCase]:
    """Every recorded frame, batch and blob, and batches and streams of many."""
    places = {kind.name: place for place, kind in enumerate(blob_types())}
    cases = [
        CodecCase(line.get("kind", "record"), line["key"], line["version"], bytes.fromhex(line["hex"]))
        for line in golden_lines("wire.jsonl.gz")
    ]
    for line in golden_lines("wire-data.jsonl.gz"):
        key = places[line["message"]] if line["kind"] == "data" else line["key"]
        cases.append(CodecCase(line["kind"], key, line["version"], bytes.fromhex(line["hex"])))
    cases += [CodecCase("batch", 0, 0, bytes.fromhex(line["hex"])) for line in golden_lines("metadata-log.jsonl.gz")]
    frames = [case.data for case in cases if case.kind == "request" and len(case.data) < 100]
    stream = b"".join(map(encode_frame, frames[:_STREAM_FRAMES]))
    cases += [CodecCase("batch", 0, 0, _long_batch()), CodecCase("stream", 0, 0, stream)]
    recorded = {(case.kind, case.key) for case in cases}
    return cases + [case for place in all_kinds() if place not in recorded for case in _default_cases(*place)]


def _default_cases(kind: str, key: int) -> Iterator[CodecCase]:
    """Messages with default values for what Apache Kafka has no frames of, such as Klamm's own APIs."""
    declared = declaration(kind, key)
    assert declared is not None
    for version in declared.versions:
        if isinstance(declared, RecordType):
            data = encode_message(declared.message(), version, declared.flexible(version))
        elif kind == "request":
            data = encode_request(declared, version, 1, "fuzz", declared.request())
        else:
            data = bytes(encode_response(declared, version, 1, declared.response()))
        yield CodecCase(kind, key, version, data)


def _long_batch() -> bytes:
    records = [
        PartitionRecord(partition_id=index, topic_id=Uuid(bytes(16)), replicas=[1, 2, 3][: 1 + index % 3], isr=[1])
        if index < _BATCH_RECORDS // 2
        else PartitionChangeRecord(partition_id=index, topic_id=Uuid(bytes(16)), isr=[1], leader=1)
        for index in range(_BATCH_RECORDS)
    ]
    return encode_batch(0, 1, 0, records)


def chosen_cases(count: int, seed: int) -> list[CodecCase]:
    """At most about `count` cases, with at least one of every API and record, in another order for each seed."""
    cases = golden_cases()
    Random(seed).shuffle(cases)
    first: dict[tuple[str, int], CodecCase] = {}
    for case in cases:
        first.setdefault((case.kind, case.key), case)
    chosen = list(first.values())
    taken = set(map(id, chosen))
    return chosen + [case for case in cases if id(case) not in taken][: max(0, count - len(chosen))]
