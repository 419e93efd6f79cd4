"""One topic: its name, its id and its row in the image."""

from dataclasses import dataclass

from klamm.protocol.uuid import Uuid

# What Metadata calls internal. The topics that KIP-578 never counts nor refuses are fewer (docs/profiles.md).
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__share_group_state", "__transaction_state"})


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's names. `row` is its number among all topics ever created, ascending in creation order."""

    name: str
    topic_id: Uuid
    row: int

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


def collision_key(topic_name: str) -> str | None:
    """The form in which two names collide (dots and underscores are one in metric names); None if none can."""
    if "." in topic_name or "_" in topic_name:
        return topic_name.replace(".", "_")
    return None
