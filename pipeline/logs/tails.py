"""How a log ends: with a whole batch, with half a one, or before it has begun."""

from klamm.pipeline.logs.metadata_logs import MetadataLog
from klamm.pipeline.logs.metadata_pieces import cut_log, is_zero


def torn_tail(log: MetadataLog) -> tuple[int, str] | None:
    """The offset that comes next, and in words what stands where it should, if bytes behind the last whole batch are
    no batch yet: one that is being written, or that was cut off. Zeros are a file that was made longer in advance.
    None for a log that ends well."""
    if not log.files:
        return None
    last, pieces = log.files[-1], list(cut_log(log, None, 1 << 62))
    mark = pieces[-1].behind if pieces else None
    start, offset = (0, last.base_offset) if mark is None or mark.file != last.name else (mark.byte, mark.offset)
    if start >= last.size or is_zero(last, start):
        return None
    return offset, f"{last.name} ends with {last.size - start} bytes of a batch that is not whole"
