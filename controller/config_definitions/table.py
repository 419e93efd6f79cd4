"""The table of Apache Kafka 4.3's configs: names, types, defaults, ranges, and which config inherits from which.

`configs.tsv` holds the topic and broker configs, `group_and_client_configs.tsv` those of groups and client metrics,
`own_configs.tsv` the broker configs of KIP-409 and KIP-578, which Kafka never adopted, `throttle_configs.tsv` the
broker configs that are shown only if they are set, and one that is never shown. `release_configs.tsv` holds what former
releases had instead (`release_configs`). The files are read on first use, in about a millisecond.
`klamm.controller.config_definitions.values` validates values; no set values are known here.
"""

import re
from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from klamm.controller.config_definitions.release_configs import NEWEST, rows_of_release
from klamm.quick_dataclasses import dataclass

_OWN: Final = "own_configs.tsv"
_TABLES: Final = ("configs.tsv", "group_and_client_configs.tsv", _OWN, "throttle_configs.tsv")
_LISTENER_PREFIX: Final = re.compile(r"listener\.name\.[^.]*\.(.*)", re.DOTALL)
_OF_MECHANISMS: Final = ("sasl.", "connections.max.reauth.ms")
_OF_SECURITY: Final = ("ssl.", *_OF_MECHANISMS)
FORMER_AND_OBEYED: Final = frozenset({"log.message.downconversion.enable", "log.message.timestamp.difference.max.ms"})
"""The broker configs that 4.0 removed, and that have an effect here if the release has them."""
_MILLISECONDS: Final = {"minutes": 60_000, "hours": 3_600_000}


class ConfigType(IntEnum):
    """The types of configs, by their numbers in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class BrokerSynonym(NamedTuple):
    """A broker config that another config inherits from; its value is multiplied by `factor` (hours to
    milliseconds)."""

    name: str
    factor: int


@dataclass(frozen=True, slots=True, eq=False)
class ConfigDefinition:
    """One config. `default` is the text in responses; None if there is no default, or if a value is required."""

    name: str
    type: ConfigType
    default: str | None
    valid: str
    importance: str
    update_mode: str
    synonyms: tuple[BrokerSynonym, ...]
    """The configs that it inherits from while it is not set; the first one that is set applies."""
    is_own: bool = False
    """Whether only Klamm has the config, and not Apache Kafka."""

    @property
    def read_only(self) -> bool:
        """Whether the config can be changed only by a restart."""
        return self.update_mode == "read-only"

    @property
    def sensitive(self) -> bool:
        """Whether responses hide the value."""
        return self.type is ConfigType.PASSWORD


Definitions = Mapping[str, ConfigDefinition]
"""Definitions by name, in alphabetical order, which is the order in responses."""


def topic_definitions(release: str = NEWEST) -> Definitions:
    return _tables(release)["topic"]


def created_topic_definitions(release: str = NEWEST) -> Definitions:
    """The topic configs that a CreateTopics response lists. In the releases 3.0 and 3.3, internal ones are among
    them."""
    internal = _tables(release).get("internal-topic")
    return dict(sorted({**topic_definitions(release), **internal}.items())) if internal else topic_definitions(release)


def broker_definitions(release: str = NEWEST) -> Definitions:
    return _tables(release)["broker"]


def throttle_definitions() -> Definitions:
    """Broker configs that exist only as dynamic ones: as in Kafka, `broker_definitions` does not contain them."""
    return _tables(NEWEST)["throttle"]


def internal_definitions() -> Definitions:
    """Kafka's internal configs for tests: allowed in server.properties, and in no response."""
    return _tables(NEWEST)["internal"]


def group_definitions(release: str = NEWEST) -> Definitions:
    return _tables(release)["group"]


def client_metrics_definitions(release: str = NEWEST) -> Definitions:
    return _tables(release)["client-metrics"]


@cache
def one_meaning(release: str = NEWEST) -> Mapping[str, tuple[str, ...]]:
    """Groups of broker configs with the same meaning, in several units or as a fallback: each name with all of its
    group."""
    together: dict[str, tuple[str, ...]] = {}
    for definition in topic_definitions(release).values():
        names = tuple(synonym.name for synonym in definition.synonyms)
        together |= dict.fromkeys(names, names)
    return together


