"""The listeners of a cluster, from its options and configs, validated by Kafka's rules in Kafka's order.

The options are `--listen`, `--listener` and `--controller-listener`; the configs are `listeners`,
`advertised.listeners`, `listener.security.protocol.map`, `inter.broker.listener.name`, `security.inter.broker.protocol`
and `controller.listener.names` (docs/listeners.md). `listeners` has the addresses of the first broker, and the others
use the next ports; a value that is set for a single broker is used as it is. Invalid values raise SettingsError.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from klamm.cluster.options import ClusterOptions
from klamm.controller.config_definitions.table import broker_definition, broker_definitions, is_of_security
from klamm.controller.config_definitions.values import typed_value
from klamm.controller.releases import Emulation
from klamm.controller.settings import MAX_SHOWN_NAMES, Settings, SettingsError
from klamm.protocol.printable import first_of
from klamm.server.addresses import Address, NamedAddress, decode_listener
from klamm.server.listeners import Listener, ListenerPlan, Role, SecurityProtocol, are_both_families, place_of

if TYPE_CHECKING:
    from klamm.cluster.easy_security import EasySecurity
    from klamm.server.security import ListenerSecurity

LISTENERS = "listeners"
ADVERTISED = "advertised.listeners"
PROTOCOL_MAP = "listener.security.protocol.map"
BETWEEN_BROKERS = "inter.broker.listener.name"
PROTOCOL_BETWEEN_BROKERS = "security.inter.broker.protocol"
CONTROLLERS = "controller.listener.names"
DEFAULT_CONTROLLER = "CONTROLLER"
DEFAULT_NAME = SecurityProtocol.PLAINTEXT.name
_FOR_REAL_BROKERS = (
    "sasl.client.callback.handler.class",
    "sasl.kerberos.",
    "sasl.login.",
    "sasl.mechanism.controller.protocol",
    "sasl.oauthbearer.assertion.",
    "sasl.oauthbearer.client.credentials.",
)
"""How the configs begin with which a real broker logs in to others. Only real brokers that share the file use them."""
_OF_BROKERS = frozenset({LISTENERS, ADVERTISED, PROTOCOL_MAP, BETWEEN_BROKERS, PROTOCOL_BETWEEN_BROKERS})


def decided_by_options(options: ClusterOptions) -> frozenset[str]:
    """The configs of all brokers that have no effect because of these options."""
    decided: set[str] = set()
    if options.listen is not None or options.security is not None or options.users:
        decided |= {LISTENERS, ADVERTISED, BETWEEN_BROKERS}
    if options.listeners:
        decided.add(LISTENERS)
    if options.advertise is not None:
        decided.add(ADVERTISED)
    return frozenset(decided)


def plan_listeners(
    options: ClusterOptions,
    settings: Settings,
    default_listen: Address,
    broker_ids: Sequence[int],
    easy: "EasySecurity | None" = None,
) -> ListenerPlan:
    """The listeners of all brokers and of the controller; `broker_ids` are the brokers at the start, `easy` is what the
    option `security` asks for. Raises SettingsError."""
    decided = decided_by_options(options)
    configs = {name: value for name, value in settings.static_configs.items() if name not in decided}
    configs |= {} if easy is None else easy.configs()
    given = _given(options, configs, default_listen, DEFAULT_NAME if easy is None else easy.protocol.name)
    # If an option has the listeners, they are PLAINTEXT without a map, and any of them may be the inter-broker
    # listener.
    rules = _Rules(
        # With --listen, a map is ignored: it is probably that of a server.properties from a real cluster.
        {name: value for name, value in configs.items() if options.listen is None or name != PROTOCOL_MAP},
        [one.name for one in options.listeners],
        settings.emulation,
        is_free=bool(options.listen or options.listeners or easy),
    )
    if options.advertise is not None and len([one for one in given if one.name not in rules.controllers]) > 1:
        raise SettingsError(f"advertise cannot be used with several listeners: set {ADVERTISED} instead")
    advertised = _advertised(configs, rules)
    found = rules.judge(given, advertised)
    if options.advertise is not None:
        found = [one if one.role == "controller" else replace(one, advertised=options.advertise) for one in found]
    controller = _controller(options, [one for one in found if one.role == "controller"], rules)
    plan = ListenerPlan([one for one in found if one.role != "controller"], controller)
    if not broker_ids and plan.controller is None:
        raise SettingsError(
            "brokers 0: a cluster without simulated brokers needs --controller-listener (in Python controller_listener)"
        )
    return replace(plan, of_single=_of_single(settings, configs, given, advertised, rules, broker_ids))


def warn_of_security(settings: Settings, plan: ListenerPlan) -> list[str]:
    """One warning with the names of TLS and SASL configs that have no effect; all of them, if no listener has TLS or
    SASL. With a controller's listener, real brokers may share the file: what only they use is not named."""
    every = [settings.static_configs, *settings.broker_static_configs.values()]
    names = sorted({name for configs in every for name in configs if is_of_security(name)})
    reason = "no listener uses TLS or SASL"
    if names and any(one.security is not None for one in plan.every):
        from klamm.controller.config_definitions.effects import effect_of

        reason = "TLS and SASL here do not use them"
        names = [name for name in names if not effect_of(name).is_obeyed]
        if plan.controller is not None:
            names = [name for name in names if not _is_for_real_brokers(name)]
    if not names:
        return []
    return [f"{reason}, so these configs have no effect: {first_of(names, MAX_SHOWN_NAMES)}"]


