"""The output directory: which tables stand where in it, and whose it is.

OUT/klamm-pipeline.json     says that the directory is ours, and what made it
OUT/bronze|silver|gold|quarantine|live/TABLE/*.parquet
OUT/checkpoints/TABLE       how far the logs have been read
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
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
    """An output directory that is ours."""

    @classmethod
    def create(cls, folder: Path, made_by: Mapping[str, Any], *, overwrite: bool = False) -> "Store":
        """Take a directory that is new, empty or ours; with `overwrite` one of ours begins anew. PipelineError for one
        that holds anything else, whatever was asked for: nothing of others is ever deleted."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held = any(entry.name != _MARKER_PART for entry in folder.iterdir())
            if held and not (folder / MARKER).is_file():
                raise PipelineError(
                    f"{folder} holds something else than tables of klamm pipeline: name another directory"
                )
            if held and (overwrite or _is_being_emptied(folder)):
                _write_marker(folder, {_EMPTYING: True})  # who is killed in the middle of it leaves a half that says so
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
        """A directory that an ingest has made. PipelineError if it is none."""
        marker = folder / MARKER
        try:
            told = json.loads(marker.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise PipelineError(f"{folder} holds no tables: klamm pipeline ingest makes them") from None
        except (OSError, ValueError) as error:
            raise PipelineError(f"cannot read {marker}: {error}") from error
        if isinstance(told, dict) and told.get(_EMPTYING):
            raise PipelineError(f"{folder} was being emptied for a new ingest, which did not come to it: ingest again")
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

    def read(self, spark: SparkSession, layer: str, table: str) -> DataFrame:
        """A table as it stands; an empty one if it was never written."""
        schema: StructType = _LAYERS[layer][table]
        if not (self.folder / layer / table).is_dir():
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(self.path(layer, table))

    def write(self, layer: str, table: str, rows: DataFrame) -> None:
        """Rebuild a table of silver or gold, whole, in the columns that it has."""
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
