"""The settings of one cluster, read once at start: profile, seed, and the static configs, those of server.properties.

Every broker config of Kafka 4.3 is accepted and reported by DescribeConfigs, and three of ours.
`klamm.controller.config_definitions.effects` says which of them do something here. Limits for which Kafka has no
config are constants (`klamm.server.limits`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, cast

from klamm.controller.authorizer import (
    AUTHORIZER_CONFIGS,
    AUTHORIZERS_OWN_CONFIGS,
    StandardAuthorizer,
    authorizer_config_fault,
    configured_authorizer,
)
from klamm.controller.config_definitions.properties_file import PropertiesError, decode_properties
from klamm.controller.config_definitions.release_defaults import release_defaults
from klamm.controller.config_definitions.table import (
    FORMER_AND_OBEYED,
    broker_definition,
    broker_definitions,
    internal_definitions,
    is_security_of_listener,
    topic_definitions,
)
from klamm.controller.config_definitions.values import ConfigValue, typed_value
from klamm.controller.data_limits import DEFAULT_SNAPSHOT_RECORDS, MAX_SNAPSHOT_RECORDS, DataLimits
from klamm.controller.releases import CURRENT, NO_EMULATION, RELEASES, Emulation
from klamm.controller.topic_policy import TOPIC_POLICY_CONFIG
from klamm.protocol.bounded_file import UnreadableFile, read_bounded
from klamm.protocol.errors import ApiError
from klamm.protocol.printable import first_of, printable
from klamm.quick_dataclasses import dataclass

Profile = Literal["kip", "kafka"]
PROFILES: Final[tuple[Profile, ...]] = ("kip", "kafka")
_WITHOUT_EFFECT: Final = frozenset({"broker.id", "broker.rack", "node.id"})
"""Accepted, because every server.properties has them, but without effect: a broker's registration decides them."""
IDENTITY_CONFIGS: Final = _WITHOUT_EFFECT | {"advertised.listeners", "listeners"}
"""Configs that follow from a broker's registration. DescribeConfigs shows the registered value, whatever is set."""

