"""Effective configs: the value that applies, its source, and its synonyms, as in DescribeConfigs.

Precedence, strongest first: the resource's own dynamic config, the broker's, the cluster-wide default, the static one
(server.properties), the table's default. Arguments are plain mappings; this module does not import the image. The
oddities are Kafka's, recorded in `tests/golden/configs`: a topic config that a broker config in hours decides has no
synonyms and source DEFAULT_CONFIG, and an unknown broker config counts as sensitive.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from functools import cache, lru_cache
from typing import Final, NamedTuple, TypeAlias

from klamm.controller.config_definitions.release_configs import NEWEST
from klamm.controller.config_definitions.release_defaults import release_defaults
from klamm.controller.config_definitions.table import (
    ConfigDefinition,
    ConfigType,
    broker_definition,
    broker_definitions,
    client_metrics_definitions,
    group_definitions,
    one_meaning,
    shown_synonyms,
    throttle_definitions,
    topic_definitions,
)
from klamm.controller.config_definitions.values import shown_text, typed_value
from klamm.controller.settings import Settings
from klamm.quick_dataclasses import dataclass

DynamicConfigs: TypeAlias = Mapping[tuple[int, str], Mapping[str, str]]
"""The configs in the log, by resource type and name. A broker's name is its id; that of the cluster-wide default is
empty."""

_NOTHING: Final[Mapping[str, str]] = {}
_RETENTION: Final = "retention.ms"


class ResourceType(IntEnum):
    """The resources that have configs, by their numbers in requests and ConfigRecords."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_FIRST_RELEASES: Final = {
    ResourceType.BROKER_LOGGER: (2, 4),
    ResourceType.CLIENT_METRICS: (3, 7),
    ResourceType.GROUP: (4, 0),
}


@cache
def resource_types(release: str) -> frozenset[int]:
    """The types of resources that brokers of a release know, by its name."""
    numbers = tuple(map(int, release.split(".")))
    return frozenset(one for one in ResourceType if numbers >= _FIRST_RELEASES.get(one, ()))


class ConfigSource(IntEnum):
    """The source of a value, by its number in responses."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigSynonym(NamedTuple):
    """A value of a config at one level; the first synonym in a list applies."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, eq=False)
class ConfigEntry:
    """One config of one resource. The value is None if the config is sensitive, or not set and without a default."""

    name: str
    value: str | None
    source: ConfigSource
    config_type: ConfigType
    read_only: bool
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]


Levels: TypeAlias = tuple[tuple[ConfigSource, Mapping[str, str]], ...]
"""The configs that are set, strongest level first. A last level may have the defaults as which an emulated release
behaves; they replace those of the table."""


@dataclass(frozen=True, slots=True)
class BrokerConfigs:
    """The configs that are set for one broker, or for the cluster (without dynamic configs of a broker). Hashable."""

    dynamic_broker: tuple[tuple[str, str], ...] = ()
    dynamic_default: tuple[tuple[str, str], ...] = ()
    static: tuple[tuple[str, str], ...] = ()
    release: str = NEWEST
    """The emulated release, whose definitions and defaults apply."""

    def levels(self) -> Levels:
        return (*self.set_levels(), (ConfigSource.DEFAULT, release_defaults(self.release)))

    def set_levels(self) -> Levels:
        """The levels without that of the defaults."""
        return (
            (ConfigSource.DYNAMIC_BROKER, dict(self.dynamic_broker)),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, dict(self.dynamic_default)),
            (ConfigSource.STATIC_BROKER, dict(self.static)),
        )


_NO_CONFIGS = BrokerConfigs()


def config_levels(
    dynamic_configs: DynamicConfigs, settings: Settings | None = None, broker_id: int | None = None
) -> Levels:
    """The levels of the broker, or of the cluster. Without settings there are no static configs."""
    own = _NOTHING if broker_id is None else dynamic_configs.get((ResourceType.BROKER, str(broker_id)), _NOTHING)
    return (
        (ConfigSource.DYNAMIC_BROKER, own),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, dynamic_configs.get((ResourceType.BROKER, ""), _NOTHING)),
        (ConfigSource.STATIC_BROKER, settings.static_configs_of(broker_id) if settings else _NOTHING),
        (ConfigSource.DEFAULT, settings.release_defaults if settings else _NOTHING),
    )


