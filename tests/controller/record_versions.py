"""The versions of the metadata records in the bytes of a log."""

from collections.abc import Iterator

from klamm.protocol.raw_records import decode_metadata_value, read_record
from klamm.protocol.record_batch import HEADER_BYTES, decode_batch_header


def versions_in(batch: bytes) -> Iterator[tuple[str, int]]:
    """The metadata records in a batch, with their versions."""
    if decode_batch_header(batch, 0).is_control:
        return
    at = HEADER_BYTES
    while at < len(batch):
        record, at = read_record(batch, at, len(batch))
        message, version = decode_metadata_value(record.value)
        yield type(message).__name__, version
