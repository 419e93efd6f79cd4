"""Records to log, one by one or as columns."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from klamm.protocol.columns import Columns
from klamm.protocol.fields import Message

Record: TypeAlias = Message | Columns[Any]
Records: TypeAlias = Sequence[Record]
"""Records in log order; a run of columns stands for one record per row."""


def count_records(records: Records) -> int:
    """The number of offsets that `records` take."""
    return sum(1 if isinstance(record, Message) else len(record) for record in records)
