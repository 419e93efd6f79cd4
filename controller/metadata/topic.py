"""One topic: its name, its id and its row in the image."""

from dataclasses import dataclass

from klamm.protocol.uuid import Uuid

# The topics that Metadata calls internal. KIP-578 exempts fewer from its limits (docs/profiles.md).
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__share_group_state", "__transaction_state"})


@dataclass(frozen=True, slots=True)
class Topic:
    """The name and the id of a topic. `row` is its number among all topics ever created, in the order of creation."""

    name: str
    topic_id: Uuid
    row: int

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


def collision_key(topic_name: str) -> str | None:
    """The form that colliding names share (metric names treat dots as underscores); None if the name cannot collide."""
    if "." in topic_name or "_" in topic_name:
        return topic_name.replace(".", "_")
    return None
