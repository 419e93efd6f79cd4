"""What an action of `klamm reassign-partitions` gives back: lines for people, an object for programs, or a failure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from klamm.admin.partition_types import TopicPartition


class ReassignFailed(Exception):
    """The action cannot be done; the text is one line for people."""


@dataclass(frozen=True, slots=True)
class Report:
    """What is printed: `lines`, or with --json `content` on one line; then `failure`, if there is one, on stderr."""

    lines: tuple[str, ...]
    content: Mapping[str, Any]
    failure: str | None = None


def as_object(partition: TopicPartition) -> dict[str, Any]:
    """A partition as the JSON that is printed names it."""
    return {"topic": partition.topic_name, "partition": partition.partition_index}


def joined(items: Iterable[object]) -> str:
    """Partitions or brokers as Kafka's tool lists them: `1,2,3`."""
    return ",".join(map(str, items))
