"""The open listeners of one node, a broker or the controller: they open, pause and close together."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

from klamm.controller.metadata.broker import EndPoint
from klamm.server.addresses import Address
from klamm.server.listener import PortListener
from klamm.server.listeners import Listener


class NodeListeners:
    """Each of a node's listeners with its port, in order."""

    def __init__(self, listeners: Sequence[Listener], ports: Sequence[PortListener]) -> None:
        self._each = tuple(zip(listeners, ports, strict=True))

    def __iter__(self) -> Iterator[tuple[Listener, PortListener]]:
        return iter(self._each)

    @property
    def is_open(self) -> bool:
        return all(port.is_open for _, port in self._each)

    def open(self) -> None:
        """Take all ports, or none of those that were not open before: then it raises PortTaken."""
        with ExitStack() as undo:
            for _, port in self._each:
                if not port.is_open:
                    port.open()
                    undo.callback(port.pause)
            undo.pop_all()

    def pause(self) -> None:
        """Listen no longer, and keep all ports."""
        for _, port in self._each:
            port.pause()

    def close(self) -> None:
        """Give all ports back."""
        for _, port in self._each:
            port.close()

    @property
    def end_points(self) -> tuple[EndPoint, ...]:
        """What is registered, and told to clients: the listeners that are advertised."""
        told = ((listener, listener.told(port.address)) for listener, port in self._each)
        return tuple(
            EndPoint(listener.name, at.host, at.port, int(listener.security_protocol))
            for listener, at in told
            if at is not None
        )

    @property
    def addresses(self) -> Mapping[str, Address]:
        """Where each listener is reached, by name: as advertised, or as bound where it is not."""
        return {
            listener.name: listener.told(port.address) or Address(port.address.reachable_host, port.address.port)
            for listener, port in self._each
        }


def open_node(listeners: Sequence[Listener]) -> NodeListeners:
    """A node's listeners, open. Raises PortTaken, and then nothing is."""
    node = NodeListeners(listeners, [PortListener(one.bind) for one in listeners])
    try:
        node.open()
    except BaseException:
        node.close()
        raise
    return node
