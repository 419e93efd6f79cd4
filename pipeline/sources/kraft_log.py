"""`kraft-log`: metadata logs for Spark, as a table and as a stream, one row for each record (bronze.metadata_record).

    spark.read.format("kraft-log").option("logs", "DIR\\nDIR").load()

Options: `logs`, the data directories or log folders, one to a line (or `path`, for a single one); `types`, the record
types wanted, with commas between (rows with a problem come in any case); `pieceBytes`, how much one task reads;
`maxBytesPerTrigger`, how much one micro-batch of a stream reads. The class is pickled by reference: executors need this
package, and see the folders under the same paths.

With `pushdown` "true" conditions on `type` reach the files, too (spark.sql.python.filterPushdown.enabled must be set).
That is not the default: Spark 4.2 remembers what was pushed down, and a later action without a condition on the same
DataFrame lacks the other rows.
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
    """What one task reads."""

    pieces: tuple[Piece, ...]
    types: tuple[str, ...] | None = None


class KraftLogSource(DataSource):
    """See the module."""

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
    """All that the logs hold now."""

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
    """The same, with conditions pushed down. A class of its own: one that has `pushFilters` can be read only where the
    setting for it is on."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take conditions on `type`; Spark looks at the rest. Rows with a problem come all the same, so it looks at
        these once more, too."""
        for condition in filters:
            if isinstance(condition, EqualTo | In) and condition.attribute == ("type",):
                values = [condition.value] if isinstance(condition, EqualTo) else list(condition.value)
                wanted = set(values) if self._types is None else set(values) & set(self._types)
                self._types = tuple(sorted(wanted))
            yield condition


class KraftLogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What the logs hold, as far as it has not been read.

    An offset says for each log, by its folder, how far it was read: the cluster's id and a `Mark`, by its members. Logs
    that are not asked for any more keep their place.
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
        """As far as the logs reach, or the limit: whole batches, one at least."""
        left, piece_bytes = (limit.max_bytes, 1) if isinstance(limit, ReadMaxBytes) else (_NO_LIMIT, _NO_LIMIT)
        reached = dict(start)
        for log in find_metadata_logs(self._paths) if self._available is None else self._available:
            for piece in cut_log(log, _mark(log, start), piece_bytes):
                reached[log.folder] = {"cluster_id": log.cluster_id, **piece.behind._asdict()}
                left -= piece.end - piece.start
                if left <= 0:
                    return reached
        return reached

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Share]:
        pieces = [
            piece
            for log in find_metadata_logs(self._paths)
            if end.get(log.folder) != start.get(log.folder)
            for piece in cut_log(log, _mark(log, start), self._piece_bytes, _mark(log, end))
        ]
        return [Share(share, self._types) for share in pack(pieces, self._piece_bytes)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return _read(partition)


def _read(partition: InputPartition) -> "Iterator[pa.RecordBatch]":
    from klamm.pipeline.logs.metadata_rows import read_pieces  # pyarrow and NumPy are needed where rows are made, alone

    assert isinstance(partition, Share), "Spark gives back what it was given"
    return read_pieces(partition.pieces, partition.types)


def _types(options: Mapping[str, str]) -> tuple[str, ...] | None:
    return tuple(options["types"].split(",")) if "types" in options else None


def _mark(log: MetadataLog, offset: Mapping[str, Any]) -> Mark | None:
    """The place of a log that an offset tells; None: its beginning. PipelineError if it is another cluster's by now."""
    told = offset.get(log.folder)
    if told is None:
        return None
    cluster_id, *mark = (told[name] for name in ("cluster_id", *Mark._fields))
    if cluster_id != log.cluster_id:
        raise PipelineError(f"{log.folder} was the log of cluster {cluster_id}, and is that of {log.cluster_id} by now")
    return Mark(*mark)
