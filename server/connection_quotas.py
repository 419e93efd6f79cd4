"""Quotas of connections: how fast a node accepts them, and from where (KIP-402, KIP-612; Kafka: ConnectionQuotas).

Above the rate of a node or a listener, connections are accepted later. Above the quota of an address
(`connection_creation_rate`), a connection is accepted, not read, and closed after the throttle time. Connections of an
address beyond `max.connections.per.ip` are closed at once. No I/O: the server asks and waits. Without limits nothing is
measured.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from klamm.controller.configs import ConnectionLimits, connection_limits
from klamm.controller.core import Controller
from klamm.controller.metadata.quota_entity import IP
from klamm.controller.quotas.rates import WindowedRate
from klamm.controller.quotas.usage import Usage, windows_of

CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
MAX_DELAYED_CLOSES: Final = 1000
"""Most connections of a node that wait to be closed. Beyond, they are closed at once."""
_EVERY_LISTENER: Final = ""


class ConnectionQuotas:
    """The quotas of one node, a broker or, without an id, the controller."""

    def __init__(self, controller: Controller, broker_id: int | None, listener_names: tuple[str, ...]) -> None:
        self._controller = controller
        self._broker_id = broker_id
        settings = controller.settings
        self._windows = windows_of(settings, "quota", broker_id)
        inter_broker = settings.static_configs_of(broker_id).get("inter.broker.listener.name", "PLAINTEXT")
        self._protected = inter_broker if len(listener_names) > 1 else None
        """The listener of the other brokers, to which the rate of the node does not apply."""
        self._rates = {name: WindowedRate() for name in (*listener_names, _EVERY_LISTENER)}
        self._of_addresses: Usage[str, WindowedRate] = Usage(WindowedRate)
        self._connections: Counter[str] = Counter()
        self._closing = 0

    def accept_delay_ms(self, listener_name: str, now_ms: int) -> int | None:
        """Count the next connection of a listener. Returns how long it is not accepted; None: no rate is limited."""
        limits = self._limits(listener_name)
        rates = {_EVERY_LISTENER: limits.rate} if listener_name != self._protected else {}
        rates[listener_name] = limits.listener_rate
        limited = {name: rate for name, rate in rates.items() if rate is not None}
        if not limited:
            return None
        return max(self._count(self._rates[name], rate, now_ms) for name, rate in limited.items())

    def close_delay_ms(self, address: str, now_ms: int) -> int:
        """Count a connection from `address`. Returns the time after which it has to be closed unread, or 0."""
        quotas = self._controller.image.client_quotas
        if not quotas:
            return 0
        found: Mapping[str, float] = quotas.get(((IP, address),)) or {}
        bound = found.get(CONNECTION_CREATION_RATE)
        if bound is None:
            bound = quotas.get(((IP, None),), {}).get(CONNECTION_CREATION_RATE)
        if bound is None:
            return 0
        rate = self._of_addresses.use(address, now_ms)
        delay_ms = self._count(rate, bound, now_ms)
        if delay_ms:
            rate.add(-1, now_ms, self._windows)  # it is not served
        return delay_ms

    def enter(self, address: str, listener_name: str) -> bool:
        """Add an open connection, until `leave`; False if the address has too many already."""
        limits = self._limits(listener_name)
        most = limits.per_address_overrides.get(address, limits.per_address)
        if most is not None and self._connections[address] >= most:
            return False
        self._connections[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Remove a connection that `enter` has added."""
        self._connections[address] -= 1
        if not self._connections[address]:
            del self._connections[address]

    def may_close_later(self) -> bool:
        """Whether one more connection may wait to be closed. If so, call `closed` afterwards."""
        if self._closing >= MAX_DELAYED_CLOSES:
            return False
        self._closing += 1
        return True

    def closed(self) -> None:
        """Note that a connection that waited to be closed is closed."""
        self._closing -= 1

    def _count(self, rate: WindowedRate, bound: float, now_ms: int) -> int:
        rate.add(1, now_ms, self._windows)
        return min(rate.throttle_ms(bound, now_ms, self._windows), self._windows.length_ms)

    def _limits(self, listener_name: str) -> ConnectionLimits:
        controller = self._controller
        return connection_limits(controller.image.configs, controller.settings, listener_name, self._broker_id)
