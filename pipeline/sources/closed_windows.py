"""`closed-windows`: the windows that close while metadata logs grow (live.closed_window), for Spark, as a stream.

    spark.readStream.format("closed-windows").option("logs", "DIR\\nDIR").option("states", "FOLDER").load()

Options: those of `kraft-log` but for `types`, and `states`, a folder for the states of clusters, which executors find
under the same path. A task reads all of a log that a micro-batch has, because the state of a cluster is one value. The
records stay in the Python process that reads them: Spark gets only the windows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.types import StructType

from klamm.pipeline import schemas
from klamm.pipeline.errors import PipelineError
from klamm.pipeline.logs.metadata_logs import find_metadata_logs
from klamm.pipeline.logs.metadata_pieces import LogPart, cut_log
from klamm.pipeline.logs.packing import pack
from klamm.pipeline.sources.kraft_log import LogStream, mark_of

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class LogShare(InputPartition):
    """The parts of logs that one task reads."""

    parts: tuple[LogPart, ...]


class ClosedWindowSource(DataSource):
    """The data source `closed-windows`; see the module."""

    @classmethod
    def name(cls) -> str:
        return "closed-windows"

    def schema(self) -> StructType:
        return schemas.CLOSED_WINDOW

    def streamReader(self, schema: StructType) -> "ClosedWindowStream":  # noqa: N802 - Spark's name
        return ClosedWindowStream(self.options)


class ClosedWindowStream(LogStream):
    """Reads the parts of the logs that have not been read yet, with the stream offsets of `kraft-log`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        if not options.get("states"):
            raise PipelineError("closed-windows needs the option states: a folder")
        self._states = options["states"]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[LogShare]:
        parts = []
        for log in find_metadata_logs(self._paths):
            begin, behind = mark_of(log, start), mark_of(log, end)
            if behind is not None and begin != behind:
                pieces = tuple(cut_log(log, begin, self._piece_bytes, behind))
                parts.append(LogPart(log.cluster_id, log.folder, pieces, begin, behind))
        return [LogShare(share) for share in pack(parts, self._piece_bytes)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        from klamm.pipeline.windows.growing_logs import close_windows  # only the executors need pyarrow and NumPy

        assert isinstance(partition, LogShare), "Spark gives back what it was given"
        for part in partition.parts:
            yield from close_windows(part, self._states)