def broker_configs(
    dynamic_configs: DynamicConfigs,
    settings: Settings | None = None,
    broker_id: int | None = None,
    release: str | None = None,
) -> BrokerConfigs:
    """The same as an immutable value, which later changes do not affect. `release`: that of the client that asks, if it
    is not the settings'."""
    (_, own), (_, default), (_, static), _ = config_levels(dynamic_configs, settings, broker_id)
    if release is None:
        release = settings.emulation.release.name if settings else NEWEST
    if not own and not default and not static and release == NEWEST:
        return _NO_CONFIGS  # the usual case, in every Produce and CreateTopics
    return BrokerConfigs(tuple(own.items()), tuple(default.items()), tuple(static.items()), release)


def effective_broker_configs(configs: BrokerConfigs) -> list[ConfigEntry]:
    """All configs of a broker: those of its release, and unknown ones that are set."""
    levels, release = configs.set_levels(), configs.release
    defined = broker_definitions(release)
    set_somewhere = set().union(*(values for _, values in levels))
    touched = set_somewhere.union(*(one_meaning(release).get(name, ()) for name in set_somewhere))
    return [
        _broker_entry(levels, name, release) if name in touched else _default_broker_entry(name, release)
        for name in (sorted(touched | defined.keys()) if touched - defined.keys() else defined)
    ]


def effective_cluster_configs(configs: BrokerConfigs) -> list[ConfigEntry]:
    """The cluster-wide defaults: only those that are set dynamically."""
    level = (ConfigSource.DYNAMIC_DEFAULT_BROKER, dict(configs.dynamic_default))
    return [_cluster_entry(level, name, configs.release) for name in sorted(level[1])]


def effective_topic_configs(configs: BrokerConfigs, own: Mapping[str, str]) -> list[ConfigEntry]:
    """All configs of a topic whose dynamic configs are `own`."""
    inherited, definitions = inherited_topic_configs(configs), topic_definitions(configs.release)
    if not own:
        return list(inherited.values())
    return [
        _with_own(entry, definitions[name], own[name], ConfigSource.TOPIC) if name in own else entry
        for name, entry in inherited.items()
    ]


@lru_cache(maxsize=64)
def inherited_topic_configs(configs: BrokerConfigs) -> Mapping[str, ConfigEntry]:
    """The configs of a topic that sets none, by name. The result is shared: do not change it."""
    levels, release = configs.set_levels(), configs.release
    entries = {}
    for name, definition in topic_definitions(release).items():
        text = inherited_value(levels, definition)[0]
        value = None if text is None else shown_text(definition, text)
        if name == _RETENTION and value and value.startswith("-"):
            value = "-1"  # Any negative time means "without limit", minus one hour included.
        first = definition.synonyms[0].name if definition.synonyms else None
        synonyms = _broker_synonyms(levels, first, release, hidden=definition.sensitive) if first else ()
        entries[name] = _entry(definition, value, synonyms)
    return entries


def effective_group_configs(configs: BrokerConfigs, own: Mapping[str, str]) -> list[ConfigEntry]:
    """All configs of a group whose dynamic configs are `own`."""
    definitions = group_definitions(configs.release)
    return [
        _with_own(entry, definitions[name], own[name], ConfigSource.GROUP) if name in own else entry
        for name, entry in _inherited_group_configs(configs).items()
    ]


@lru_cache(maxsize=64)
def _inherited_group_configs(configs: BrokerConfigs) -> Mapping[str, ConfigEntry]:
    levels, release = configs.set_levels(), configs.release
    entries = {}
    for name, definition in group_definitions(release).items():
        text, _ = inherited_value(levels, definition)
        synonyms = (
            _broker_synonyms(levels, definition.synonyms[0].name, release)
            if definition.synonyms and release == NEWEST
            # Before 4.3, groups showed no synonym of the broker's.
            else (ConfigSynonym(name, text, ConfigSource.DEFAULT),)
        )
        entries[name] = _entry(definition, None if text is None else shown_text(definition, text), synonyms)
    return entries


def group_values(configs: BrokerConfigs, own: Mapping[str, str]) -> Mapping[str, str | None]:
    """The values as which a group behaves, those of configs included that the release does not have."""
    levels, values = configs.levels(), {}
    for name, definition in group_definitions().items():
        text = own[name] if name in own else inherited_value(levels, definition)[0]
        values[name] = None if text is None else shown_text(definition, text)
    return values


def effective_client_metrics_configs(own: Mapping[str, str], *, only_set: bool = False) -> list[ConfigEntry]:
    """The configs of a client metrics subscription whose dynamic configs are `own`: all, or, as before 4.1, these."""
    entries = []
    for name, definition in client_metrics_definitions().items():
        if only_set and name not in own:
            continue
        entry = _entry(definition, definition.default, ())
        entries.append(_with_own(entry, definition, own[name], ConfigSource.CLIENT_METRICS) if name in own else entry)
    return entries


