"""`kraft-log`: metadata logs for Spark, as a table and as a stream, one row for each record (bronze.metadata_record).

    spark.read.format("kraft-log").option("logs", "DIR\\nDIR").load()

Options: `logs`, the data directories or log folders, one per line (or `path` for a single one); `types`, the wanted
record types, separated by commas (rows with a problem are always included); `pieceBytes`, the bytes per task;
`maxBytesPerTrigger`, the bytes per micro-batch of a stream. The class is pickled by reference, so executors need this
package, and the folders must have the same paths there.

With `pushdown` "true" the source applies conditions on `type` itself (spark.sql.python.filterPushdown.enabled must be
set). This is not the default, because Spark 4.2 reuses the pushed conditions: a later action without a condition on the
same DataFrame lacks the other rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    In,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from klamm.pipeline import schemas
from klamm.pipeline.errors import PipelineError
from klamm.pipeline.logs.metadata_logs import MetadataLog, find_metadata_logs
from klamm.pipeline.logs.metadata_pieces import Mark, Piece, cut_log
from klamm.pipeline.logs.packing import pack
from klamm.pipeline.sources.options import number_option, path_options

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_PIECE_BYTES: Final = 8 << 20
_NO_LIMIT: Final = 1 << 62


@dataclass
class Share(InputPartition):
    """The pieces that one task reads."""

    pieces: tuple[Piece, ...]
    types: tuple[str, ...] | None = None


class KraftLogSource(DataSource):
    """The data source `kraft-log`; see the module."""

    @classmethod
    def name(cls) -> str:
        return "kraft-log"

    def schema(self) -> StructType:
        return schemas.METADATA_RECORD

    def reader(self, schema: StructType) -> "KraftLogReader":
        kind = KraftLogFilteringReader if self.options.get("pushdown", "").lower() == "true" else KraftLogReader
        return kind(self.options)

    def streamReader(self, schema: StructType) -> "KraftLogStream":  # noqa: N802 - Spark's name
        return KraftLogStream(self.options)


class KraftLogReader(DataSourceReader):
    """Reads the current contents of the logs."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._paths = path_options("kraft-log", options)
        self._piece_bytes = number_option(options, "pieceBytes", DEFAULT_PIECE_BYTES)
        self._types = _types(options)

    def partitions(self) -> Sequence[Share]:
        pieces = [piece for log in find_metadata_logs(self._paths) for piece in cut_log(log, None, self._piece_bytes)]
        return [Share(share, self._types) for share in pack(pieces, self._piece_bytes)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return _read(partition)


class KraftLogFilteringReader(KraftLogReader):
    """The same reader with filter pushdown. It is a separate class, because Spark refuses readers with `pushFilters` if
    the setting is off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Accept conditions on `type`. Spark applies all conditions again, because rows with a problem are always
        included."""
        for condition in filters:
            if isinstance(condition, EqualTo | In) and condition.attribute == ("type",):
                values = [condition.value] if isinstance(condition, EqualTo) else list(condition.value)
                wanted = set(values) if self._types is None else set(values) & set(self._types)
                self._types = tuple(sorted(wanted))
            yield condition


class LogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The positions of a stream in its logs.

    A stream offset has for each log, by its folder, the cluster id and the fields of the `Mark` up to which it was
    read. Logs that are no longer requested keep their entries.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._paths = path_options("kraft-log", options)
        self._piece_bytes = number_option(options, "pieceBytes", DEFAULT_PIECE_BYTES)
        self._max_bytes = number_option(options, "maxBytesPerTrigger", 0)
        self._types = _types(options)
        self._available: list[MetadataLog] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadMaxBytes(self._max_bytes) if self._max_bytes else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._available = find_metadata_logs(self._paths)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The end of the logs, or earlier if `maxBytesPerTrigger` is reached. It includes at least one batch."""
        left, piece_bytes = (limit.max_bytes, 1) if isinstance(limit, ReadMaxBytes) else (_NO_LIMIT, _NO_LIMIT)
        reached = dict(start)
        for log in find_metadata_logs(self._paths) if self._available is None else self._available:
            for piece in cut_log(log, mark_of(log, start), piece_bytes):
                reached[log.folder] = {"cluster_id": log.cluster_id, **piece.behind._asdict()}
                left -= piece.end - piece.start
                if left <= 0:
                    return reached
        return reached


class KraftLogStream(LogStream):
    """Reads the parts of the logs that have not been read yet."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Share]:
        pieces = [
            piece
            for log in find_metadata_logs(self._paths)
            if end.get(log.folder) != start.get(log.folder)
            for piece in cut_log(log, mark_of(log, start), self._piece_bytes, mark_of(log, end))
        ]
        return [Share(share, self._types) for share in pack(pieces, self._piece_bytes)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return _read(partition)


def _read(partition: InputPartition) -> "Iterator[pa.RecordBatch]":
    from klamm.pipeline.logs.metadata_rows import read_pieces  # only the executors need pyarrow and NumPy

    assert isinstance(partition, Share), "Spark gives back what it was given"
    return read_pieces(partition.pieces, partition.types)


def _types(options: Mapping[str, str]) -> tuple[str, ...] | None:
    return tuple(options["types"].split(",")) if "types" in options else None


def mark_of(log: MetadataLog, offset: Mapping[str, Any]) -> Mark | None:
    """The mark of a log in a stream offset; None for its beginning. Raises PipelineError if the folder has a log of
    another cluster now, or if the log of this cluster was read from another folder: a copy has the records again."""
    told = offset.get(log.folder)
    if told is None:
        for folder, other in offset.items():
            if other["cluster_id"] == log.cluster_id:
                raise PipelineError(
                    f"the log of cluster {log.cluster_id} was read from {folder}: give that folder, or ingest "
                    f"{log.folder} anew, with --overwrite"
                )
        return None
    cluster_id, *mark = (told[name] for name in ("cluster_id", *Mark._fields))
    if cluster_id != log.cluster_id:
        raise PipelineError(f"{log.folder} was the log of cluster {cluster_id}, and is that of {log.cluster_id} by now")
    return Mark(*mark)
