"""The requester: what a decision, or a delayed answer, knows of the client."""

from typing import NamedTuple

from klamm.controller.client import Client
from klamm.protocol.api import Listener


class Requester(NamedTuple):
    """The client that a request came from, and the listener that received it. Fixed for the request."""

    listener: Listener = "broker"
    """The kind of listener that received the request."""
    asked_broker_id: int | None = None
    """The broker that was asked; None on the controller's listener, where cluster-wide values apply."""
    client_id: str | None = None
    """The client id in the request's header."""
    principal: str | None = None
    """The authenticated principal, such as "User:ANONYMOUS"; None: the cluster itself, which may do everything."""
    host: str = ""
    """The client's address, as Java prints it."""
    listener_name: str | None = None
    """The name of the listener that the client connected to, such as "PLAINTEXT": answers contain its end points. None:
    the first listener of each broker."""
    may_use_tokens: bool = False
    """Whether the client has authenticated itself, and not by a delegation token."""
    connection_id: int = 0
    """The number of the client's connection among those of its server; 0: it has none."""
    client: Client | None = None
    """What else is known of the client from its connection."""

    @property
    def asked_controller_itself(self) -> bool:
        """Whether the client is connected to the controller's listener, so that no broker has checked the request."""
        return self.listener == "controller" and not (self.client and self.client.is_forwarded)
