"""One topic: its name, its id and its row in the image."""

import re
from typing import Final

from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass

MAX_TOPIC_NAME_CHARACTERS: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")

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


def has_legal_characters(topic_name: str) -> bool:
    """Whether the name has characters, and only those that topics' names may have."""
    return _LEGAL.fullmatch(topic_name) is not None


def is_legal_name(topic_name: str) -> bool:
    """Whether a topic may have this name. Apache Kafka's brokers make directories of such names."""
    return (
        has_legal_characters(topic_name)
        and len(topic_name) <= MAX_TOPIC_NAME_CHARACTERS
        and topic_name not in (".", "..")
    )


def collision_key(topic_name: str) -> str | None:
    """The form that colliding names share (metric names treat dots as underscores); None if the name cannot collide."""
    if "." in topic_name or "_" in topic_name:
        return topic_name.replace(".", "_")
    return None
