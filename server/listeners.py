"""Listeners as values: where a broker or the controller is reached, under which name, by which security protocol.

Several for each broker, as Kafka's `listeners` has them. Nothing is opened here: `klamm.server.node_listeners` does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import combinations
from typing import Literal

from klamm.server.addresses import MAX_PORT, Address
from klamm.server.listener import PortTaken

Role = Literal["client", "inter-broker", "controller"]
"""A listener is the brokers' own only where a config says so; where none does, clients use all of the brokers'."""


class SecurityProtocol(IntEnum):
    """The numbers that registrations carry. Only PLAINTEXT is served."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener of one node."""

    name: str
    """In capitals, as Kafka has it in registrations."""
    bind: Address
    """Port 0: a free one, which it keeps."""
    advertised: Address | None
    """What clients are told; port 0: the one that was bound. None: nobody is told of it, and it is not registered."""
    role: Role = "client"
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    def with_ports_after(self, count: int) -> "Listener":
        """The same on ports that are `count` higher; a port 0 stays. Raises PortTaken for a port that is none."""
        advertised = self.advertised and _port_after(self.advertised, count)
        if advertised and advertised.port > MAX_PORT:
            raise PortTaken(f"broker {count + 1} would be advertised on a port beyond {MAX_PORT}")
        bind = _port_after(self.bind, count)
        if bind.port > MAX_PORT:
            raise PortTaken(f"broker {count + 1} would listen on a port beyond {MAX_PORT}")
        return replace(self, bind=bind, advertised=advertised)

    def told(self, bound: Address) -> Address | None:
        """What clients are told, once it is known which port was bound."""
        return self.advertised and replace(self.advertised, port=self.advertised.port or bound.port)


@dataclass(frozen=True, slots=True)
class ListenerPlan:
    """The listeners of a cluster."""

    brokers: Sequence[Listener]
    """Those of broker 1. The others have them on the next ports: broker 3 on ports that are 2 higher."""
    controller: Listener | None = None
    of_single: Mapping[int, Sequence[Listener]] = field(default_factory=dict)
    """Brokers with listeners of their own, by id: just as they stand here."""

    @property
    def advertised_host(self) -> str | None:
        """The host that clients are told, if it is another one than they would be told without being asked for."""
        main = next(one for one in self.brokers if one.name == self.main)
        told = main.advertised
        return told.host if told and told.host != main.bind.reachable_host else None

    @property
    def main(self) -> str:
        """The name of the first listener for clients, which `bootstrap.servers` tells."""
        return min(
            (one for one in self.brokers if one.advertised is not None),
            key=lambda one: one.role != "client",  # min keeps the order of those that are equal
        ).name

    @property
    def others(self) -> tuple[str, ...]:
        """The names of the brokers' listeners but the main one, in order, those of single brokers last."""
        lists = [self.brokers, *(listeners for _, listeners in sorted(self.of_single.items()))]
        return tuple(dict.fromkeys(one.name for some in lists for one in some if one.name != self.main))

    def of_broker(self, broker_id: int) -> Sequence[Listener]:
        """The listeners of one broker. Raises PortTaken if one would need a port that is none."""
        own = self.of_single.get(broker_id)
        return own if own is not None else [one.with_ports_after(broker_id - 1) for one in self.brokers]

    def count(self, broker_count: int) -> int:
        """How many listeners brokers 1 to `broker_count` and the controller have together."""
        of_single = [len(some) for broker_id, some in self.of_single.items() if broker_id <= broker_count]
        alike = (broker_count - len(of_single)) * len(self.brokers)
        return alike + sum(of_single) + (self.controller is not None)


def default_plan(listen: Address, controller: Address | None = None) -> ListenerPlan:
    """One listener for each broker, PLAINTEXT, and perhaps the controller's."""
    brokers = [Listener("PLAINTEXT", listen, Address(listen.reachable_host, 0))]
    if controller is None:
        return ListenerPlan(brokers)
    return ListenerPlan(
        brokers, Listener("CONTROLLER", controller, Address(controller.reachable_host, 0), "controller")
    )


def refuse_impossible_ports(plan: ListenerPlan, broker_count: int) -> None:
    """Raises PortTaken where listeners need ports beyond the last one, or two of them the same port."""
    if any(broker_id not in plan.of_single for broker_id in range(1, broker_count + 1)):
        for one in plan.brokers:
            _refuse_beyond(one.bind, broker_count, f"{broker_count} brokers")
            _refuse_beyond(one.advertised, broker_count, f"{broker_count} brokers advertised")
    taken = [
        (one.bind, f"{one.name} of broker {broker_id}")
        for broker_id in range(1, broker_count + 1)
        for one in plan.of_broker(broker_id)
    ]
    if plan.controller is not None:
        taken.append((plan.controller.bind, f"{plan.controller.name} of the controller"))
    by_port: dict[int, list[tuple[str, str]]] = {}
    for address, whose in taken:
        if address.port:
            by_port.setdefault(address.port, []).append((address.host, whose))
    for port, users in sorted(by_port.items()):
        for (host, whose), (other_host, whose_too) in combinations(users, 2):
            if may_collide(host, other_host):
                raise PortTaken(f"listeners overlap: {whose} and {whose_too} both need port {port}")


def _refuse_beyond(first: Address | None, count: int, whose: str) -> None:
    if first and first.port and first.port + count - 1 > MAX_PORT:
        raise PortTaken(f"{whose} from {first} on need ports beyond {MAX_PORT}")


def may_collide(host: str, other: str) -> bool:
    """Whether one port may not be bound on both hosts. Of names nothing is known: they may be any address."""
    if are_both_families(host, other):
        return False
    try:
        first, second = _decoded(host), _decoded(other)
    except ValueError:
        return True
    return first == second or first.is_unspecified or second.is_unspecified


def are_both_families(host: str, other: str) -> bool:
    """Whether one is an IPv4 address and the other an IPv6 address: sockets of ours never serve both."""
    try:
        return _decoded(host).version != _decoded(other).version
    except ValueError:
        return False


def _decoded(host: str) -> IPv4Address | IPv6Address:
    return ip_address(host.partition("%")[0])


def _port_after(address: Address, count: int) -> Address:
    return replace(address, port=address.port and address.port + count)
