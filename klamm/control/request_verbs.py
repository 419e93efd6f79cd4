"""The journal from Python: what clients asked, for `klamm.ControlClient`, `klamm.ServerProcess` and the fixture.

Standard library alone.
"""

from collections.abc import Mapping
from typing import Any

from klamm.control.fault_verbs import WAIT_SECONDS, Fault, waited
from klamm.control.recorded import LoggedRequest

__tracebackhide__ = True
"""pytest shows the line of the test that called, not the frames of this module."""


class RequestVerbs:
    """The methods about requests of clients."""

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        """The JSON of the answer to a request of the control interface."""
        raise NotImplementedError

    def requests(
        self,
        api: str | None = None,
        *,
        client_id: str | None = None,
        broker_id: int | None = None,
        fault: Fault | str | None = None,
        after_seq: int = -1,
    ) -> tuple[LoggedRequest, ...]:
        """The newest 10,000 requests of clients, with the oldest first. The arguments select requests by API (such as
        "Produce"), client id, broker and fault rule. `after_seq` selects requests after the one with this number."""
        which = which_requests(api, client_id, broker_id, fault, after_seq)
        found: list[LoggedRequest] = []
        while True:
            page = self.ask("POST", "/requests", which)["requests"]
            if not page:
                return tuple(found)
            found += map(LoggedRequest.from_json, page)
            which["after_seq"] = found[-1].seq

    def wait_for_requests(
        self,
        api: str | None = None,
        *,
        count: int = 1,
        timeout_seconds: float = WAIT_SECONDS,
        client_id: str | None = None,
        broker_id: int | None = None,
        fault: Fault | str | None = None,
        after_seq: int = -1,
    ) -> tuple[LoggedRequest, ...]:
        """Wait for `count` such requests. Returns at most 1,000 of them. Raises `TimeoutError`."""
        which = which_requests(api, client_id, broker_id, fault, after_seq)
        body = {**which, "count": count, "timeout_ms": round(timeout_seconds * 1000)}
        return tuple(map(LoggedRequest.from_json, waited(self, "/requests/wait", body)["requests"]))


def which_requests(
    api: str | None, client_id: str | None, broker_id: int | None, fault: Fault | str | None, after_seq: int
) -> dict[str, Any]:
    """The body that says which requests are wanted."""
    fault_id = fault.id if isinstance(fault, Fault) else fault
    return {"api": api, "client_id": client_id, "broker_id": broker_id, "fault": fault_id, "after_seq": after_seq}
