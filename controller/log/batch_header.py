"""The part of a batch's header by which a log finds its way: offsets, epoch, kind. Records stay undecoded.

The checksum covers neither the base offset nor the leader epoch nor the length, so a log has to check those
against their neighbours itself.
"""

import struct
from typing import NamedTuple

# base offset, length of what follows, leader epoch, magic, checksum, attributes, last offset delta
_HEADER = struct.Struct(">qiibIhi")
_CONTROL_ATTRIBUTE = 1 << 5


class BatchHeader(NamedTuple):
    """Where a batch stands in the log."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    is_control: bool


def decode_batch_header(data: bytes, position: int) -> BatchHeader:
    """The header of the batch at `position`, which must be whole (`protocol.record_batch.check_batch`)."""
    base_offset, _, leader_epoch, _, _, attributes, last_delta = _HEADER.unpack_from(data, position)
    return BatchHeader(base_offset, base_offset + last_delta, leader_epoch, bool(attributes & _CONTROL_ATTRIBUTE))
