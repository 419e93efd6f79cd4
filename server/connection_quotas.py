"""Quotas of connections: how fast a node accepts them, and from where (KIP-402, KIP-612; Kafka: ConnectionQuotas).

Above the rate or the number of a node or a listener, connections are accepted later. Above the quota of an address
(`connection_creation_rate`), a connection is accepted, not read, and closed after the throttle time. Connections of an
address beyond `max.connections.per.ip` are closed at once. No I/O: the server asks and waits. As in Kafka, connections
count for a rate that is set later; those of an address only while it has a quota.
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
        self._of_listeners: Counter[str] = Counter()
        self._closing = 0

    def accept_delay_ms(self, listener_name: str, now_ms: int) -> int | None:
        """Count the next connection of a listener. Returns how long it is not accepted; None: no rate is limited, and
        the connection is not counted yet."""
        if not self.has_rate(listener_name):
            return None
        self.count_accepted(listener_name, now_ms)
        limited = [(self._rates[name], rate) for name, rate in self._rates_of(listener_name) if rate is not None]
        return max(self._throttle_ms(measured, rate, now_ms) for measured, rate in limited)

    def has_rate(self, listener_name: str) -> bool:
        """Whether a rate is limited, so that `accept_delay_ms` counts connections."""
        return any(rate is not None for _, rate in self._rates_of(listener_name))

    def count_accepted(self, listener_name: str, now_ms: int, count: int = 1) -> None:
        """Count connections of a listener; -1: one is not served after all."""
        for name, _ in self._rates_of(listener_name):
            self._rates[name].add(count, now_ms, self._windows)

    def _rates_of(self, listener_name: str) -> list[tuple[str, int | None]]:
        """The rates that a connection of the listener counts for, with their limits."""
        limits = self._limits(listener_name)
        own = [(listener_name, limits.listener_rate)]
        return own if listener_name == self._protected else [*own, (_EVERY_LISTENER, limits.rate)]

    def has_number(self, listener_name: str) -> bool:
        """Whether the number of open connections is limited."""
        limits = self._limits(listener_name)
        return limits.most is not None or limits.listener_most is not None

    def has_slot(self, listener_name: str) -> bool:
        """Whether the listener may have one more connection."""
        limits = self._limits(listener_name)
        if limits.listener_most is not None and self._of_listeners[listener_name] >= limits.listener_most:
            return False
        return limits.most is None or listener_name == self._protected or self._of_listeners.total() < limits.most

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
        rate.add(1, now_ms, self._windows)
        delay_ms = self._throttle_ms(rate, bound, now_ms)
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
        self._of_listeners[listener_name] += 1
        return True

    def leave(self, address: str, listener_name: str) -> None:
        """Remove a connection that `enter` has added."""
        self._of_listeners[listener_name] -= 1
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

    def _throttle_ms(self, rate: WindowedRate, bound: float, now_ms: int) -> int:
        return min(rate.throttle_ms(bound, now_ms, self._windows), self._windows.length_ms)

    def _limits(self, listener_name: str) -> ConnectionLimits:
        controller = self._controller
        return connection_limits(controller.image.configs, controller.settings, listener_name, self._broker_id)
