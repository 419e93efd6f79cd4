"""The report of an action of `klamm reassign-partitions`: lines for users, an object for programs, and a failure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from klamm.admin.partition_types import TopicPartition


class ReassignFailed(Exception):
    """The action cannot be carried out. The text is one line for users."""


@dataclass(frozen=True, slots=True)
class Report:
    """The output of an action: `lines`, or with --json `content` on one line; then on stderr `failure`, unless None."""

    lines: tuple[str, ...]
    content: Mapping[str, Any]
    failure: str | None = None


def as_object(partition: TopicPartition) -> dict[str, Any]:
    """The members that identify a partition in printed JSON."""
    return {"topic": partition.topic_name, "partition": partition.partition_index}


def joined(items: Iterable[object]) -> str:
    """Partitions or brokers in the format of Kafka's tool: `1,2,3`."""
    return ",".join(map(str, items))
