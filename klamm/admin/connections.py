"""The connections of one admin client: one to any broker, and one to each broker that has to be asked directly.

This module sends requests and receives answers within the client's time limit; the classes that derive from it define
the requests. `klamm.admin.connection` handles the bytes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TypeVar, Unpack

import trio

from klamm.admin.client_properties import Properties, SecurityKeywords, properties_of_caller
from klamm.admin.connection import Connection, open_connection
from klamm.admin.errors import AuthenticationFailed, ClusterUnreachable, NotSupportedByBroker
from klamm.admin.streams import AccessRefused, ConnectionLost
from klamm.admin.types import Broker
from klamm.protocol.api import Api
from klamm.protocol.fields import Message
from klamm.protocol.internal_topics import METADATA_TOPIC
from klamm.protocol.messages.raft import describe_quorum
from klamm.server.addresses import Address, decode_address

CLIENT_ID = "klamm-admin"
MAX_FRAME_BYTES = 100 * 1024 * 1024
REQUEST_TIMEOUT_SECONDS = 60.0
SERVER_TIMEOUT_MS = 30_000
MAX_LEARNED_TRIED = 10
"""If the bootstrap servers are down, at most this many other known brokers are tried."""

_Request = TypeVar("_Request", bound=Message)
_Response = TypeVar("_Response", bound=Message)


class AdminConnections:
    """The base of the admin client; `klamm.AdminClient` documents the arguments and the exceptions."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str | None = None,
        request_timeout_seconds: float | None = None,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        properties: Properties = None,
        **security: Unpack[SecurityKeywords],
    ) -> None:
        given = properties_of_caller(properties, **security)
        self._bootstrap_servers = bootstrap_servers
        self._addresses = [decode_address(text.strip()) for text in bootstrap_servers.split(",")]
        self._client_id = client_id or given.client_id or CLIENT_ID
        self._request_timeout_seconds = (
            request_timeout_seconds or given.request_timeout_seconds or REQUEST_TIMEOUT_SECONDS
        )
        self._security = given.security
        self._max_frame_bytes = max_frame_bytes
        self._connecting = trio.Lock()
        self._broker_addresses: dict[int, Address] = {}
        # By broker id, None for the bootstrap connection: at most one more than the cluster has brokers.
        self._connections: dict[int | None, Connection] = {}

    @classmethod
    async def connect(
        cls,
        bootstrap_servers: str,
        *,
        client_id: str | None = None,
        request_timeout_seconds: float | None = None,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        properties: Properties = None,
        **security: Unpack[SecurityKeywords],
    ) -> Self:
        """A client that has reached the cluster; raises `ClusterUnreachable` and `AuthenticationFailed`. Close it with
        `aclose()`."""
        client = cls(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_seconds=request_timeout_seconds,
            max_frame_bytes=max_frame_bytes,
            properties=properties,
            **security,
        )
        return await client.__aenter__()

    async def __aenter__(self) -> Self:
        with self._deadline():
            await self._connected(None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections. A later call connects again."""
        connections, self._connections = self._connections, {}
        with trio.CancelScope(shield=True):
            for connection in connections.values():
                await connection.aclose()

    def _learn_brokers(self, brokers: Sequence[Broker]) -> None:
        """Store the addresses of brokers, so that each of them can be asked directly."""
        self._broker_addresses = {broker.broker_id: Address(broker.host, broker.port) for broker in brokers}

    async def _request(self, api: Api[_Request, _Response], body: _Request, broker_id: int | None = None) -> _Response:
        with self._deadline():
            connection = await self._connected(broker_id)
            try:
                return await connection.exchange(api, connection.version_of(api), body)
            except ConnectionLost as error:
                raise self._unreachable(error) from error

    async def _request_or_controller(self, api: Api[_Request, _Response], body: _Request) -> _Response:
        """Ask any broker. If it does not serve the API, ask the controller, whose address it knows."""
        try:
            return await self._request(api, body)
        except NotSupportedByBroker as refused:
            reason = refused.reason
        try:
            with self._deadline():
                connection = await self._first_connection(await self._controllers())
                try:
                    return await connection.exchange(api, connection.version_of(api), body)
                except ConnectionLost as error:
                    raise self._unreachable(error) from error
                finally:
                    await connection.aclose()
        except NotSupportedByBroker as refused:
            raise NotSupportedByBroker(api.name, f"{reason}; {refused.reason}") from refused

    async def _controllers(self) -> list[Address]:
        """The listeners of the controllers, as a broker names them: the leader's first."""
        partition = describe_quorum.PartitionData()
        topic = describe_quorum.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
        answer = await self._request(describe_quorum.API, describe_quorum.DescribeQuorumRequest(topics=[topic]))
        leaders = {one.leader_id for topic in answer.topics for one in topic.partitions}
        nodes = sorted(answer.nodes, key=lambda node: node.node_id not in leaders)
        found = [Address(at.host, at.port) for node in nodes for at in node.listeners]
        if not found:
            raise NotSupportedByBroker(describe_quorum.API.name, "the answer names no listener of a controller")
        return found

    def _unreachable(self, error: ConnectionLost) -> ClusterUnreachable | AuthenticationFailed:
        kind = AuthenticationFailed if isinstance(error, AccessRefused) else ClusterUnreachable
        return kind(self._bootstrap_servers, str(error))

    @contextmanager
    def _deadline(self) -> Iterator[None]:
        # A cancel scope of its own, so that a deadline of the caller is not mistaken for this one.
        with trio.move_on_after(self._request_timeout_seconds) as scope:
            yield
        if scope.cancelled_caught:
            reason = f"no answer within {self._request_timeout_seconds:g} s"
            raise ClusterUnreachable(self._bootstrap_servers, reason)

    async def _connected(self, broker_id: int | None) -> Connection:
        """A usable connection to the broker, or, with None, to any; the existing one if it is still open."""
        async with self._connecting:
            known = self._connections.get(broker_id)
            if known is not None:
                if known.usable:
                    return known
                await known.aclose()
                del self._connections[broker_id]
            if broker_id is not None and broker_id not in self._broker_addresses:
                raise ClusterUnreachable(self._bootstrap_servers, f"broker {broker_id} is not live")
            addresses = self._anywhere() if broker_id is None else [self._broker_addresses[broker_id]]
            self._connections[broker_id] = connection = await self._first_connection(addresses)
            return connection

    def _anywhere(self) -> list[Address]:
        """Addresses where any broker may answer: the bootstrap servers first, because learned ones may be down by
        now."""
        learned = [address for address in self._broker_addresses.values() if address not in self._addresses]
        return self._addresses + learned[:MAX_LEARNED_TRIED]

    async def _first_connection(self, addresses: Sequence[Address]) -> Connection:
        reasons = []
        for address in addresses:
            try:
                return await open_connection(address, self._client_id, self._max_frame_bytes, self._security)
            except AccessRefused as error:
                raise self._unreachable(error) from error
            except ConnectionLost as error:
                reasons.append(str(error))
        raise ClusterUnreachable(self._bootstrap_servers, "; ".join(reasons))
