"""How simulated brokers connect to real ones: by the inter-broker listener, with TLS and a login by Kafka's settings.

The settings are those with which Kafka's brokers connect to each other: `inter.broker.listener.name` or
`security.inter.broker.protocol`, `sasl.mechanism.inter.broker.protocol`, the login module of that mechanism with its
options `username` and `password`, and the key and trust stores of the listener. Without the first two, simulated
brokers use the first PLAINTEXT listener of a real broker.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from klamm.admin.client_configs import ClientConfigs, InvalidClientProperties
from klamm.admin.security import NO_SECURITY, ClientSecurity
from klamm.broker.outgoing import OutgoingRequest
from klamm.cluster.listener_plan import PROTOCOL_BETWEEN_BROKERS, decided_by_options
from klamm.cluster.options import ClusterOptions
from klamm.controller.settings import Settings
from klamm.quick_dataclasses import dataclass
from klamm.server.addresses import Address
from klamm.server.listeners import ListenerPlan, SecurityProtocol
from klamm.server.outgoing import CLIENT_ID, MAX_ANSWER_BYTES, InterBroker, NoAnswer

if TYPE_CHECKING:
    from klamm.cluster.listener_configs import ListenerConfigs

_CLIENTS_MECHANISM: Final = "sasl.mechanism"
_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_JAAS: Final = "sasl.jaas.config"


@dataclass(frozen=True, slots=True)
class InterBrokerPlan:
    """With which listener of real brokers simulated ones speak, and how."""

    listener_name: str | None = None
    """None: the first PLAINTEXT listener of each broker."""
    security: ClientSecurity = NO_SECURITY
    invalid: str | None = None
    """Why no connection is possible: the settings are incomplete or wrong."""

    @property
    def warnings(self) -> Sequence[str]:
        """That no connection is possible."""
        return () if self.invalid is None else (f"simulated brokers cannot connect to real ones: {self.invalid}",)


BY_PLAINTEXT: Final = InterBrokerPlan()


def plan_inter_broker(options: ClusterOptions, settings: Settings, listeners: ListenerPlan) -> InterBrokerPlan:
    """The plan by the configs of all brokers, and the listeners that follow from them."""
    if listeners.controller is None:
        return BY_PLAINTEXT  # no real broker can join
    decided = decided_by_options(options)
    configs = {name: value for name, value in settings.static_configs.items() if name not in decided}
    found = next((one for one in listeners.brokers if one.role == "inter-broker"), None)
    if found is not None:
        name, protocol = found.name, found.security_protocol
    elif PROTOCOL_BETWEEN_BROKERS in configs:
        protocol = SecurityProtocol[configs[PROTOCOL_BETWEEN_BROKERS].strip().upper()]
        name = protocol.name
    else:
        return BY_PLAINTEXT
    if protocol is SecurityProtocol.PLAINTEXT:
        return InterBrokerPlan(name)
    # Imported only now: most clusters need none of it.
    from klamm.admin.client_security import client_security
    from klamm.cluster.listener_configs import ListenerConfigs

    try:
        security = client_security(
            _Configs(ListenerConfigs(name, configs)),
            has_tls=protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL),
            has_sasl=protocol in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL),
        )
    except InvalidClientProperties as error:
        return InterBrokerPlan(name, invalid=str(error))
    return InterBrokerPlan(name, security)


class _Configs(ClientConfigs):
    """The configs of the inter-broker listener in the words of a client."""

    def __init__(self, own: "ListenerConfigs") -> None:
        super().__init__({}, f"listener {own.name}")
        self._own = own
        self._mechanism = own.text(_MECHANISM) or ""

    def named(self, name: str) -> str:
        if name == _CLIENTS_MECHANISM:
            return self._own.named(_MECHANISM)
        return self._own.named(name, self._mechanism)

    def text(self, name: str) -> str | None:
        value = self._own.text(_MECHANISM) if name == _CLIENTS_MECHANISM else self._own.text(name, self._mechanism)
        return value if value is None or name.endswith((".password", _JAAS)) else value.strip()

    def refuse(self, name: str, reason: str) -> InvalidClientProperties:
        return super().refuse(self.named(name), reason)


def inter_broker(plan: InterBrokerPlan) -> InterBroker:
    """Connects as the plan says."""

    async def connect(address: Address) -> "_Line":
        if plan.invalid is not None:
            raise NoAnswer(plan.invalid)
        from klamm.admin.connection import open_connection
        from klamm.admin.errors import NotSupportedByBroker
        from klamm.admin.streams import ConnectionLost

        errors = (ConnectionLost, NotSupportedByBroker)
        try:
            return _Line(await open_connection(address, CLIENT_ID, MAX_ANSWER_BYTES, plan.security), errors)
        except errors as error:
            raise NoAnswer(str(error)) from None

    return InterBroker(plan.listener_name, connect)


class _Line:
    """A connection to a real broker."""

    def __init__(self, connection: Any, errors: tuple[type[Exception], ...]) -> None:
        self._connection = connection
        self._errors = errors

    @property
    def usable(self) -> bool:
        """Whether it is open, and the session of its login is not about to end."""
        return bool(self._connection.usable)

    async def ask(self, request: OutgoingRequest) -> Any:
        """The answer, in the newest version of the API that both sides know. Raises NoAnswer."""
        try:
            version = self._connection.version_of(request.api)
            return await self._connection.exchange(request.api, version, request.body)
        except self._errors as error:
            raise NoAnswer(f"{request.api.name}: {error}") from None

    async def aclose(self) -> None:
        """Close the connection."""
        await self._connection.aclose()