def _is_for_real_brokers(name: str) -> bool:
    definition = broker_definition(name)  # that of the config without the listener and the mechanism
    return definition is not None and definition.name.startswith(_FOR_REAL_BROKERS)


def _given(
    options: ClusterOptions, configs: Mapping[str, str], default_listen: Address, name: str
) -> list[NamedAddress]:
    """The listeners of the first broker, and the controller's if it is in the list. `name` is that of a listener whose
    name no option and no config has."""
    if options.listen is not None or name != DEFAULT_NAME:
        return [NamedAddress(name, options.listen or default_listen, has_host=False)]
    if options.listeners:
        # As with --listen, a wildcard address is advertised as the address of this machine.
        return [replace(one, has_host=one.has_host and not one.address.is_wildcard) for one in options.listeners]
    if LISTENERS in configs:
        return _entries(LISTENERS, configs[LISTENERS])
    return [NamedAddress(DEFAULT_NAME, default_listen, has_host=False)]


def _entries(config: str, text: str) -> list[NamedAddress]:
    found = []
    for entry in _items(config, text):
        try:
            found.append(decode_listener(entry))
        except ValueError as error:
            raise SettingsError(f"{config}: {error}") from None
    return found


def _items(config: str, text: str) -> Sequence[str]:
    value = typed_value(broker_definitions()[config], text)
    return value if isinstance(value, tuple) else ()


def _advertised(configs: Mapping[str, str], rules: "_Rules") -> list[NamedAddress] | None:
    if ADVERTISED not in configs:
        return None
    entries = _entries(ADVERTISED, configs[ADVERTISED])
    for one in entries:
        if not one.has_host and one.name not in rules.controllers:
            raise SettingsError(f"{ADVERTISED}: {one}: clients need a host to connect to")
    return entries


def _of_single(
    settings: Settings,
    configs: Mapping[str, str],
    given: Sequence[NamedAddress],
    advertised: Sequence[NamedAddress] | None,
    rules: "_Rules",
    started: Sequence[int],
) -> dict[int, Sequence[Listener]]:
    """The listeners of those brokers that have listener configs of their own."""
    found: dict[int, Sequence[Listener]] = {}
    for broker_id, own in settings.broker_static_configs.items():
        if not (_OF_BROKERS & own.keys() or any(map(is_of_security, own))):
            continue
        try:
            mine = _Rules(
                {**configs, **own},
                rules.also_plain,
                rules.emulation,
                is_free=rules.is_free,
                is_broker_alone=LISTENERS in own,
            )
            after = place_of(broker_id, started)
            listening = [one for one in given if one.name not in mine.controllers]
            wanted = _entries(LISTENERS, own[LISTENERS]) if LISTENERS in own else _after(listening, after)
            own_advertised = advertised and [one for one in advertised if one.name not in mine.controllers]
            if ADVERTISED in own:
                own_advertised = _advertised(own, mine)
            elif own_advertised is not None:
                own_advertised = _after(own_advertised, after)
            found[broker_id] = mine.judge(wanted, own_advertised)
        except SettingsError as error:
            raise SettingsError(f"broker {broker_id}: {error}") from None
    return found


