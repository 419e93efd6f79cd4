"""Answers that are not complete when their request is decided, because records must first be replicated or written.

Kafka calls them delayed operations. They wait in the purgatory (`klamm.server.purgatory`), which uses only what is
declared here.
"""

from collections.abc import Collection
from typing import Protocol, TypeAlias, runtime_checkable

from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey
from klamm.protocol.fields import Message

Key: TypeAlias = LogKey
"""What an answer waits for: a change of a partition, named by its topic's id and its index."""


@runtime_checkable
class DelayedAnswer(Protocol):
    """An answer that is not complete. It keeps the requester and the request, but not the state of the cluster."""

    keys: Collection[Key]
    """Partitions whose change may complete the answer. Set by `try_complete`."""
    retry_at_ms: int
    """When the answer may be complete although none of `keys` has changed, on the controller's clock: its deadline, or
    earlier if more is known. Set by `try_complete`."""

    # Beside these, an answer that waits as long as its client said has `client_waits_ms`, how long that is, and
    # `expire(now_ms)`, which makes that time over. They are used if the controller's clock is a manual one.

    def try_complete(self, image: MetadataImage, now_ms: int) -> Message | None:
        """The response, if it is complete or its deadline has passed; None: it has to wait on."""
