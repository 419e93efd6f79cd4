"""Room for record batches in tests of logs."""

from klamm.broker.data.record_file import RecordFile
from klamm.broker.data.record_room import RecordRoom

PLENTY = 1 << 40


def room(memory_bytes: int = PLENTY, file_bytes: int = PLENTY) -> RecordRoom:
    """Memory and a temporary file of these sizes."""
    return RecordRoom(memory_bytes, RecordFile(file_bytes))
