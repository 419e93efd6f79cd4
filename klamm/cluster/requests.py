"""What clients asked, for tests: the newest lines of the request log. Used by `klamm.Cluster` and by the control
interface.
"""

import difflib
from typing import Any, Final

from klamm.console.shown import shown
from klamm.protocol.messages.index import MODULES
from klamm.server.server import Server

PAGE_REQUESTS: Final = 1_000


class UnknownApi(Exception):
    """Kafka has no API of this name. The text is one clause for users."""


def find_requests(server: Server, api: str | None, after_seq: int) -> list[dict[str, Any]]:
    """The first `PAGE_REQUESTS` requests of an API (None: of all) after a `seq`, as lines of the request log. Raises
    UnknownApi."""
    known = {_name_of(module) for module in MODULES.values()} | server.requested_apis()
    if api is not None and api not in known:
        near = difflib.get_close_matches(api, known, 1)
        raise UnknownApi(f"Kafka has no API {shown(api)}" + (f"; {near[0]} is near" if near else ""))
    return server.find_requests(api, after_seq, PAGE_REQUESTS)


def _name_of(module: str) -> str:
    """Kafka's name of the API that a module declares: `create_topics` is CreateTopics."""
    return "".join(word.capitalize() for word in module.rpartition(".")[2].split("_"))