REPLICA_SELECTOR_CONFIG: Final = "replica.selector.class"
_REPLICA_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The only replica selector: Klamm loads no Java classes."""

_CONTROLLERS_CONFIGS: Final = AUTHORIZER_CONFIGS | {TOPIC_POLICY_CONFIG}
"""Configs that apply to the whole cluster, so that no broker can have a value of its own."""

_INTERNAL_SEGMENT_BYTES: Final = "internal.metadata.log.segment.bytes"
"""Kafka's internal config for tests, which allows segments below the public config's minimum of 8 MiB."""

MAX_CONFIG_FILE_BYTES: Final = 1024 * 1024
MAX_SHOWN_CHARACTERS: Final = 200
MAX_SHOWN_NAMES: Final = 50
_ENVIRONMENT_PREFIX: Final = "KAFKA_"
_NO_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType({})


class SettingsError(Exception):
    """Invalid settings. The text is one line with the setting, its origin and the error."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings at the start of a cluster, validated. Raises SettingsError for unknown configs and bad values."""

    profile: Profile = "kip"
    seed: int | None = None
    """The seed of all random numbers; None: a new seed at each start."""
    static_configs: Mapping[str, str] = field(default_factory=dict)
    """Broker configs of all brokers, as text, spelled as they were given."""
    broker_static_configs: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Broker configs of one broker, by its id; they override those of all brokers."""
    controller_id: int | None = None
    """The id of the broker that is the controller, too; None: the controller is a node of its own."""
    real_topics: str = "*"
    """A pattern as that of a shell: new topics with such names are on real brokers, if there are any beside simulated
    ones."""
    dynamic_quorum: bool = False
    """Whether the quorum is dynamic without a config that says it."""
    client_telemetry: bool = False
    """Whether client metrics are listed in ApiVersions, read and kept (KIP-714)."""
    metadata_version: int | None = None
    """The level of metadata.version of a new log; another log with another level is refused. None: that of the
    release."""
    emulation: Emulation = NO_EMULATION
    """As which releases of Apache Kafka the brokers act."""
    add_scram: tuple[str, ...] = field(default=(), repr=False)
    """The SCRAM credentials that a new log begins with (`klamm.controller.transitions.first_credentials`)."""
    kip_578_versions: bool = False
    """Whether the versions that KIP-578 adds are served (`klamm.controller.served_apis`)."""
    data_limits: DataLimits = field(default_factory=DataLimits)
    """How much record data is kept, and how fast it is replicated."""
    snapshot_records: int = DEFAULT_SNAPSHOT_RECORDS
    """A snapshot is written after this many records of the metadata log. 0: only on request, and the log is kept
    whole."""
    _decoded: dict[tuple[str, int | None], ConfigValue] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Static values that were decoded already, by config and broker (None: those of all brokers)."""

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise SettingsError(f"profile {_shown(self.profile)}: must be one of {', '.join(PROFILES)}")
        if self.seed is not None and self.seed < 0:
            raise SettingsError(f"seed {self.seed}: must not be negative")
        if not 0 <= self.snapshot_records <= MAX_SNAPSHOT_RECORDS:
            raise SettingsError(f"snapshot records {self.snapshot_records}: 0 to {MAX_SNAPSHOT_RECORDS} is expected")
        release = self.emulation.release.name
        for name, value in self.static_configs.items():
            _refuse_unless_valid(name, value, f"static config {_shown(name)}: ", release)
        for broker_id, configs in self.broker_static_configs.items():
            for name, value in configs.items():
                _refuse_unless_valid(name, value, f"static config {_shown(name)} of broker {broker_id}: ", release)
            for name in sorted(_CONTROLLERS_CONFIGS & configs.keys()):
                raise SettingsError(f"{name} of broker {broker_id}: the controller decides it, for the whole cluster")
        own = {broker_id: MappingProxyType(dict(configs)) for broker_id, configs in self.broker_static_configs.items()}
        object.__setattr__(self, "static_configs", MappingProxyType(dict(self.static_configs)))
        object.__setattr__(self, "broker_static_configs", MappingProxyType(own))

    def static_configs_of(self, broker_id: int | None) -> Mapping[str, str]:
        """The static configs of one broker; None: those of all brokers."""
        own = self.broker_static_configs.get(broker_id) if broker_id is not None else None
        return {**self.static_configs, **own} if own else self.static_configs

    @property
    def release_defaults(self) -> Mapping[str, str]:
        """The defaults of the release as which the brokers act, where they differ from the table's."""
        release = self.emulation.release
        return _NO_DEFAULTS if release is CURRENT else release_defaults(release.name)

    def static_text(self, name: str, broker_id: int | None = None) -> str:
        """A config as text, from the static configs, or else the default."""
        default = self.release_defaults.get(name, broker_definitions()[name].default or "")
        return self.static_configs_of(broker_id).get(name, default)

    def static_int(self, name: str, broker_id: int | None = None) -> int:
        """A config of type INT or LONG, from the static configs or the table."""
        return cast("int", self._static_value(name, broker_id))

    def static_bool(self, name: str, broker_id: int | None = None) -> bool:
        """A config of type BOOLEAN, from the static configs or the table."""
        return cast("bool", self._static_value(name, broker_id))

    def _static_value(self, name: str, broker_id: int | None) -> ConfigValue:
        key = name, broker_id if broker_id in self.broker_static_configs else None
        if key not in self._decoded:
            definition = broker_definitions()[name]
            value = typed_value(definition, self.static_text(name, broker_id))
            assert not isinstance(value, ApiError), "values were checked when the settings were made"
            self._decoded[key] = value
        return self._decoded[key]

    @property
    def combined_node_id(self) -> int | None:
        """The `node.id` of a node whose `process.roles` are broker and controller; None: the configs have no such
        node."""
        roles = {role.strip() for role in self.static_configs.get("process.roles", "").split(",")}
        node_id = self.static_configs.get("node.id", "").strip()
        return int(node_id) if roles >= {"broker", "controller"} and node_id.isdecimal() else None

    @property
    def is_quorum_dynamic(self) -> bool:
        """Whether a new quorum is dynamic, and a static one becomes so: it was asked for, or
        `controller.quorum.bootstrap.servers` is set and `controller.quorum.voters` is not."""
        configs = self.static_configs
        is_static = bool(configs.get("controller.quorum.voters", "").strip())
        has_servers = bool(configs.get("controller.quorum.bootstrap.servers", "").strip())
        return self.dynamic_quorum or (has_servers and not is_static)

    @property
    def controller_listener_name(self) -> str:
        """The name of the controller's listener, the first one in `controller.listener.names`."""
        names = self.static_configs.get("controller.listener.names", "").split(",")
        return names[0].strip().upper() or "CONTROLLER"

    @property
    def authorizer(self) -> StandardAuthorizer | None:
        """The authorizer that decides what requesters may do; None: they may do everything."""
        return configured_authorizer(self.static_configs)

    @property
    def topic_policy(self) -> str | None:
        """The name of the create-topic policy, `MODULE:CALLABLE`; None: there is no policy."""
        return self.static_configs.get(TOPIC_POLICY_CONFIG, "").strip() or None

    @property
    def socket_request_max_bytes(self) -> int:
        return self.static_int("socket.request.max.bytes")

    @property
    def connections_max_idle_ms(self) -> int:
        """How long a connection may be idle, in milliseconds; negative: without limit."""
        return self.static_int("connections.max.idle.ms")

    @property
    def max_connections(self) -> int:
        return self.static_int("max.connections")

    @property
    def broker_session_timeout_ms(self) -> int:
        return self.static_int("broker.session.timeout.ms")

    @property
    def broker_heartbeat_interval_ms(self) -> int:
        return self.static_int("broker.heartbeat.interval.ms")

    @property
    def metadata_log_segment_bytes(self) -> int:
        internal = self.static_configs.get(_INTERNAL_SEGMENT_BYTES)
        return self.static_int("metadata.log.segment.bytes") if internal is None else int(internal)


