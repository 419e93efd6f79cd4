"""The configs of former releases of Apache Kafka, as far as they are not those of 4.3.

`release_configs.tsv` was written from the ConfigDefs in the jars of each release (2.1.1, 2.4.1, 2.8.2, 3.0.2, 3.3.2,
3.6.2, 3.9.1, 4.0.0, 4.1.1 and 4.2.0). A row without a type is a config of 4.3 that the releases of the row do not have;
any other row is the definition that these releases had. Kafka's internal configs count as absent; rows of the scope
`internal-topic` are those that CreateTopics responses list nevertheless. A default in a row
without a type is the value as which the releases behave: before 3.6 a timestamp after the broker's time had no limit,
and before 3.4 a partition remembered a producer for seven days.
"""

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

NEWEST: Final = "4.3"
"""The release of the other tables."""


def rows_of_release(release: str) -> Sequence[Mapping[str, str]]:
    """The rows of one release, in the order of the table."""
    numbers = _numbers(release)
    return [row for first, last, row in _rows() if first <= numbers <= last]


@cache
def _rows() -> Sequence[tuple[tuple[int, ...], tuple[int, ...], Mapping[str, str]]]:
    """All rows, each with the first and the last release that it is about."""
    rows = []
    with Path(__file__).with_name("release_configs.tsv").open(newline="", encoding="utf-8") as table:
        for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE):
            first, _, last = row["releases"].partition("-")
            rows.append((_numbers(first), _numbers(last or first), row))
    return rows


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
