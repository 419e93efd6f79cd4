"""Descriptions of APIs and record types: their keys, their versions and their message classes."""

from typing import Generic, Literal, TypeVar

from klamm.protocol.fields import Message
from klamm.quick_dataclasses import dataclass

Listener = Literal["broker", "controller"]
RequestT = TypeVar("RequestT", bound=Message, covariant=True)
ResponseT = TypeVar("ResponseT", bound=Message, covariant=True)
MessageT = TypeVar("MessageT", bound=Message, covariant=True)


def span(first: int, last: int) -> range:
    """The versions from `first` to `last`, both included."""
    return range(first, last + 1)


@dataclass(frozen=True, slots=True)
class Api(Generic[RequestT, ResponseT]):
    """An API: a request and its response, in all versions that are declared. Apache Kafka 4.3 advertises
    `current_versions`."""

    key: int
    name: str
    versions: range
    flexible_since: int | None
    listeners: frozenset[Listener]
    latest_stable: int
    request: type[RequestT]
    response: type[ResponseT]
    removed_before: int = 0
    """Apache Kafka 4.0 removed the versions below this one (KIP-896). Older releases serve them."""

    @property
    def kept_versions(self) -> range:
        """The versions that Apache Kafka 4.3 declares. Empty for an API of former releases."""
        return range(max(self.versions.start, self.removed_before), self.versions.stop)

    @property
    def current_versions(self) -> range:
        """The versions that Apache Kafka 4.3 serves: declared there, and stable."""
        return range(self.kept_versions.start, self.latest_stable + 1)

    def flexible(self, version: int) -> bool:
        """Whether `version` uses compact encodings and tagged fields."""
        return self.flexible_since is not None and version >= self.flexible_since

    def request_header_version(self, version: int) -> int:
        if self.name == "ControlledShutdown" and version == 0:
            return 0  # without a client id
        return 2 if self.flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        # When a client reads the response to ApiVersions, it does not know the server's versions yet (KIP-511).
        return 1 if self.flexible(version) and self.name != "ApiVersions" else 0


@dataclass(frozen=True, slots=True)
class RecordType(Generic[MessageT]):
    """A record of the metadata log, a control record of the raft log, or another versioned blob (id -1)."""

    id: int
    name: str
    versions: range
    flexible_since: int | None
    message: type[MessageT]

    def flexible(self, version: int) -> bool:
        """Whether `version` uses compact encodings and tagged fields."""
        return self.flexible_since is not None and version >= self.flexible_since
