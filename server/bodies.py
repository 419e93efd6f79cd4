"""Requests and answers as JSON, for the journal: kept as text, because most are never read."""

import json
from typing import Any, Final

from klamm.quick_dataclasses import dataclass

NO_BODIES: Final = {"request": None, "response": None}
"""The members of a line about a request that was not decoded."""


@dataclass(frozen=True, slots=True)
class Bodies:
    """A request and its answer. None: it was too large, or there is no answer."""

    request: str | None
    response: str | None

    @property
    def size_bytes(self) -> int:
        """About the memory that they take."""
        return len(self.request or "") + len(self.response or "")

    def members(self) -> dict[str, Any]:
        """Both, as JSON values."""
        bodies = {"request": self.request, "response": self.response}
        return {name: None if text is None else json.loads(text) for name, text in bodies.items()}