def _after(entries: Iterable[NamedAddress], count: int) -> list[NamedAddress]:
    """The same listeners on ports that are `count` higher; port 0 stays 0."""
    return [
        replace(one, address=replace(one.address, port=one.address.port and one.address.port + count))
        for one in entries
    ]


def _controller(options: ClusterOptions, among: Sequence[Listener], rules: "_Rules") -> Listener | None:
    """The controller's listener; there is at most one."""
    if len(among) > 1:
        named = ", ".join(one.name for one in among)
        raise SettingsError(f"{LISTENERS}: the controller can have only one listener, not {len(among)}: {named}")
    own = options.controller_listener
    if own is None:
        return among[0] if among else None
    if among:
        raise SettingsError(
            f"the controller's listener is given twice: {among[0].name}, and with --controller-listener "
            "(in Python controller_listener)"
        )
    name = rules.controllers[0]
    host = options.advertise.host if options.advertise else own.reachable_host
    return rules.served([Listener(name, own, Address(host, 0), "controller", rules.protocol_of(name, CONTROLLERS))])[0]


class _Rules:
    """Kafka's rules for the listeners of one broker, with the configs that the rules read."""

    def __init__(
        self,
        configs: Mapping[str, str],
        also_plain: Collection[str],
        emulation: Emulation,
        *,
        is_free: bool,
        is_broker_alone: bool = False,
    ) -> None:
        """`also_plain`: listener names that are PLAINTEXT without an entry in the default map. `is_free`: Kafka's
        default inter-broker listener, PLAINTEXT, need not exist. `is_broker_alone`: the node is not a controller."""
        self.configs = configs
        self.emulation = emulation
        self.is_free = is_free
        self.also_plain = also_plain
        names = _items(CONTROLLERS, configs[CONTROLLERS]) if CONTROLLERS in configs else (DEFAULT_CONTROLLER,)
        self.controllers = tuple(dict.fromkeys(name.upper() for name in names))
        roles = _items("process.roles", configs.get("process.roles", ""))
        self.is_broker_alone = is_broker_alone or set(roles) == {"broker"}
        self._protocols = self._read_map()

    def judge(self, given: Sequence[NamedAddress], advertised: Sequence[NamedAddress] | None) -> list[Listener]:
        """The listeners of one broker, including the controller's. Raises SettingsError."""
        protocols = {one.name: self.protocol_of(one.name, LISTENERS) for one in given}
        _refuse_repeated_names(LISTENERS, given)
        _refuse_repeated_ports(given)
        self._judge_controllers(given)
        of_brokers = [one for one in (given if advertised is None else advertised) if one.name not in self.controllers]
        for one in advertised or ():
            self.protocol_of(one.name, ADVERTISED)
        _refuse_repeated_names(ADVERTISED, advertised or ())
        if not of_brokers:
            raise SettingsError(
                f"{ADVERTISED}: there is no listener of brokers; {CONTROLLERS} names all listeners"
                if given
                else f"{LISTENERS}: at least one listener is needed"
            )
        between = None if self.is_free and BETWEEN_BROKERS not in self.configs else self._between(of_brokers)
        if absent := [one.name for one in of_brokers if one.name not in protocols]:
            raise SettingsError(f"{ADVERTISED} has listeners that {LISTENERS} does not have: {', '.join(absent)}")
        for one in of_brokers:
            if one.has_host and one.address.is_wildcard:
                raise SettingsError(f"{ADVERTISED}: {one}: clients cannot connect to the address {one.address.host}")
        advertised_at = None if advertised is None else {one.name: one.address for one in of_brokers}
        return self.served(self._made(given, advertised_at, between, protocols))

    def served(self, listeners: list[Listener]) -> list[Listener]:
        """The listeners with their security. Raises SettingsError if one is not configured completely."""
        return [
            one if one.security_protocol is SecurityProtocol.PLAINTEXT else replace(one, security=self._security(one))
            for one in listeners
        ]

    def _security(self, listener: Listener) -> "ListenerSecurity | None":
        # Imported here, because most clusters have only PLAINTEXT listeners and have to be ready at once.
        from klamm.cluster.listener_security import listener_security

        release = self.emulation.by_listener.get(listener.name, self.emulation.release)
        return listener_security(listener.name, listener.security_protocol, self.configs, release.name)

    def protocol_of(self, name: str, config: str) -> SecurityProtocol:
        """The security protocol of a listener. Raises SettingsError if no config or default has it."""
        if name not in self._protocols:
            raise SettingsError(f"{config}: {PROTOCOL_MAP} has no security protocol for listener {name}")
        return self._protocols[name]

    def _read_map(self) -> dict[str, SecurityProtocol]:
        text = self.configs.get(PROTOCOL_MAP)
        if text is None:
            plain = (*self.controllers, *self.also_plain)
            return dict.fromkeys(plain, SecurityProtocol.PLAINTEXT) | {one.name: one for one in SecurityProtocol}
        protocols: dict[str, SecurityProtocol] = {}
        for item in filter(None, map(str.strip, text.split(","))):
            name, colon, protocol = item.rpartition(":")
            if not (colon and name.strip()):
                raise SettingsError(f"{PROTOCOL_MAP}: {item!r}: NAME:PROTOCOL is expected")
            if protocol.strip().upper() not in SecurityProtocol.__members__:
                known = ", ".join(SecurityProtocol.__members__)
                raise SettingsError(f"{PROTOCOL_MAP}: {item!r}: the security protocols are {known}")
            found = SecurityProtocol[protocol.strip().upper()]
            if protocols.setdefault(name.strip().upper(), found) is not found:
                raise SettingsError(f"{PROTOCOL_MAP}: {item!r}: {name.strip().upper()} has another protocol, too")
        return protocols

    def _judge_controllers(self, given: Sequence[NamedAddress]) -> None:
        if not self.is_broker_alone:
            return
        if among := [one.name for one in given if one.name in self.controllers]:
            raise SettingsError(
                f"{LISTENERS}: a broker that is not a controller cannot have a controller listener: {', '.join(among)}"
            )
        for name in self.controllers:
            self.protocol_of(name, CONTROLLERS)

    def _between(self, advertised: Sequence[NamedAddress]) -> str | None:
        """The name of the inter-broker listener if a config sets it, else None. Raises SettingsError if it is not
        advertised; this holds for Kafka's default, too."""
        named, protocol = self.configs.get(BETWEEN_BROKERS), self.configs.get(PROTOCOL_BETWEEN_BROKERS)
        if named is not None and protocol is not None:
            raise SettingsError(f"{BETWEEN_BROKERS} and {PROTOCOL_BETWEEN_BROKERS}: only one of the two can be set")
        if named is not None:
            self.protocol_of(named.upper(), BETWEEN_BROKERS)
        name = (named or protocol or DEFAULT_NAME).upper()
        if name not in {one.name for one in advertised}:
            among = ", ".join(one.name for one in advertised)
            raise SettingsError(f"{BETWEEN_BROKERS}: {name} is not advertised; the advertised listeners are {among}")
        return None if named is None else name

    def _made(
        self,
        given: Sequence[NamedAddress],
        advertised_at: Mapping[str, Address] | None,
        between: str | None,
        protocols: Mapping[str, SecurityProtocol],
    ) -> list[Listener]:
        """`advertised_at`: the addresses of `advertised.listeners` by name; None if that config is not set."""
        made = []
        for one in given:
            role: Role = "inter-broker" if one.name == between else "client"
            at: Address | None = Address(one.address.reachable_host, 0)
            if one.name in self.controllers:
                role = "controller"
            elif advertised_at is not None:
                at = advertised_at.get(one.name)
            made.append(Listener(one.name, one.address, at, role, protocols[one.name]))
        return made


def _refuse_repeated_names(config: str, entries: Sequence[NamedAddress]) -> None:
    names = [one.name for one in entries]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"{config}: listener name {name} is used twice")


def _refuse_repeated_ports(entries: Sequence[NamedAddress]) -> None:
    """Two listeners can share a port only if one host is an IPv4 address and the other an IPv6 address."""
    by_port: dict[int, list[NamedAddress]] = {}
    for one in entries:
        if one.address.port:
            by_port.setdefault(one.address.port, []).append(one)
    for port, some in by_port.items():
        if len(some) == 1 or (len(some) == 2 and are_both_families(*(one.address.host for one in some))):
            continue
        named = ", ".join(one.name for one in some)
        raise SettingsError(
            f"{LISTENERS}: {named} have the same port {port}; only an IPv4 and an IPv6 address may share one"
        )
