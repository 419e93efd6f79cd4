"""Listeners as values: name, address, advertised address, role and security protocol.

A broker can have several, as in Kafka's `listeners`. This module opens no socket; `klamm.server.node_listeners` does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import combinations
from typing import TYPE_CHECKING, Literal

from klamm.quick_dataclasses import dataclass
from klamm.server.addresses import MAX_PORT, Address
from klamm.server.listener import PortTaken

if TYPE_CHECKING:
    from klamm.server.security import ListenerSecurity

Role = Literal["client", "inter-broker", "controller"]
"""A listener of a broker is "inter-broker" only if a config says so; otherwise its role is "client"."""


class SecurityProtocol(IntEnum):
    """The security protocols, with their numbers in broker registrations."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener of one broker or of the controller."""

    name: str
    """In capitals, as in Kafka's broker registrations."""
    bind: Address
    """The address to listen on. Port 0: a free port, which the listener keeps."""
    advertised: Address | None
    """The address in registrations and answers. Port 0: the bound port. None: the listener is not advertised."""
    role: Role = "client"
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    security: "ListenerSecurity | None" = field(default=None, compare=False, repr=False)
    """What the listener demands of clients; None for PLAINTEXT alone."""

    def with_ports_after(self, count: int, whose: str) -> "Listener":
        """The same listener on ports that are `count` higher; port 0 stays 0. Raises PortTaken above port 65535, with
        the words for the broker in `whose`."""
        advertised = self.advertised and _port_after(self.advertised, count)
        if advertised and advertised.port > MAX_PORT:
            raise PortTaken(f"{whose} would be advertised on a port beyond {MAX_PORT}")
        bind = _port_after(self.bind, count)
        if bind.port > MAX_PORT:
            raise PortTaken(f"{whose} would listen on a port beyond {MAX_PORT}")
        return replace(self, bind=bind, advertised=advertised)

    def advertised_at(self, bound: Address) -> Address | None:
        """The advertised address with its port, given the `bound` address. None: the listener is not advertised."""
        return self.advertised and replace(self.advertised, port=self.advertised.port or bound.port)


@dataclass(frozen=True, slots=True)
class ListenerPlan:
    """The listeners of a cluster."""

    brokers: Sequence[Listener]
    """The listeners of the first broker. Each further one has the same on the next ports."""
    controller: Listener | None = None
    """The controller's listener; None: it has none."""
    of_single: Mapping[int, Sequence[Listener]] = field(default_factory=dict)
    """The listeners of brokers that do not follow `brokers`, by broker id."""

    @property
    def advertised_host(self) -> str | None:
        """The advertised host of the main listener; None if it is the default, the bound address's reachable host."""
        main = next(one for one in self.brokers if one.name == self.main)
        advertised = main.advertised
        return advertised.host if advertised and advertised.host != main.bind.reachable_host else None

    @property
    def main(self) -> str:
        """The name of the first listener with the role "client"; its addresses are the `bootstrap.servers`."""
        return min(
            (one for one in self.brokers if one.advertised is not None),
            key=lambda one: one.role != "client",  # min keeps the order of those that are equal
        ).name

    @property
    def others(self) -> tuple[str, ...]:
        """The names of the brokers' other listeners, in order; those from `of_single` come last."""
        lists = [self.brokers, *(listeners for _, listeners in sorted(self.of_single.items()))]
        return tuple(dict.fromkeys(one.name for some in lists for one in some if one.name != self.main))

    @property
    def every(self) -> tuple[Listener, ...]:
        """All listeners: the first broker's, those from `of_single`, and the controller's."""
        single = [one for some in self.of_single.values() for one in some]
        return (*self.brokers, *single, *([] if self.controller is None else [self.controller]))

    def of_broker(self, broker_id: int, started: Sequence[int]) -> Sequence[Listener]:
        """The listeners of one broker; `started` are the brokers at the start. Raises PortTaken if one needs a port
        above 65535."""
        own = self.of_single.get(broker_id)
        if own is not None:
            return own
        after = place_of(broker_id, started)
        return [one.with_ports_after(after, f"broker {broker_id}") for one in self.brokers]

    def count(self, broker_ids: Sequence[int]) -> int:
        """The number of listeners of these brokers and of the controller together."""
        of_single = [len(self.of_single[broker_id]) for broker_id in broker_ids if broker_id in self.of_single]
        alike = (len(broker_ids) - len(of_single)) * len(self.brokers)
        return alike + sum(of_single) + (self.controller is not None)


def place_of(broker_id: int, started: Sequence[int]) -> int:
    """The place of a broker, which decides its ports and its rack: 0 for the first of the brokers at the start. An
    added broker has the next place after them, and a later one if its id is not the next one."""
    if broker_id in started:
        return started.index(broker_id)
    return len(started) + max(0, broker_id - max(started, default=0) - 1)


def default_plan(listen: Address, controller: Address | None = None) -> ListenerPlan:
    """One PLAINTEXT listener for each broker, and one for the controller if its address is given."""
    brokers = [Listener("PLAINTEXT", listen, Address(listen.reachable_host, 0))]
    if controller is None:
        return ListenerPlan(brokers)
    return ListenerPlan(
        brokers, Listener("CONTROLLER", controller, Address(controller.reachable_host, 0), "controller")
    )


def refuse_impossible_ports(
    plan: ListenerPlan, broker_ids: Sequence[int], others: Sequence[tuple[Address, str]] = ()
) -> None:
    """Raise PortTaken if a listener needs a port above 65535, or if two listeners need the same port. `others` are
    further addresses of this process, each with the words for it."""
    if any(broker_id not in plan.of_single for broker_id in broker_ids):
        count = len(broker_ids)
        for one in plan.brokers:
            _refuse_beyond(one.bind, count, f"{count} brokers")
            _refuse_beyond(one.advertised, count, f"{count} brokers advertised")
    taken = [
        (one.bind, f"{one.name} of broker {broker_id}")
        for broker_id in broker_ids
        for one in plan.of_broker(broker_id, broker_ids)
    ]
    if plan.controller is not None:
        taken.append((plan.controller.bind, f"{plan.controller.name} of the controller"))
    by_port: dict[int, list[tuple[str, str]]] = {}
    for address, whose in (*taken, *others):
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
    """Whether one port may be impossible to bind on both hosts. A host name may be any address."""
    if are_both_families(host, other):
        return False
    try:
        first, second = _decoded(host), _decoded(other)
    except ValueError:
        return True
    return first == second or first.is_unspecified or second.is_unspecified


def are_both_families(host: str, other: str) -> bool:
    """Whether one host is an IPv4 address and the other an IPv6 address. Klamm's sockets never serve both."""
    try:
        return _decoded(host).version != _decoded(other).version
    except ValueError:
        return False


def _decoded(host: str) -> IPv4Address | IPv6Address:
    return ip_address(host.partition("%")[0])


def _port_after(address: Address, count: int) -> Address:
    return replace(address, port=address.port and address.port + count)
