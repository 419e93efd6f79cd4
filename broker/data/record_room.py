"""The room for record batches that all partition logs of a cluster share: memory first, then a file.

The newest batches are in memory. When the memory budget is used up, logs in turn write their oldest batches to the
file. Nothing is dropped: without room in either, Produce is refused. A batch in the file keeps its entry in memory, so
the memory budget also limits the number of batches.
"""

from typing import Final, Protocol

from klamm.broker.data.record_file import RecordFile

ENTRY_BYTES: Final = 96
"""The memory that a batch takes beside its bytes: six numbers, a list entry, a share of what lists and arrays have in
reserve. It is counted for each batch, also for those in the file."""
SPILL_BYTES: Final = 1024 * 1024
"""The most bytes that one log writes to the file before it is another log's turn: about 0.3 ms in the page cache."""


class Spilling(Protocol):
    """The batches of a log, which can be written to the file."""

    def spill(self, most_bytes: int) -> bool:
        """Write the oldest batches in memory to the file, one at least. Returns False if the file takes none."""

    @property
    def has_some_in_memory(self) -> bool:
        """Whether batches are left to write."""


class RecordRoom:
    """The budgets, and what is used of them."""

    def __init__(self, memory_bytes: int, file: RecordFile) -> None:
        self.memory_bytes = memory_bytes
        self.used_bytes = 0
        """The memory in use."""
        self.file = file
        self._in_turn: dict[Spilling, None] = {}
        """The logs with batches in memory that may go to the file, the next one first."""

    def hold(self, size: int, of_log: Spilling | None) -> None:
        """Count bytes in memory; None: they never go to the file."""
        self.used_bytes += size
        if of_log is not None and of_log not in self._in_turn:
            self._in_turn[of_log] = None

    def release(self, size: int) -> None:
        """Bytes in memory are gone."""
        self.used_bytes -= size

    def forget(self, log: Spilling) -> None:
        """A log has nothing in memory any more."""
        self._in_turn.pop(log, None)

    def make_room(self, size: int) -> bool:
        """Write batches to the file until a batch of `size` bytes fits into memory. Returns False if it must be
        refused. A batch that is larger than the whole budget is accepted if the file has room for it."""
        needed = size + ENTRY_BYTES
        if self.used_bytes + needed <= self.memory_bytes:
            return True
        if self._shrink_to(self.memory_bytes - needed):
            return True
        # Nothing that may be written is left in memory: the batch itself goes to the file next.
        return not self._in_turn and self._has_room_for_entry() and self.file.has_room(size)

    def settle(self) -> None:
        """After an append: write a batch that is larger than the memory budget to the file."""
        if self.used_bytes > self.memory_bytes:
            self._shrink_to(self.memory_bytes)

    @property
    def refusal(self) -> str:
        """Why the last `make_room` failed, as one sentence for users."""
        if self.file.refusal:
            return f"There is no room for more records: {self.file.refusal}."
        if not self._has_room_for_entry():
            return f"There is no room for more record batches: --data-memory-bytes is {self.memory_bytes}."
        return f"There is no room for more records: --data-file-bytes allows {self.file.max_bytes} bytes in files."

    def _has_room_for_entry(self) -> bool:
        return self.used_bytes + ENTRY_BYTES <= self.memory_bytes

    def _shrink_to(self, memory_bytes: int) -> bool:
        while self.used_bytes > memory_bytes:
            log = next(iter(self._in_turn), None)
            if log is None or (log.has_some_in_memory and not log.spill(SPILL_BYTES)):
                return False
            del self._in_turn[log]
            if log.has_some_in_memory:
                self._in_turn[log] = None
        return True


NO_ROOM: Final = RecordRoom(0, RecordFile(0))
"""For logs that stay empty."""
