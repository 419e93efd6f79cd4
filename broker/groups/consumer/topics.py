"""What consumer groups know of topics: the part of the metadata that a coordinator sees."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from klamm.protocol.uuid import Uuid


@dataclass(frozen=True, slots=True)
class Topic:
    topic_id: Uuid
    name: str
    partitions: int


class Topics(Protocol):
    """The metadata as of one version."""

    @property
    def version(self) -> int:
        """The offset of the last record that the metadata have."""

    @property
    def version_of_newest_topic(self) -> int:
        """The version at which a topic was created last; that of the first metadata seen if none was since."""

    def named(self, name: str) -> Topic | None:
        """The topic with this name."""

    def with_id(self, topic_id: Uuid) -> Topic | None:
        """The topic with this id."""

    def names(self) -> Iterable[str]:
        """The names of all topics."""

    def fingerprint(self, topic: Topic) -> bytes:
        """Bytes that are others when the topic has been made anew, or has other partitions or racks of replicas."""
