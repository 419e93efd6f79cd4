"""The output directory of the pipeline, and the paths of its tables.

OUT/klamm-pipeline.json     marks the directory as Klamm's, and describes the job that made it
OUT/bronze|silver|gold|quarantine|live/TABLE/*.parquet
OUT/checkpoints/TABLE       the positions up to which the logs have been read
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it
from pyspark.sql.types import StructType

from klamm.pipeline import schemas
from klamm.pipeline.errors import PipelineError

MARKER: Final = "klamm-pipeline.json"
_MARKER_PART: Final = MARKER + ".part"
_EMPTYING: Final = "being_emptied"
LAYOUT_VERSION: Final = 1
_LAYERS: Final = {
    "bronze": schemas.BRONZE,
    "quarantine": schemas.QUARANTINE,
    "silver": schemas.SILVER,
    "gold": schemas.GOLD,
    "live": schemas.LIVE,
}


class Store:
    """An output directory of the pipeline."""

    @classmethod
    def create(cls, folder: Path, made_by: Mapping[str, Any], *, overwrite: bool = False) -> "Store":
        """Use a directory that is new, empty or of an earlier ingest. With `overwrite` the tables of an earlier ingest
        are deleted. Raises PipelineError for a directory with other files; these are never deleted."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held = any(entry.name != _MARKER_PART for entry in folder.iterdir())
            if held and not (folder / MARKER).is_file():
                raise PipelineError(
                    f"{folder} holds something else than tables of klamm pipeline: name another directory"
                )
            if held and (overwrite or _is_being_emptied(folder)):
                # If the process is killed while it deletes, the marker says that the directory is incomplete.
                _write_marker(folder, {_EMPTYING: True})
                for layer in (*_LAYERS, "checkpoints"):
                    if (folder / layer).exists():
                        shutil.rmtree(folder / layer)
                held = False
            if not held:
                _write_marker(folder, made_by)
        except OSError as error:
            raise PipelineError(f"cannot write to {folder}: {error.strerror}") from error
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> "Store":
        """Open a directory that an ingest has made. Raises PipelineError for any other."""
        marker = folder / MARKER
        try:
            told = json.loads(marker.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise PipelineError(f"{folder} holds no tables: klamm pipeline ingest makes them") from None
        except (OSError, ValueError) as error:
            raise PipelineError(f"cannot read {marker}: {error}") from error
        if isinstance(told, dict) and told.get(_EMPTYING):
            raise PipelineError(f"{folder} was being emptied for a new ingest, which did not begin: ingest again")
        if not isinstance(told, dict) or told.get("layout") != LAYOUT_VERSION:
            raise PipelineError(
                f"{folder} was made by another version of klamm pipeline: ingest anew, with --overwrite"
            )
        return cls(folder)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, layer: str, table: str) -> str:
        return str(self.folder / layer / table)

    def checkpoint(self, table: str) -> str:
        return str(self.folder / "checkpoints" / table)

    def forget_windows_of_release_0_1(self) -> None:
        """Delete live.closed_window if Klamm 0.1 has written it, whose states of clusters were in Spark's state store.
        The next ingest writes the table again, from the beginning of the log."""
        folder = self.folder / "checkpoints" / "closed_window"
        if (folder / "state").is_dir():
            shutil.rmtree(self.folder / "live" / "closed_window", ignore_errors=True)
            folder.rename(folder.with_name("closed_window.0.1"))
        shutil.rmtree(folder.with_name("closed_window.0.1"), ignore_errors=True)

    def read(self, spark: SparkSession, layer: str, table: str) -> DataFrame:
        """The current table; empty if it was never written."""
        schema: StructType = _LAYERS[layer][table]
        if not (self.folder / layer / table).is_dir():
            # A range, because an empty list would start Python workers.
            return spark.range(0).select(*(F.lit(None).cast(column.dataType).alias(column.name) for column in schema))
        return spark.read.schema(schema).parquet(self.path(layer, table))

    def count(self, spark: SparkSession, layer: str, table: str) -> int:
        """The number of rows of the current table, from the metadata of its files, without a job of Spark."""
        import pyarrow.parquet as pq

        files = self.read(spark, layer, table).inputFiles()
        return sum(pq.read_metadata(unquote(urlsplit(file).path)).num_rows for file in files)

    def write(self, layer: str, table: str, rows: DataFrame) -> None:
        """Replace a whole table of silver or gold. Only the columns of its schema are written."""
        schema: StructType = _LAYERS[layer][table]
        rows.select(*schema.names).write.mode("overwrite").parquet(self.path(layer, table))


def _write_marker(folder: Path, content: Mapping[str, Any]) -> None:
    part = folder / _MARKER_PART
    part.write_text(json.dumps({"layout": LAYOUT_VERSION, **content}, indent=2) + "\n", encoding="utf-8")
    part.replace(folder / MARKER)


def _is_being_emptied(folder: Path) -> bool:
    try:
        told = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    except ValueError:
        return False
    return isinstance(told, dict) and bool(told.get(_EMPTYING))
