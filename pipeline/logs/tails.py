"""The end of a metadata log: whether it ends with a whole batch or an incomplete one, or has no records."""

from klamm.pipeline.logs.metadata_logs import MetadataLog
from klamm.pipeline.logs.metadata_pieces import cut_log, is_zero


def torn_tail(log: MetadataLog) -> tuple[int, str] | None:
    """The next offset and a description of the bytes after the last whole batch, if they are an incomplete batch, which
    is being written or was cut off. Zeros at the end of a preallocated file do not count. None for a complete log."""
    if not log.files:
        return None
    last, pieces = log.files[-1], list(cut_log(log, None, 1 << 62))
    mark = pieces[-1].behind if pieces else None
    start, offset = (0, last.base_offset) if mark is None or mark.file != last.name else (mark.byte, mark.offset)
    if start >= last.size or is_zero(last, start):
        return None
    return offset, f"{last.name} ends with {last.size - start} bytes of a batch that is not whole"
