"""Defaults of broker configs that a former release of Apache Kafka had, where they differ from those of 4.3.

`release_defaults.tsv` has them, taken from the ConfigDefs of each release. `log.message.timestamp.after.max.ms` is a
config since 3.6; before, `log.message.timestamp.difference.max.ms` had the same default, which is no limit.
"""

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType


@cache
def release_defaults(release_name: str) -> Mapping[str, str]:
    """The defaults by config, as in server.properties; empty for the newest release."""
    with Path(__file__).with_name("release_defaults.tsv").open(newline="", encoding="utf-8") as table:
        rows = csv.DictReader(table, delimiter="\t")
        return MappingProxyType(
            {row["name"]: row["default"] for row in rows if release_name in row["releases"].split()}
        )
