"""The client at the other end of a connection."""

from klamm.controller.authorizer import ANONYMOUS
from klamm.protocol.api import Listener
from klamm.quick_dataclasses import dataclass


@dataclass(slots=True)
class Client:
    """What is known of a client from its connection, SASL and ApiVersions. One object for each connection."""

    listener: Listener
    """The kind of listener that the client connected to."""
    broker_id: int | None = None
    """The broker whose listener the client connected to; None on the controller's."""
    host: str = ""
    """The client's address, as Java prints it."""
    principal: str | None = ANONYMOUS
    """The authenticated principal. Set by the SASL handshake; ANONYMOUS before it; None: the cluster itself."""
    software_name: str | None = None
    """Set by ApiVersions (KIP-511); None before."""
    software_version: str | None = None
    """Set by ApiVersions (KIP-511); None before."""
    client_id: str | None = None
    """The client id in the header of its latest request, if it decides which release the client is served."""
    listener_name: str | None = None
    """The name of the listener that the client connected to, such as "PLAINTEXT"; None: the first one."""
    port: int = 0
    """The client's port; 0: unknown."""
    throttle_time_ms: int = 0
    """For how long its latest request throttles the client. Set with the answer; the connection takes it, and is not
    read for this time."""
    may_use_tokens: bool = False
    """Whether the client may ask about delegation tokens: it has authenticated itself, and not by one of them."""
    is_forwarded: bool = False
    """Whether a broker forwards the requests of this client to the controller, in an Envelope."""
    connection_id: int = 0
    """The number of the connection among those of its server, from 1 on. Set when it is accepted; 0 before."""
