"""The open listeners of one node, a broker or the controller: they open, pause and close together."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

from klamm.controller.metadata.broker import EndPoint
from klamm.server.addresses import Address
from klamm.server.listener import PortListener
from klamm.server.listeners import Listener


class NodeListeners:
    """The listeners of one node with their ports, in order."""

    def __init__(self, listeners: Sequence[Listener], ports: Sequence[PortListener]) -> None:
        self._each = tuple(zip(listeners, ports, strict=True))

    def __iter__(self) -> Iterator[tuple[Listener, PortListener]]:
        return iter(self._each)

    @property
    def is_open(self) -> bool:
        return all(port.is_open for _, port in self._each)

    def open(self) -> None:
        """Open all ports. If one cannot be opened, the ports that this call opened are closed; raises PortTaken."""
        with ExitStack() as undo:
            for _, port in self._each:
                if not port.is_open:
                    port.open()
                    undo.callback(port.pause)
            undo.pop_all()

    def pause(self) -> None:
        """Stop listening, but keep all ports."""
        for _, port in self._each:
            port.pause()

    def close(self) -> None:
        """Release all ports."""
        for _, port in self._each:
            port.close()

    @property
    def end_points(self) -> tuple[EndPoint, ...]:
        """The end points of the advertised listeners, for the broker's registration and for answers to clients."""
        advertised = ((listener, listener.advertised_at(port.address)) for listener, port in self._each)
        return tuple(
            EndPoint(listener.name, at.host, at.port, int(listener.security_protocol))
            for listener, at in advertised
            if at is not None
        )

    @property
    def addresses(self) -> Mapping[str, Address]:
        """The address of each listener, by name: the advertised one, or the bound one if it is not advertised."""
        return {
            listener.name: listener.advertised_at(port.address)
            or Address(port.address.reachable_host, port.address.port)
            for listener, port in self._each
        }


def open_node(listeners: Sequence[Listener]) -> NodeListeners:
    """Open a node's listeners. Raises PortTaken; then none of them is open."""
    node = NodeListeners(listeners, [PortListener(one.bind) for one in listeners])
    try:
        node.open()
    except BaseException:
        node.close()
        raise
    return node
