"""ListOffsets v0: the first offsets of the segments of a log that began before a time, the newest first, and the end of
the log. As Kafka's UnifiedLog.legacyFetchOffsetsBefore."""

from itertools import dropwhile

from klamm.broker.data.partition_log import EARLIEST, LATEST, PartitionLog
from klamm.protocol.messages.data.list_offsets import ListOffsetsPartition


def offsets_of_segments(log: PartitionLog, wanted: ListOffsetsPartition, end: int, now_ms: int) -> list[int]:
    """At most as many offsets as were asked for; none is above `end`, the last offset that the client may see."""
    found = [
        (max(base_offset, log.log_start_offset), _modified_ms(log, base_offset, next_offset))
        for base_offset, next_offset in log.segments.bounds(log.log_end_offset)
    ]
    if log.size_bytes > log.size_below(log.segments.active.base_offset):
        found.append((log.log_end_offset, now_ms))
    if wanted.timestamp == EARLIEST:
        found = found[:1]
    elif wanted.timestamp != LATEST:
        found = list(dropwhile(lambda one: one[1] > wanted.timestamp, reversed(found)))[::-1]
    offsets = sorted((offset for offset, _ in found), reverse=True)[: max(0, wanted.max_num_offsets)]
    if offsets and offsets[0] > end:
        return [end, *dropwhile(lambda offset: offset > end, offsets)]
    return offsets


def _modified_ms(log: PartitionLog, base_offset: int, next_offset: int) -> int:
    """When the newest record of a segment was appended, or else the segment was begun."""
    if next_offset > base_offset and log.size_between(base_offset, next_offset):
        return log.appended_ms(next_offset - 1)
    return log.segments.created_ms(base_offset)
