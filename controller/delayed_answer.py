"""Answers that are not ready when their request has been decided: record data has to be replicated, or written, first.

Kafka calls them delayed operations. They wait in the purgatory (`klamm.server.purgatory`), which knows no more of
them than is declared here.
"""

from collections.abc import Collection
from typing import Protocol, TypeAlias, runtime_checkable

from klamm.controller.data.data_plane import DataPlane, LogKey
from klamm.controller.metadata.image import MetadataImage
from klamm.protocol.fields import Message

Key: TypeAlias = LogKey
"""What an answer waits for: a change of a partition, named by its topic's id and its index."""


@runtime_checkable
class DelayedAnswer(Protocol):
    """An answer that is not ready. It keeps who asked and what was asked, and nothing of how the cluster was then."""

    keys: Collection[Key]
    """When something changes of one of these, the answer may be complete. Set by `try_complete`."""
    retry_at_ms: int
    """When the answer may be complete although none of `keys` has changed, on the controller's clock: its deadline, or
    earlier if more is known. Set by `try_complete`."""

    def try_complete(self, image: MetadataImage, data: DataPlane, now_ms: int) -> Message | None:
        """The response, if it is complete by now, or if its deadline has passed; None: it has to wait on."""
