"""What clients asked, for tests: the journal, which is the newest lines of the request log with what they asked and
got. Used by `klamm.Cluster` and by the control interface.
"""

from typing import Any, Final

from klamm.console.shown import shown
from klamm.protocol.messages.index import MODULES
from klamm.protocol.near_names import did_you_mean
from klamm.server.recent_requests import Which
from klamm.server.server import Server

PAGE_REQUESTS: Final = 1_000


class UnknownApi(Exception):
    """Kafka has no API of this name. The text is one clause for users."""


def find_requests(server: Server, which: Which, most: int = PAGE_REQUESTS) -> list[dict[str, Any]]:
    """The first requests that fit, at most `PAGE_REQUESTS`, as lines of the request log. Raises UnknownApi."""
    _refuse_unknown(server, which.api)
    return server.journal.find(which, min(most, PAGE_REQUESTS))


async def wait_for_requests(server: Server, which: Which, count: int, timeout_seconds: float) -> list[dict[str, Any]]:
    """At least `count` requests that fit, once there are so many. Raises UnknownApi, and TimeoutError with a clause."""
    _refuse_unknown(server, which.api)

    def enough() -> list[dict[str, Any]] | None:
        found = server.journal.find(which, PAGE_REQUESTS)
        return found if len(found) >= count else None

    found = await server.wakeups.until(enough, timeout_seconds)
    if found is None:
        there = len(server.journal.find(which, PAGE_REQUESTS))
        raise TimeoutError(f"there are {there} of {count} such requests after {timeout_seconds:g} s")
    return found


def _refuse_unknown(server: Server, api: str | None) -> None:
    known = {_name_of(module) for module in MODULES.values()} | server.journal.apis
    if api is not None and api not in known:
        raise UnknownApi(f"Kafka has no API {shown(api)}{did_you_mean(api, known)}")


def _name_of(module: str) -> str:
    """Kafka's name of the API that a module declares: `create_topics` is CreateTopics."""
    return "".join(word.capitalize() for word in module.rpartition(".")[2].split("_"))
