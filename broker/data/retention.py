"""Which segments of a log retention deletes: UnifiedLog.deleteOldSegments of Apache Kafka. Pure decisions."""

from itertools import islice
from typing import Final

from klamm.broker.data.partition_log import PartitionLog
from klamm.controller.configs import CleanupRules

MAX_SEGMENTS: Final = 1_000
"""The segments that are judged at once, in about 10 ms."""


def retained_start(log: PartitionLog, rules: CleanupRules, high_watermark: int, now_ms: int) -> int:
    """The log start offset that retention wants: the begin of the oldest segment that stays, or the log end offset if
    none does. At most the high watermark; the present log start offset if nothing is to be deleted. With very many
    segments it is to be asked again."""
    if not rules.deletes or not log.size_bytes:
        return log.log_start_offset
    over = log.size_bytes - rules.retention_bytes
    by_size = rules.retention_bytes >= 0
    start = log.log_start_offset
    for base_offset, end_offset in islice(log.segments.bounds(log.log_end_offset), MAX_SEGMENTS):
        if end_offset > high_watermark or end_offset == base_offset:
            break
        size = log.size_between(base_offset, end_offset)
        by_size = by_size and over - size >= 0
        if by_size:
            over -= size
        elif not 0 <= rules.retention_ms < now_ms - log.latest_ms(base_offset, end_offset):
            break
        start = max(start, end_offset)
    return start