def load_settings(
    config_path: Path | None = None,
    environ: Mapping[str, str] = MappingProxyType({}),
    sets: Sequence[str] = (),
    broker_sets: Sequence[str] = (),
    profile: str = "kip",
    seed: int | None = None,
    configs: Mapping[str, str] = MappingProxyType({}),
    broker_configs: Mapping[int, Mapping[str, str]] = MappingProxyType({}),
    decided: Collection[str] = (),
    release: str = CURRENT.name,
) -> tuple[Settings, list[str]]:
    """Settings from a server.properties, `KAFKA_…` variables and `--set` options, and warnings about what is ignored.

    The later of the three count more; `broker_sets` (`3:key=value`) count most, each for one broker alone. `configs`
    and `broker_configs` are the same as the two kinds of options, given from Python. `decided` has the names of further
    configs that the server's options leave without effect; `release` is the one as which the brokers act. Only values
    that count are judged. Raises SettingsError.
    """
    sources: list[_Source] = []
    warnings: list[str] = []
    if config_path is not None:
        sources.append(_known(_read_file(config_path), f"keys in {_shown(str(config_path))}", release, warnings))
    sources.append(_known(_from_environment(environ, release), "environment variables", release, warnings))
    sources.append(_from_sets(sets))
    sources.append(_from_python(configs, ""))
    for_one = _from_broker_sets(broker_sets)
    for broker_id, own in broker_configs.items():
        for_one.setdefault(broker_id, {}).update(_from_python(own, f" of broker {broker_id}"))
    winners: _Source = {}
    for source in sources:
        winners |= source
    for given in (winners, *for_one.values()):
        for name, (value, origin) in given.items():
            _refuse_unless_valid(name, value, origin, release)
    settings = Settings(
        profile=cast("Profile", profile),
        seed=seed,
        static_configs=_values(winners),
        broker_static_configs={broker_id: _values(given) for broker_id, given in for_one.items()},
        emulation=Emulation(RELEASES[release]),
    )
    without_effect = (_WITHOUT_EFFECT | set(decided)) & winners.keys()
    if settings.combined_node_id is not None:
        without_effect -= {"node.id"}
    if without_effect:
        named = ", ".join(sorted(without_effect))
        warnings.append(f"the server's own options decide, so these have no effect: {named}")
    return settings, warnings


_Source = dict[str, tuple[str, str]]
"""By config name: the value, and its origin as a message begins with it."""


def _values(source: _Source) -> dict[str, str]:
    return {name: value for name, (value, _) in source.items()}


def _read_file(path: Path) -> _Source:
    where = f"config file {_shown(str(path))}"
    try:
        pairs = decode_properties(read_bounded(path, MAX_CONFIG_FILE_BYTES))
    except (UnreadableFile, PropertiesError) as error:
        raise SettingsError(f"{where}: {error}") from error
    return {name: (value, f"{where}: ") for name, value in pairs.items()}


def _from_environment(environ: Mapping[str, str], release: str) -> _Source:
    """By the rule of the official images: after the prefix `_` is a dot, `__` an underscore and `___` a dash."""
    source = {}
    for variable in sorted(environ):
        if variable.startswith(_ENVIRONMENT_PREFIX):
            dotted = variable.removeprefix(_ENVIRONMENT_PREFIX).lower().replace("_", ".")
            name = dotted.replace("...", "-").replace("..", "_")
            source[name if _is_config(name, release) or name in broker_definitions(release) else variable] = (
                environ[variable],
                f"environment variable {_shown(variable)}: ",
            )
    return source