def _broker_entry(levels: Levels, name: str, release: str) -> ConfigEntry:
    definition = broker_definition(name, release)
    fallback = definition.default if definition else None
    names = one_meaning(release).get(name, (name,))
    # A level that sets a time in one unit overrides the weaker levels in all units.
    decisive = next((values for _, values in levels if any(one in values for one in names)), _NOTHING)
    text = decisive.get(name, fallback)
    # Kafka prints parsed values of the configs in its table, and the given text of others.
    listed = definition is not None and name not in throttle_definitions()
    value = shown_text(definition, text) if definition and listed and text is not None else text
    synonyms = _broker_synonyms(levels, name, release, hidden=_is_hidden(definition))
    return _entry_of_broker(name, definition, value, synonyms)


@cache
def _default_broker_entry(name: str, release: str) -> ConfigEntry:
    return _broker_entry((), name, release)


def _cluster_entry(level: tuple[ConfigSource, Mapping[str, str]], name: str, release: str) -> ConfigEntry:
    definition = broker_definition(name, release)
    synonyms = _broker_synonyms((level,), name, release, hidden=_is_hidden(definition))
    # The text as it was set, without the synonyms of weaker levels.
    own = tuple(said for said in synonyms if said.source is level[0])
    return _entry_of_broker(name, definition, level[1][name], own)


def _entry_of_broker(
    name: str, definition: ConfigDefinition | None, value: str | None, synonyms: tuple[ConfigSynonym, ...]
) -> ConfigEntry:
    hidden = _is_hidden(definition)
    return ConfigEntry(
        name=name,
        value=None if hidden else value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        config_type=definition.type if definition else ConfigType.UNKNOWN,
        # For changes, Kafka treats a config of one listener as an unknown config.
        read_only=definition is None or definition.read_only or definition.name != name,
        sensitive=hidden,
        synonyms=synonyms,
    )


def _is_hidden(definition: ConfigDefinition | None) -> bool:
    """Whether the value is hidden. An unknown config may be a secret, so its value is hidden, too."""
    return definition is None or definition.sensitive


def _entry(definition: ConfigDefinition, value: str | None, synonyms: tuple[ConfigSynonym, ...]) -> ConfigEntry:
    return ConfigEntry(
        name=definition.name,
        value=value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        config_type=definition.type,
        read_only=False,
        sensitive=definition.sensitive,
        synonyms=synonyms,
    )


def _with_own(entry: ConfigEntry, definition: ConfigDefinition, text: str, source: ConfigSource) -> ConfigEntry:
    value = shown_text(definition, text)
    return _entry(definition, value, (ConfigSynonym(entry.name, value, source), *entry.synonyms))


def inherited_value(levels: Levels, definition: ConfigDefinition) -> tuple[str | None, ConfigSource]:
    """The text, in its own unit, of a topic or group config that is not set itself, and its source."""
    for source, values in levels:
        for synonym in definition.synonyms:
            if synonym.name in values:
                return (_in_milliseconds(values[synonym.name], synonym.name, synonym.factor), source)
    return (definition.default, ConfigSource.DEFAULT)


def _in_milliseconds(text: str, name: str, factor: int) -> str:
    value = typed_value(broker_definitions()[name], text) if factor != 1 else None
    return str(value * factor) if isinstance(value, int) else text


def _broker_synonyms(levels: Levels, name: str, release: str, *, hidden: bool = False) -> tuple[ConfigSynonym, ...]:
    """The values of a broker config under all of its names, from the first one that has its own name on."""
    names = shown_synonyms(release).get(name, (name,))
    definition = broker_definition(name, release)
    if definition and definition.name != name:
        names = (name, definition.name)
    found = _drop_until(name, _sayings(levels, names, release))
    return tuple(ConfigSynonym(said.name, None, said.source) for said in found) if hidden else tuple(found)


def _sayings(levels: Levels, names: tuple[str, ...], release: str) -> Iterator[ConfigSynonym]:
    for source, values in levels:
        for name in names:
            if name in values:
                yield ConfigSynonym(name, values[name], source)
    for name in names:
        definition = broker_definitions(release).get(name)
        if definition and definition.default is not None:
            yield ConfigSynonym(name, definition.default, ConfigSource.DEFAULT)


def _drop_until(name: str, synonyms: Iterable[ConfigSynonym]) -> Iterator[ConfigSynonym]:
    reached = False
    for synonym in synonyms:
        reached = reached or synonym.name == name
        if reached:
            yield synonym
