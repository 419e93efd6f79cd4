"""A start on a log that Apache Kafka's controller wrote: every type of record, and metadata transactions (KIP-868)."""

import csv
from pathlib import Path

import pytest

from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.replay import ReplayError
from klamm.controller.restore import TRANSACTION_RECORDS, restore
from klamm.protocol.fields import Message
from klamm.protocol.record_versions import load_record_type
from klamm.protocol.records.cluster import FeatureLevelRecord
from klamm.protocol.records.index import METADATA
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.records.transactions import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from klamm.protocol.uuid import Uuid
from tests.controller.handlers.cluster import START_MS, DrivenCluster, new_memory_log
from tests.controller.log.logs import append_records

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END, ABORT = BeginTransactionRecord(name="x"), EndTransactionRecord(), AbortTransactionRecord(reason="y")
LEVEL = FeatureLevelRecord(name="metadata.version", feature_level=30)


def topic(number: int) -> TopicRecord:
    return TopicRecord(name=f"t{number}", topic_id=Uuid(bytes(15) + bytes([number])))


def restored(*batches: list[Message]) -> tuple[MetadataImage, bool]:
    log, image = new_memory_log(), MetadataImage()
    for batch in batches:
        append_records(log, batch, START_MS)
    is_in_transaction = restore(image, log)
    assert image.next_offset == log.end_offset
    return image, is_in_transaction


def test_every_record_type_of_kafka_is_replayed() -> None:
    known = set(MetadataImage().replays) | TRANSACTION_RECORDS
    types = [load_record_type(record_id) for record_id in METADATA]
    assert {one.message for one in types if one is not None} == known


def test_the_page_has_every_record_type() -> None:
    with (ROOT / "spec" / "messages.tsv").open(encoding="utf-8") as file:
        declared = [row for row in csv.DictReader(file, delimiter="\t") if row["kind"] == "record"]
    names = {row["message"] for row in declared} & {
        one.name for record_id in METADATA if (one := load_record_type(record_id)) is not None
    }
    assert len(names) == len(METADATA)
    page = (ROOT / "docs" / "record-types.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| ")]
    assert {cells[2].strip() for cells in rows if cells[1].strip().isdecimal()} == names


@pytest.mark.parametrize("batches", [
    [[BEGIN, LEVEL, topic(1), END]],
    [[BEGIN], [LEVEL], [topic(1)], [END]],
    [[LEVEL, BEGIN, topic(1)], [END, topic(2)]],
    [[LEVEL], [BEGIN, topic(3), ABORT, topic(1)]],
    [[LEVEL, BEGIN, topic(1), END, BEGIN, topic(3)], [topic(3), ABORT]],
])  # fmt: skip
def test_records_of_a_transaction_count_when_it_ends_and_not_when_it_is_aborted(batches: list[list[Message]]) -> None:
    image, is_in_transaction = restored(*batches)
    assert not is_in_transaction
    assert image.features == {"metadata.version": 30}
    assert "t1" in image.topics_by_name
    assert "t3" not in image.topics_by_name


def test_records_of_an_open_transaction_do_not_count() -> None:
    image, is_in_transaction = restored([LEVEL, BEGIN, topic(1)], [topic(2)])
    assert is_in_transaction
    assert list(image.topics_by_name) == []


@pytest.mark.parametrize("batches", [[[BEGIN, BEGIN]], [[BEGIN], [BEGIN]], [[END]], [[ABORT]], [[BEGIN, END, END]]])
def test_a_transaction_that_kafka_would_not_replay_is_refused(batches: list[list[Message]]) -> None:
    with pytest.raises(ReplayError, match="transaction"):
        restored(*batches)


def test_a_start_aborts_what_a_kafka_controller_has_not_ended() -> None:
    log = new_memory_log()
    append_records(log, [BEGIN, LEVEL, topic(1)], START_MS)
    end_offset = log.end_offset
    cluster = DrivenCluster(1, log=log)
    assert "t1" not in cluster.image.topics_by_name
    assert cluster.image.features["metadata.version"] == 30
    first = next(batch for batch in log.read() if batch.base_offset == end_offset)
    assert list(first.records) == [AbortTransactionRecord(reason="controller failover")]
    facts = cluster.image.facts()
    cluster.start()
    assert cluster.image.facts() == facts
