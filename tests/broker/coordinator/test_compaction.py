"""Which records a compaction writes again."""

from klamm.broker.coordinator.batches import encode_batch
from klamm.broker.coordinator.compaction import Compaction
from klamm.broker.data.partition_log import PartitionLog
from klamm.broker.data.record_batches import decode_header
from tests.broker.data.batches import batch, record
from tests.broker.data.rooms import room

NOW_MS = 1_700_000_000_000
ABORT, COMMIT = 0, 1


def log_of(*batches: bytes) -> PartitionLog:
    log = PartitionLog(room())
    for raw in batches:
        log.append(decode_header(raw), 0, NOW_MS)
    return log


def plain(key: bytes, value: bytes | None) -> bytes:
    return encode_batch([(key, value)], NOW_MS).records


def marker(producer_id: int, kind: int) -> bytes:
    control = record(key=b"\0\0" + kind.to_bytes(2, "big"), value=b"\0\0\0\0\0\7")
    return batch([control], attributes=0x30, producer_id=producer_id, producer_epoch=0)


def rewritten(log: PartitionLog, *newer: bytes) -> list[tuple[bytes, bytes | None]] | None:
    """The records that are written again if records of `newer` are written meanwhile; None: it was given up."""
    compaction = Compaction(log)
    found = []
    while (records := compaction.next_records()) is not None and not compaction.is_given_up:
        for key in newer:
            compaction.note_written(key)
        found += records
    return None if compaction.is_given_up else found


def test_the_newest_record_of_each_key_without_tombstones() -> None:
    log = log_of(plain(b"a", b"1"), plain(b"b", b"1"), plain(b"a", b"2"), plain(b"b", None))
    assert rewritten(log) == [(b"a", b"2")]


def test_a_key_that_was_written_meanwhile_is_left_out() -> None:
    log = log_of(plain(b"a", b"1"), plain(b"b", b"1"))
    assert rewritten(log, b"a") == [(b"b", b"1")]


def test_records_of_transactions_count_when_they_were_committed() -> None:
    def in_transaction(producer_id: int, key: bytes, value: bytes) -> bytes:
        return encode_batch([(key, value)], NOW_MS, producer_id, 0).records

    log = log_of(
        in_transaction(1, b"a", b"1"),
        in_transaction(2, b"b", b"1"),
        in_transaction(1, b"c", b"1"),
        plain(b"c", b"2"),
        marker(1, COMMIT),
        marker(2, ABORT),
    )
    assert rewritten(log) == [(b"c", b"2"), (b"a", b"1")]
    log.append(decode_header(in_transaction(3, b"d", b"1")), 0, NOW_MS)
    assert rewritten(log) is None
