"""Spark settings for tables of a few rows: to compile their queries takes longer than to run them."""

from pathlib import Path
from typing import Final

SETTINGS: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.memory": "1g",
}


def interpreted(folder: Path) -> dict[str, str]:
    """The environment of a process in which Spark has these settings; `folder` gets the file with them."""
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in SETTINGS.items()))
    return {"SPARK_CONF_DIR": str(folder)}
