"""The log of a controller without a data directory: the same batches, byte for byte, in a list.

An appended batch cannot become more durable, so `durable_offset` is always `end_offset`. There are no snapshots,
because no start could use one.
"""

from collections.abc import Iterator
from typing import Final

from klamm.controller.log.batch_index import BatchIndex
from klamm.controller.log.epoch import encode_leader_change
from klamm.controller.log.errors import LogError
from klamm.controller.log.memory_reader import MemoryReader
from klamm.controller.log_records import Records
from klamm.protocol.record_batch import Batch, BatchBuilder, decode_batch, decode_batch_header
from klamm.protocol.uuid import Uuid

MAX_MEMORY_LOG_BYTES: Final = 2 << 30
"""Room for the records of twenty million partitions; an append beyond it is refused, which ends the server."""


class MemoryLog:
    """A `MetadataLog` that lives as long as its process. Each one is epoch 1 of a cluster of its own."""

    def __init__(
        self,
        cluster_id: str,
        directory_id: Uuid,
        timestamp_ms: int,
        *,
        max_log_bytes: int = MAX_MEMORY_LOG_BYTES,
    ) -> None:
        self.cluster_id = cluster_id
        self.directory_id = directory_id
        self.leader_epoch = 1
        self.end_offset = 0
        self._max_log_bytes = max_log_bytes
        self.batches: list[bytes] = []
        """The log's batches, for its reader."""
        self.index = BatchIndex()
        """The positions that the batches would have in a file, for the log's reader."""
        self._size_bytes = 0
        self._refusal: str | None = None
        self._keep(encode_leader_change(0, self.leader_epoch, timestamp_ms))

    @property
    def durable_offset(self) -> int:
        return self.end_offset

    @property
    def snapshot(self) -> None:
        return None

    def begin_snapshot(self, *, roll: bool) -> None:
        self._refuse_if_broken()

    def append(self, records: Records, timestamp_ms: int) -> tuple[int, int]:
        batch = BatchBuilder()
        batch.add(records)
        return self.append_batch(batch, timestamp_ms)

    def append_batch(self, batch: BatchBuilder, timestamp_ms: int) -> tuple[int, int]:
        self._refuse_if_broken()
        return self._keep(batch.finish(self.end_offset, self.leader_epoch, timestamp_ms))

    def sync(self) -> None:
        self._refuse_if_broken()

    def read(self) -> Iterator[Batch]:
        self._refuse_if_broken()
        for batch in tuple(self.batches):
            yield decode_batch(batch, 0)

    def read_snapshot(self) -> Iterator[Batch]:
        return iter(())

    def reader(self) -> MemoryReader:
        return MemoryReader(self)

    def log_bytes(self) -> bytes:
        """The log as one segment file would hold it."""
        return b"".join(self.batches)

    def close(self) -> None:
        self._refusal = self._refusal or "the log is closed"

    def _keep(self, batch: bytes) -> tuple[int, int]:
        if self._size_bytes + len(batch) > self._max_log_bytes:
            self._refusal = (
                f"the metadata log in memory has {self._size_bytes} bytes, "
                f"and {len(batch)} more are beyond its limit of {self._max_log_bytes}"
            )
            raise LogError(self._refusal)
        header = decode_batch_header(batch, 0)
        self._size_bytes += len(batch)
        self.batches.append(batch)
        self.index.append(header, self._size_bytes)
        self.end_offset = header.last_offset + 1
        return header.base_offset, header.last_offset

    def _refuse_if_broken(self) -> None:
        if self._refusal is not None:
            raise LogError(self._refusal)
