"""Which of the static configs that a cluster's brokers show are stored for its twins, and what is said of the others.

Not stored are secrets, and what a twin has of its own: listeners, their TLS and SASL, the quorum, the authorizer, and
classes of Java. The paths of log directories are stored, since a simulated broker only reports them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from klamm.admin.types import ConfigEntry, ConfigSource
from klamm.assignment.wording import counted
from klamm.cluster.twin_configs import STATIC_CONFIGS_FILE, StaticConfigs
from klamm.controller.config_definitions.table import ConfigType, broker_definition, is_of_security
from klamm.controller.data_limits import MAX_LOG_DIRS
from klamm.controller.settings import IDENTITY_CONFIGS, MAX_SHOWN_NAMES, Settings, SettingsError
from klamm.protocol.printable import first_of

CLUSTER_WIDE: Final = (
    "num.partitions",
    "default.replication.factor",
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "max.broker.partitions",
    "max.partitions",
    "enable.under.replicated.topic.creation",
)
"""Configs of which the controller of a real cluster uses its own values, which brokers do not show: if the brokers
differ, it is not known which value the cluster uses."""
_OF_THE_TWIN: Final = frozenset(
    {
        "allow.everyone.if.no.acl.found",
        "authorizer.class.name",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "create.topic.policy.class.name",
        "early.start.listeners",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "cordoned.log.dirs",
        "principal.builder.class",
        "process.roles",
        "security.inter.broker.protocol",
        "security.providers",
        "super.users",
    }
)
_OF_ONE_LISTENER: Final = "listener.name."


@dataclass(slots=True)
class ShownConfigs:
    """What the brokers have shown."""

    by_broker: dict[int, dict[str, str]] = field(default_factory=dict)
    """The static configs that can be stored."""
    secret: set[str] = field(default_factory=set)
    of_the_twin: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    """Configs that Klamm does not know, or whose values it refuses."""

    def add(self, broker_id: int, configs: Mapping[str, ConfigEntry]) -> None:
        """Note the configs of a broker that its file has, also those that dynamic configs override."""
        found = self.by_broker.setdefault(broker_id, {})
        for name, entry in configs.items():
            value = _static_value(entry)
            if entry.is_sensitive or _is_secret(name):
                if entry.source is ConfigSource.STATIC_BROKER_CONFIG:
                    # Apache Kafka hides the values of configs that it does not know, such as those of its authorizer.
                    (self.of_the_twin if name in _OF_THE_TWIN else self.secret).add(name)
            elif value is not None and name not in IDENTITY_CONFIGS:
                if name in _OF_THE_TWIN or name.startswith(_OF_ONE_LISTENER) or is_of_security(name):
                    self.of_the_twin.add(name)
                elif _is_refused(name, value):
                    self.refused.add(name)
                else:
                    found[name] = value

    def stored(self) -> StaticConfigs:
        """The configs to store: a value that all brokers have is one of the cluster."""
        brokers = list(self.by_broker.values())
        first = brokers[0] if brokers else {}
        shared = {
            name: value for name, value in first.items() if all(configs.get(name) == value for configs in brokers)
        }
        own = {
            broker_id: {name: value for name, value in configs.items() if name not in shared}
            for broker_id, configs in self.by_broker.items()
        }
        return StaticConfigs(shared, {broker_id: configs for broker_id, configs in own.items() if configs})

    def lines(self) -> Iterator[str]:
        """What is stored, and what is not, for the user."""
        names = {name for configs in self.by_broker.values() for name in configs}
        if names:
            yield f"{counted(len(names), 'static config')} of brokers: stored in {STATIC_CONFIGS_FILE}"
        for name in CLUSTER_WIDE:
            values = Counter(configs[name] for configs in self.by_broker.values() if name in configs)
            if values and max(values.values()) < len(self.by_broker):
                brokers = counted(len(self.by_broker), "broker")
                found = ", ".join(f"{value} on {count} of {brokers}" for value, count in values.items())
                of_all = f"--set {name}=VALUE gives all brokers of a twin one value"
                yield f"static configs differ: {name} is {found}; {of_all}"
        for what, some in (
            ("secrets, or hidden by the brokers", self.secret),
            ("a twin has listeners and an authorizer of its own", self.of_the_twin),
            ("Klamm does not know them, or refuses their values", self.refused),
        ):
            if some:
                yield f"static configs not stored ({what}): {_named(some)}"


def _static_value(entry: ConfigEntry) -> str | None:
    """The value in the broker's file under the config's own name."""
    for synonym in entry.synonyms:
        if synonym.source is ConfigSource.STATIC_BROKER_CONFIG and synonym.name == entry.name:
            return synonym.value
    # Kafka before 1.1 shows no synonyms.
    is_static = not entry.synonyms and entry.source is ConfigSource.STATIC_BROKER_CONFIG
    return entry.value if is_static else None


def _is_secret(name: str) -> bool:
    definition = broker_definition(name)
    return definition is not None and definition.type is ConfigType.PASSWORD


def _is_refused(name: str, value: str) -> bool:
    if name == "log.dirs" and value.count(",") >= MAX_LOG_DIRS:
        return True
    try:
        Settings(static_configs={name: value})
    except SettingsError:
        return True
    return False


def _named(names: Iterable[str]) -> str:
    return first_of(sorted(names), MAX_SHOWN_NAMES)
