"""Which names a topic may have, and which names collide (the wire-visible texts are those of Apache Kafka 4.3)."""

from klamm.controller.metadata.image import MetadataImage, collision_key
from klamm.controller.metadata.topic import MAX_TOPIC_NAME_CHARACTERS, has_legal_characters
from klamm.protocol.errors import ApiError, ErrorCode

MAX_QUOTED_CHARACTERS = 1000
"""Most characters of a name that a message quotes: older API versions have room for 32,767 bytes in all."""
MAX_BYTES_OF_CHARACTER = 4


def named(topic_name: str) -> str:
    """The name as messages contain it: without its end if it is longer than any topic's."""
    return topic_name if len(topic_name) <= MAX_QUOTED_CHARACTERS else topic_name[:MAX_QUOTED_CHARACTERS] + "…"


def quoted(topic_name: str) -> str:
    """The name as messages quote it."""
    return f"'{named(topic_name)}'"


def validate_topic_name(topic_name: str) -> ApiError | None:
    """INVALID_TOPIC_EXCEPTION with the reason, or None for a legal name."""
    fault = _fault(topic_name)
    return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}") if fault else None


def _fault(topic_name: str) -> str | None:
    if not topic_name:
        return "the empty string is not allowed"
    if topic_name in (".", ".."):
        return f"'{topic_name}' is not allowed"
    if len(topic_name) > MAX_TOPIC_NAME_CHARACTERS:
        return f"the length of {quoted(topic_name)} is longer than the max allowed length {MAX_TOPIC_NAME_CHARACTERS}"
    if not has_legal_characters(topic_name):
        return f"{quoted(topic_name)} contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def validate_no_collision(image: MetadataImage, topic_name: str) -> ApiError | None:
    """INVALID_TOPIC_EXCEPTION if another topic differs from this name only in dots and underscores."""
    others = image.collision_keys.get(collision_key(topic_name) or "")
    if not others or topic_name in others:
        return None
    return ApiError(
        ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic_name}' collides with existing topic: {min(others)}"
    )


def shown_name(name: str) -> str:
    """A topic's name as error messages show it: one that is too long for a topic is cut, because it may be repeated for
    each of its partitions. Without the ellipsis it takes no more bytes than the longest name."""
    most = MAX_TOPIC_NAME_CHARACTERS // (1 if name.isascii() else MAX_BYTES_OF_CHARACTER)
    return name if len(name) <= most else f"{name[:most]}…"
