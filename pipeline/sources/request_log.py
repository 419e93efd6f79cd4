"""`request-log`: request logs for Spark, as a table and as a stream, one row for each line (bronze.request).

    spark.read.format("request-log").option("logs", "FILE\\nDIR").load()

Options: `logs`, files (with their rotated files) or directories of `*.jsonl`, one per line (or `path` for a single
one); `pieceBytes`, the bytes per task; `maxBytesPerTrigger`, the bytes per micro-batch of a stream.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from klamm.pipeline import schemas
from klamm.pipeline.errors import PipelineError
from klamm.pipeline.logs.packing import pack
from klamm.pipeline.sources.options import number_option, path_options

if TYPE_CHECKING:
    import pyarrow as pa

    from klamm.pipeline.logs.request_logs import LinePiece, RequestFile

DEFAULT_PIECE_BYTES: Final = 32 << 20
_NO_LIMIT: Final = 1 << 62


@dataclass
class LineShare(InputPartition):
    """The pieces that one task reads."""

    pieces: "tuple[LinePiece, ...]"


class RequestLogSource(DataSource):
    """The data source `request-log`; see the module."""

    @classmethod
    def name(cls) -> str:
        return "request-log"

    def schema(self) -> StructType:
        return schemas.REQUEST

    def reader(self, schema: StructType) -> "RequestLogReader":
        return RequestLogReader(self.options)

    def streamReader(self, schema: StructType) -> "RequestLogStream":  # noqa: N802 - Spark's name
        return RequestLogStream(self.options)


class RequestLogReader(DataSourceReader):
    """Reads all current lines."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._paths = path_options("request-log", options)
        self._piece_bytes = number_option(options, "pieceBytes", DEFAULT_PIECE_BYTES)

    def partitions(self) -> Sequence[LineShare]:
        from klamm.pipeline.logs.request_logs import cut_lines, find_request_files

        files = find_request_files(self._paths)
        return _shares([p for file in files for p in cut_lines(file, 0, self._piece_bytes)], self._piece_bytes)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return _read(partition)


class RequestLogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the lines that have not been read yet. A stream offset has for each file, by its key, the number of bytes
    that were read. Files that are no longer requested, or were deleted, keep their entries."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._paths = path_options("request-log", options)
        self._piece_bytes = number_option(options, "pieceBytes", DEFAULT_PIECE_BYTES)
        self._max_bytes = number_option(options, "maxBytesPerTrigger", 0)
        self._available: list[RequestFile] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadMaxBytes(self._max_bytes) if self._max_bytes else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._available = self._files()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The end of the files, or earlier if `maxBytesPerTrigger` is reached. It includes at least one line."""
        from klamm.pipeline.logs.request_logs import cut_lines

        left = limit.max_bytes if isinstance(limit, ReadMaxBytes) else _NO_LIMIT
        reached = dict(start)
        for file in self._files() if self._available is None else self._available:
            pieces = cut_lines(file, start.get(file.key, 0), left)
            for piece in pieces:
                reached[file.key] = piece.end
                left -= piece.end - piece.start
                break
            if left <= 0 or next(pieces, None) is not None:  # later files are read after this one
                break
        return reached

    def _files(self) -> "list[RequestFile]":
        from klamm.pipeline.logs.request_logs import find_request_files

        return find_request_files(self._paths)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[LineShare]:
        from klamm.pipeline.logs.request_logs import cut_lines

        files = {file.key: file for file in self._files()}
        read = {key for key, place in end.items() if place != start.get(key)}
        if not read <= files.keys():
            raise PipelineError("a request log that was to be read has been deleted since: lines are lost")
        pieces = [
            piece
            for key, file in files.items()
            if key in read
            for piece in cut_lines(file, start.get(key, 0), self._piece_bytes, end[key])
        ]
        return _shares(pieces, self._piece_bytes)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return _read(partition)


def _shares(pieces: "Sequence[LinePiece]", piece_bytes: int) -> list[LineShare]:
    return [LineShare(share) for share in pack(pieces, piece_bytes)]


def _read(partition: InputPartition) -> "Iterator[pa.RecordBatch]":
    from klamm.pipeline.logs.request_logs import read_lines

    assert isinstance(partition, LineShare), "Spark gives back what it was given"
    return read_lines(partition.pieces)
