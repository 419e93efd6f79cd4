"""Batches of coordinator records: what a producer's batch must be, and the records come back."""

from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.coordinator.batches import EndOfTransaction, RawRecord, decode_records, encode_batch
from klamm.broker.data.record_batches import ProducedBatch, decode_header, read_produced
from tests.broker.data.batches import batch, record

NOW_MS = 1_700_000_000_000
records = st.lists(st.tuples(st.binary(max_size=200), st.none() | st.binary(max_size=200)), min_size=1, max_size=20)


@given(records)
def test_a_batch_is_valid_and_has_the_records(content: list[tuple[bytes, bytes | None]]) -> None:
    made = encode_batch(content, NOW_MS)
    read = read_produced(made.records, api_version=12, max_message_bytes=10**6)
    assert isinstance(read, ProducedBatch)
    assert list(decode_records(read)) == [
        RawRecord(offset, NOW_MS, key, value) for offset, (key, value) in enumerate(content)
    ]


def test_a_batch_of_a_transaction_names_its_producer() -> None:
    made = encode_batch([(b"k", b"v")], NOW_MS, 77, 3)
    assert (made.is_transactional, made.producer_id, made.producer_epoch) == (True, 77, 3)


def test_a_control_batch_says_how_a_transaction_ended() -> None:
    for kind, committed in ((0, False), (1, True)):
        marker = record(key=b"\0\0" + kind.to_bytes(2, "big"), value=b"\0\0\0\0\0\7")
        raw = batch([marker], attributes=0x30, producer_id=77, producer_epoch=3)
        assert list(decode_records(decode_header(raw))) == [EndOfTransaction(77, committed=committed)]


def test_compressed_batches_of_others_are_skipped() -> None:
    assert list(decode_records(decode_header(batch(3, attributes=1)))) == []