@cache
def shown_synonyms(release: str = NEWEST) -> Mapping[str, tuple[str, ...]]:
    """The names under which responses list the synonyms of a broker config, if there is another name than its own."""
    return {
        name: names
        for name, names in one_meaning(release).items()
        # log.flush.interval.ms falls back to log.flush.scheduler.interval.ms, which is not another unit of it.
        if len(names) > 1 and (name == names[0] or _unit(name) in _MILLISECONDS)
    }


def without_listener(name: str) -> str:
    """The name of a broker config without its listener prefix (`listener.name.external.…`), if it has one."""
    of_listener = _LISTENER_PREFIX.fullmatch(name)
    return of_listener[1] if of_listener else name


def broker_definition(name: str, release: str = NEWEST) -> ConfigDefinition | None:
    """The definition of a broker config; for a config of one listener, the definition without the listener prefix."""
    definitions = broker_definitions(release)
    known = definitions.get(name) or throttle_definitions().get(name)
    if known:
        return known
    base = without_listener(name)
    if base != name and base not in definitions:
        # Configs of SASL mechanisms have the mechanism's name after the listener's.
        of_mechanism = base.partition(".")[2]
        base = of_mechanism if of_mechanism.startswith(_OF_MECHANISMS) else base
    return definitions.get(base)


def is_security_of_listener(name: str) -> bool:
    """Whether this is a TLS or SASL config of one listener, such as `listener.name.external.ssl.client.auth`."""
    return without_listener(name) != name and is_of_security(name)


def is_of_security(name: str) -> bool:
    """Whether this is a TLS or SASL config of all listeners or of one."""
    definition = broker_definition(name)
    return definition is not None and definition.name.startswith(_OF_SECURITY)


@cache
def _tables(release: str) -> Mapping[str, Definitions]:
    """The definitions of a release by scope: those of the newest release, and what the release had instead."""
    if release != NEWEST:
        former = {scope: dict(definitions) for scope, definitions in _tables(NEWEST).items()}
        for row in rows_of_release(release):
            if row["type"]:
                former.setdefault(row["scope"], {})[row["name"]] = _definition(row, is_own=False)
            else:
                del former[row["scope"]][row["name"]]
        return _sorted(former)
    tables: dict[str, dict[str, ConfigDefinition]] = {}
    for file_name in _TABLES:
        header, *lines = Path(__file__).with_name(file_name).read_text(encoding="utf-8").splitlines()
        columns = header.split("\t")
        for line in lines:
            row = dict(zip(columns, line.split("\t"), strict=True))
            tables.setdefault(row["scope"], {})[row["name"]] = _definition(row, is_own=file_name == _OWN)
    return _sorted(tables)


def _sorted(tables: Mapping[str, Definitions]) -> Mapping[str, Definitions]:
    return {scope: dict(sorted(definitions.items())) for scope, definitions in tables.items()}


def _definition(row: Mapping[str, str], *, is_own: bool) -> ConfigDefinition:
    config_type = ConfigType[row["type"]]
    names = row["broker_synonym"].split(",") if row["broker_synonym"] else []
    return ConfigDefinition(
        name=row["name"],
        type=config_type,
        default=_default(config_type, row["default"]),
        valid=row["valid"],
        importance=row["importance"],
        update_mode=row["update_mode"],
        synonyms=tuple(BrokerSynonym(name, _MILLISECONDS.get(_unit(name), 1)) for name in names),
        is_own=is_own,
    )


def _default(config_type: ConfigType, text: str) -> str | None:
    """The default as Java prints it in responses: `[a, b]`, `class x`."""
    if text in ("null", "<required>"):
        return None
    if config_type is ConfigType.LIST:
        return text.strip("[]").replace(", ", ",")
    if config_type is ConfigType.CLASS:
        return text.removeprefix("class ")
    return text


def _unit(name: str) -> str:
    return name.rpartition(".")[2]
