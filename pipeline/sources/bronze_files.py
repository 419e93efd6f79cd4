"""`kraft-log-files`: new parts of metadata logs as Parquet files of bronze.metadata_record, for Spark, as a stream.

    spark.readStream.format("kraft-log-files").option("logs", "DIR\\nDIR").option("table", "FOLDER").load()

The processes that read the logs write the files, so the records do not pass through the JVM, which takes twice the time
of reading them. The rows of the stream are the files. They become part of the table when `add_files` is called for
their micro-batch. Options: those of `kraft-log` but for `types`, and `table`, the folder of the table, which executors
find under the same path.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.types import StructField, StructType

from klamm.pipeline import schemas
from klamm.pipeline.errors import PipelineError
from klamm.pipeline.sources.kraft_log import KraftLogStream, Share

_FILE: Final = {"path": schemas.STRING, "size": schemas.LONG, "modified_ms": schemas.LONG}


class BronzeFileSource(DataSource):
    """The data source `kraft-log-files`; see the module."""

    @classmethod
    def name(cls) -> str:
        return "kraft-log-files"

    def schema(self) -> StructType:
        return StructType([StructField(name, kind) for name, kind in _FILE.items()])

    def streamReader(self, schema: StructType) -> "BronzeFileStream":  # noqa: N802 - Spark's name
        return BronzeFileStream(self.options)


class BronzeFileStream(KraftLogStream):
    """Writes the parts of the logs that have not been read yet, with the stream offsets of `kraft-log`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        if not options.get("table"):
            raise PipelineError("kraft-log-files needs the option table: a folder")
        self._table = options["table"]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        from klamm.pipeline.logs.bronze_files import write_pieces  # only the executors need pyarrow and NumPy

        assert isinstance(partition, Share), "Spark gives back what it was given"
        yield tuple(write_pieces(Path(self._table), partition.pieces))


def add_files(table: Path, files: DataFrame, batch_id: int) -> None:
    """Write the files of a micro-batch, and make them part of the table, once."""
    from klamm.pipeline.logs.bronze_files import WrittenFile, add_to_table

    add_to_table(table, batch_id, [WrittenFile(*row) for row in files.collect()])
