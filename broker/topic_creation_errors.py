"""Why internal topics could not be created: for a while the broker tries no more, and tells the members instead."""

from collections.abc import Iterable
from typing import Final

MAX_ERRORS: Final = 1_000
"""Topics whose errors one broker keeps; those that end first are dropped, as in Kafka."""


class CreationErrors:
    """Texts by topic name, each until its time."""

    def __init__(self) -> None:
        self._errors: dict[str, tuple[int, str]] = {}

    def put(self, topic_name: str, text: str, until_ms: int) -> None:
        self._errors[topic_name] = until_ms, text
        if len(self._errors) > MAX_ERRORS:
            del self._errors[min(self._errors, key=lambda name: self._errors[name][0])]

    def of(self, topic_names: Iterable[str], now_ms: int) -> dict[str, str]:
        """The errors that still hold, in the order of the names."""
        found = {}
        for name in topic_names:
            until_ms, text = self._errors.get(name, (now_ms, ""))
            if until_ms > now_ms:
                found[name] = text
        return found