def _from_sets(sets: Iterable[str]) -> _Source:
    return dict(_assignment("--set", option) for option in sets)


def _from_python(configs: Mapping[str, str], whose: str) -> _Source:
    return {name: (value, f"static config {_shown(name)}{whose}: ") for name, value in configs.items()}


def _from_broker_sets(broker_sets: Iterable[str]) -> dict[int, _Source]:
    """The configs in --broker-set options, by broker id."""
    for_one: dict[int, _Source] = {}
    for option in broker_sets:
        broker, colon, assignment = option.partition(":")
        if not (colon and broker.isascii() and broker.isdecimal() and len(broker) <= len(str(2**31))):
            raise SettingsError(f"--broker-set {_shown(broker)}: must be ID:key=value, with the id of a broker")
        name, given = _assignment(f"--broker-set {broker}:", assignment)
        for_one.setdefault(int(broker), {})[name] = given
    return for_one


def _assignment(option: str, text: str) -> tuple[str, tuple[str, str]]:
    key, equals, value = text.partition("=")
    name = key.strip()
    if not name:
        raise SettingsError(f"{option.rstrip(':')}: the key is missing, key=value is expected")
    origin = f"{option} {_shown(key)}: "  # The value may be a secret.
    if not equals:
        raise SettingsError(f"{origin}must be key=value")
    return name, (value, origin)


def _known(source: _Source, what: str, release: str, warnings: list[str]) -> _Source:
    """The part of a source that has known configs; one warning names those that only the release has, one the rest."""
    others = sorted(name for name in source if not _is_config(name, release))
    old = [name for name in others if name in broker_definitions(release)]
    unknown = [name for name in others if name not in old]
    if old:
        warnings.append(f"ignored {what} that Kafka {release} has and Klamm does not obey: {', '.join(old)}")
    if unknown:
        shown = first_of([_shown(name) for name in unknown], MAX_SHOWN_NAMES)
        warnings.append(f"ignored {what} that are no broker config: {shown}")
    return {name: given for name, given in source.items() if _is_config(name, release)}


def _is_config(name: str, release: str) -> bool:
    return (
        name in broker_definitions()
        or (name in FORMER_AND_OBEYED and name in broker_definitions(release))
        or name in internal_definitions()
        or name in AUTHORIZERS_OWN_CONFIGS
        or is_security_of_listener(name)
    )


def _refuse_unless_valid(name: str, value: str, origin: str, release: str) -> None:
    if not _is_config(name, release):
        if name in broker_definitions(release):
            raise SettingsError(f"{origin}Kafka {release} has {name}, and Klamm does not obey it")
        raise SettingsError(f"{origin}{_unknown(name)}")
    if any("\ud800" <= character <= "\udfff" for character in value):
        # The operating system could not decode this text, and no response could contain it.
        raise SettingsError(f"{origin}the value of {name} is not valid text")
    definition = broker_definition(name) or internal_definitions().get(name) or broker_definition(name, release)
    refusal = typed_value(definition, value) if definition else None
    if isinstance(refusal, ApiError):
        raise SettingsError(f"{origin}{_shown(refusal.message or name)}")
    if name in AUTHORIZER_CONFIGS and (fault := authorizer_config_fault(name, value)):
        raise SettingsError(f"{origin}{fault}, not {_shown(value) or 'nothing'}")
    if name == REPLICA_SELECTOR_CONFIG and value.strip() not in ("", _REPLICA_SELECTOR):
        raise SettingsError(f"{origin}{name} can only be {_REPLICA_SELECTOR}, not {_shown(value)}")


def _unknown(name: str) -> str:
    """The message that a name is no broker config, with the name that was perhaps meant."""
    from klamm.protocol.near_names import did_you_mean

    topic_config = topic_definitions().get(name)
    if topic_config and topic_config.synonyms:
        return f"{name} is a config of topics; what they inherit is {topic_config.synonyms[0].name}"
    known = (*broker_definitions(), *AUTHORIZERS_OWN_CONFIGS)
    return f"no broker config is called {_shown(name) or 'nothing'}{did_you_mean(name, known)}"


def _shown(text: str) -> str:
    """Text of unknown origin, escaped and shortened so that it fits into one line."""
    half = MAX_SHOWN_CHARACTERS // 2
    cut = text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:half]}…{text[-half:]}"
    return printable(cut)
