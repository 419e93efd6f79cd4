"""The methods of `klamm.Cluster` about requests of clients: those of `klamm.control.request_verbs`, on trio."""

import trio

from klamm.cluster.errors import ClusterError
from klamm.cluster.requests import UnknownApi, find_requests, wait_for_requests
from klamm.control.fault_verbs import WAIT_SECONDS, Fault
from klamm.control.recorded import LoggedRequest
from klamm.control.request_verbs import which_requests
from klamm.server.recent_requests import Which
from klamm.server.server import Server


class RequestMethods:
    """The methods about requests of clients."""

    @property
    def _up(self) -> Server:
        raise NotImplementedError

    async def requests(
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
            await trio.lowlevel.checkpoint()
            try:
                page = find_requests(self._up, Which(**which))
            except UnknownApi as error:
                raise ClusterError(str(error)) from error
            if not page:
                return tuple(found)
            found += map(LoggedRequest.from_json, page)
            which["after_seq"] = found[-1].seq

    async def wait_for_requests(
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
        which = Which(**which_requests(api, client_id, broker_id, fault, after_seq))
        try:
            found = await wait_for_requests(self._up, which, count, timeout_seconds)
        except UnknownApi as error:
            raise ClusterError(str(error)) from error
        return tuple(map(LoggedRequest.from_json, found))
