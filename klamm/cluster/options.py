"""The options of a cluster, which are the same for `klamm serve`, `klamm.Cluster`, `klamm.ServerProcess`, the marker
and the ini file of the pytest plugin. Each option has one name (with dashes on a command line) and one range of values.

Standard library alone: the command line is read before anything heavy is imported. A refusal is a ValueError whose
text is one clause for people.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from klamm.cluster.security_options import checked_add_scram, checked_security, checked_users
from klamm.cluster.version_options import checked_kafka_version, checked_max_version, checked_metadata_version
from klamm.console.shown import shown
from klamm.controller.data_limits import (
    DEFAULT_DATA_LIMITS,
    DEFAULT_SNAPSHOT_RECORDS,
    MAX_DATA_BYTES,
    MAX_LOG_DIRS,
    MAX_REPLICATION_RATE,
    MAX_SNAPSHOT_RECORDS,
    MIN_DATA_MEMORY_BYTES,
)
from klamm.quick_dataclasses import dataclass
from klamm.server.addresses import Address, NamedAddress, decode_advertised, decode_listen, decode_listener

MAX_BROKERS = 1_000
"""More listening ports than that are no simulation any more, and each one is an open file."""
MAX_RACK_CHARACTERS = 255
MAX_BROKER_ID = 2**31 - 1
MAX_CLUSTER_ID_CHARACTERS = 64
MAX_PATTERN_CHARACTERS = 255
MAX_SEED = 2**63 - 1
MAX_START_MS = 2**53
PROFILES = ("kip", "kafka")
CLOCKS = ("real", "manual")
LISTEN_TWICE = "listen is the short form of one of the listeners: give listen or listeners, not both"
_OF_IDS = dict.fromkeys(map(ord, "-_+/=."))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The options of a cluster. Each value is valid on its own; whether they fit together is checked later."""

    listen: Address | None = None
    """The address of the first broker's PLAINTEXT listener; other brokers take the next ports, or free ones with port
    0."""
    listeners: tuple[NamedAddress, ...] = ()
    """The listeners of the first broker, if it has several, and possibly the controller's."""
    advertise: Address | None = None
    """The address that clients get instead of `listen`; port 0: the ports that the brokers listen on."""
    controller_listener: Address | None = None
    brokers: int | None = None
    """The number of brokers at the start. None: that of `broker_ids`, else 3. 0: real brokers join by the controller's
    listener."""
    broker_ids: tuple[int, ...] = ()
    """The ids of the brokers at the start, in the order of their racks and ports; empty: from 1 on."""
    racks: tuple[str, ...] = ()
    config: Path | None = None
    """The path of a server.properties file."""
    sets: tuple[str, ...] = ()
    """Configs from a command line, `key=value`; `configs` has those that are given in Python."""
    broker_sets: tuple[str, ...] = ()
    """Configs of single brokers from a command line: `3:key=value` for broker 3. In Python: `broker_configs`."""
    configs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    broker_configs: Mapping[int, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    profile: Literal["kip", "kafka"] = "kip"
    kafka_version: str | None = None
    """The release of Apache Kafka as which the brokers act, such as "2.8", or a list with releases for listeners and
    client ids, such as "3.6,EXTERNAL=2.8,client:legacy-*=2.1". None: the newest."""
    metadata_version: str | None = None
    """The metadata.version of a new log: a level, a name such as "4.0-IV3" or a release. None: the release's."""
    max_version: str | None = None
    """The newest version that is served of single APIs, such as "Metadata=9,Fetch=4"."""
    kip_578_versions: bool = False
    client_telemetry: bool = False
    log_dirs: int | None = None
    """The number of log directories of each broker; None: those of `log.dirs`."""
    real_topics: str = "*"
    """A pattern of names of topics that are on real brokers, if there are any beside simulated ones."""
    dynamic_quorum: bool = False
    replication_rate: int = DEFAULT_DATA_LIMITS.replication_rate
    data_memory_bytes: int = DEFAULT_DATA_LIMITS.memory_bytes
    data_file_bytes: int = DEFAULT_DATA_LIMITS.file_bytes
    seed: int | None = None
    cluster_id: str | None = None
    """The id of a new cluster; a data directory with another id is refused. None: a generated id."""
    data_dir: Path | None = None
    twin: Path | None = None
    """The metadata of a cluster that this one begins as: a data directory, or a file of its log."""
    snapshot_records: int = DEFAULT_SNAPSHOT_RECORDS
    keep_history: bool = False
    """Whether snapshots delete nothing from the metadata log."""
    request_log: Path | None = None
    request_topic: str | None = None
    """The topic that has the lines of the request log as records; None: no topic has them."""
    start_ms: int | None = None
    """The cluster's time at its start, in ms since 1970; None: the real time."""
    faults: Path | None = None
    """A file with fault rules that apply from the start."""
    clock: Literal["real", "manual"] = "real"
    """Whether the cluster's time goes on by itself, or is advanced by hand."""
    journal_bodies: bool = False
    """Whether the newest requests are kept with their bodies."""
    security: Literal["ssl", "sasl_plaintext", "sasl_ssl"] | None = None
    """The protocol of the brokers' listener, with certificates that Klamm makes; None: PLAINTEXT, or SASL_PLAINTEXT if
    there are users."""
    users: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Users and their passwords."""
    add_scram: tuple[str, ...] = field(default=(), repr=False)
    """SCRAM credentials of a new cluster, in the form of `kafka-storage format --add-scram`."""


def checked_options(given: Mapping[str, Any]) -> ClusterOptions:
    """The options by these names. Raises ValueError, or TypeError for an unknown name."""
    checked = {name: checked_option(name, value) for name, value in given.items()}
    if checked.get("listen") is not None and checked.get("listeners"):
        raise ValueError(LISTEN_TWICE)
    return ClusterOptions(**{name: value for name, value in checked.items() if value is not None})


def checked_option(name: str, value: object) -> Any:
    """One option's value, None for the default. Raises ValueError, or TypeError for an unknown name."""
    if name not in _CHECKS:
        raise TypeError(no_option(name, _CHECKS))
    return None if value is None and name in _MAY_BE_NONE else _CHECKS[name](value)


def no_option(name: str, known: Iterable[str]) -> str:
    """The refusal of an unknown option, with the known ones."""
    from klamm.protocol.near_names import did_you_mean

    known = tuple(known)
    return f"there is no option {shown(name)} (known: {', '.join(known)}){did_you_mean(name, known)}"


def checked_number(what: str, number: object, lowest: int, highest: int) -> int:
    """The number, if it is an integer within the bounds."""
    # In Python a bool is an int; here it is an error.
    if not isinstance(number, int) or isinstance(number, bool) or not lowest <= number <= highest:
        raise ValueError(f"{what} {shown(number)}: a whole number from {lowest} to {highest} is expected")
    return number


def checked_topic_pattern(pattern: object) -> str:
    """A pattern of topic names, as a shell has it."""
    if not isinstance(pattern, str) or not 0 < len(pattern) <= MAX_PATTERN_CHARACTERS:
        raise ValueError(
            f"real topics {shown(pattern)}: a pattern of 1 to {MAX_PATTERN_CHARACTERS} characters is expected, such as "
            '"orders-*"'
        )
    return pattern


def checked_racks(racks: Sequence[str]) -> tuple[str, ...]:
    """The racks, if each is a valid name for a broker's registration."""
    if isinstance(racks, str) or not isinstance(racks, Sequence):
        raise ValueError(f'racks {shown(racks)}: a sequence of names is expected, such as ("a", "b")')
    for rack in racks:
        if not isinstance(rack, str):
            raise ValueError(f"rack {shown(rack)}: a name is expected")
        if not rack.strip() or rack != rack.strip():
            raise ValueError(f"rack {shown(rack)} has no name, or blanks around it")
        if len(rack) > MAX_RACK_CHARACTERS or not rack.isprintable():
            raise ValueError(f"rack {shown(rack)}: up to {MAX_RACK_CHARACTERS} printable characters are expected")
    return tuple(racks)


def checked_broker_ids(broker_ids: object) -> tuple[int, ...]:
    """The ids, if they are distinct and each is valid. Empty: none are chosen."""
    if isinstance(broker_ids, str) or not isinstance(broker_ids, Sequence):
        raise ValueError(f"broker ids {shown(broker_ids)}: a sequence of numbers is expected, such as (0, 1, 2)")
    if len(broker_ids) > MAX_BROKERS:
        raise ValueError(f"{len(broker_ids)} broker ids: at most {MAX_BROKERS} are possible")
    found: dict[int, None] = {}
    for broker_id in broker_ids:
        if checked_number("broker id", broker_id, 0, MAX_BROKER_ID) in found:
            raise ValueError(f"broker id {broker_id} is given twice")
        found[broker_id] = None
    return tuple(found)


def checked_cluster_id(text: str) -> str:
    """The id, if it needs no escaping in files and answers. Kafka accepts any text as an id."""
    if not (0 < len(text) <= MAX_CLUSTER_ID_CHARACTERS and text.isascii() and text.translate(_OF_IDS).isalnum()):
        raise ValueError(
            f"{shown(text)}: up to {MAX_CLUSTER_ID_CHARACTERS} letters, digits and -_+/=. are expected as a cluster id"
        )
    return text


def checked_configs(configs: object) -> dict[str, str]:
    """The configs as in server.properties, if all names are strings and all values strings, numbers or booleans."""
    return _checked_configs(configs, "")


def checked_broker_configs(broker_configs: object) -> dict[int, dict[str, str]]:
    """The configs of single brokers, by id, if each id and each broker's configs are valid.

    The broker need not exist yet: it may be added later.
    """
    if not isinstance(broker_configs, Mapping):
        raise ValueError(f"broker configs {shown(broker_configs)}: a mapping of broker ids to configs is expected")
    return {
        checked_number("broker", broker_id, 0, MAX_BROKER_ID): _checked_configs(configs, f" of broker {broker_id}")
        for broker_id, configs in broker_configs.items()
    }


def _checked_configs(configs: object, whose: str) -> dict[str, str]:
    if not isinstance(configs, Mapping):
        raise ValueError(f"configs{whose} {shown(configs)}: a mapping of names to values is expected")
    for name, value in configs.items():
        if not isinstance(name, str):
            raise ValueError(f"config {shown(name)}{whose}: its name must be a string")
        if not isinstance(value, str | bool | int | float):
            kinds = "a string, a number or a boolean"
            raise ValueError(f"config {named(name)}{whose}: its value must be {kinds}, not {type(value).__name__}")
    return {name: _as_in_properties(value) for name, value in configs.items()}


def _as_in_properties(value: str | float) -> str:
    """The value as server.properties has it: true, not True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def named(name: str) -> str:
    """The name of a config, possibly an unknown one, as part of one line."""
    return name if name.isprintable() and 0 < len(name) <= MAX_RACK_CHARACTERS else shown(name)


def checked_address(what: str, text: object) -> Address:
    """The address, if it is HOST:PORT, or a PORT of 127.0.0.1."""
    if not isinstance(text, str):
        raise ValueError(f"{what} {shown(text)}: HOST:PORT is expected")
    return decode_listen(text)


def checked_listeners(listeners: object) -> tuple[NamedAddress, ...]:
    """The listeners, if each is NAME://HOST:PORT."""
    if isinstance(listeners, str) or not isinstance(listeners, Sequence):
        raise ValueError(f'listeners {shown(listeners)}: a sequence is expected, such as ("PLAINTEXT://127.0.0.1:0",)')
    for one in listeners:
        if not isinstance(one, str):
            raise ValueError(f"listener {shown(one)}: NAME://HOST:PORT is expected")
    return tuple(decode_listener(one) for one in listeners)


def _checked_advertise(text: object) -> Address:
    if not isinstance(text, str):
        raise ValueError(f"advertise {shown(text)}: HOST or HOST:PORT is expected")
    return decode_advertised(text)


def _checked_path(what: str, path: object) -> Path:
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ValueError(f"{what} {shown(path)}: a path is expected")
    return Path(path)


def checked_log_file(path: Path) -> Path:
    """The path, if it is not "-", with which other programs mean stdout."""
    if path == Path("-"):
        raise ValueError("'-' would be stdout, which has the ready lines: a file is expected")
    return path


def checked_request_topic(name: object) -> str:
    """The name, if a topic can have it and Kafka has no use of its own for it."""
    from klamm.controller.metadata.topic import MAX_TOPIC_NAME_CHARACTERS, has_legal_characters
    from klamm.protocol.internal_topics import INTERNAL_TOPICS, METADATA_TOPIC

    is_legal = isinstance(name, str) and 0 < len(name) <= MAX_TOPIC_NAME_CHARACTERS and has_legal_characters(name)
    if not isinstance(name, str) or not is_legal or name in (".", ".."):
        raise ValueError(
            f"request topic {shown(name)}: the name of a topic is expected, of 1 to {MAX_TOPIC_NAME_CHARACTERS} "
            'letters, digits and "._-"'
        )
    if name in INTERNAL_TOPICS or name == METADATA_TOPIC:
        raise ValueError(f"request topic {shown(name)}: Kafka itself writes that topic")
    return name


def _checked_profile(profile: object) -> str:
    if profile not in PROFILES:
        raise ValueError(f"profile {shown(profile)}: {' or '.join(PROFILES)} is expected")
    return str(profile)


def _checked_clock(clock: object) -> str:
    if clock not in CLOCKS:
        raise ValueError(f"clock {shown(clock)}: {' or '.join(CLOCKS)} is expected")
    return str(clock)


def _checked_flag(what: str, flag: object) -> bool:
    if not isinstance(flag, bool):
        raise ValueError(f"{what} {shown(flag)}: True or False is expected")
    return flag


def _checked_id(text: object) -> str:
    if not isinstance(text, str):
        raise ValueError(f"cluster id {shown(text)}: a string is expected")
    return checked_cluster_id(text)


def _number(what: str, lowest: int, highest: int) -> Callable[[object], int]:
    return lambda number: checked_number(what, number, lowest, highest)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "brokers": _number("brokers", 0, MAX_BROKERS),
    "broker_ids": checked_broker_ids,
    "racks": checked_racks,
    "seed": _number("seed", 0, MAX_SEED),
    "profile": _checked_profile,
    "configs": checked_configs,
    "broker_configs": checked_broker_configs,
    "config": lambda path: _checked_path("config", path),
    "listen": lambda text: checked_address("listen", text),
    "listeners": checked_listeners,
    "advertise": _checked_advertise,
    "controller_listener": lambda text: checked_address("controller_listener", text),
    "kafka_version": checked_kafka_version,
    "max_version": checked_max_version,
    "metadata_version": checked_metadata_version,
    "kip_578_versions": lambda flag: _checked_flag("kip_578_versions", flag),
    "client_telemetry": lambda flag: _checked_flag("client_telemetry", flag),
    "log_dirs": _number("log_dirs", 1, MAX_LOG_DIRS),
    "real_topics": checked_topic_pattern,
    "dynamic_quorum": lambda flag: _checked_flag("dynamic_quorum", flag),
    "replication_rate": _number("replication_rate", 1, MAX_REPLICATION_RATE),
    "data_memory_bytes": _number("data_memory_bytes", MIN_DATA_MEMORY_BYTES, MAX_DATA_BYTES),
    "data_file_bytes": _number("data_file_bytes", 0, MAX_DATA_BYTES),
    "cluster_id": _checked_id,
    "data_dir": lambda path: _checked_path("data_dir", path),
    "twin": lambda path: _checked_path("twin", path),
    "snapshot_records": _number("snapshot_records", 0, MAX_SNAPSHOT_RECORDS),
    "keep_history": lambda flag: _checked_flag("keep_history", flag),
    "request_log": lambda path: checked_log_file(_checked_path("request_log", path)),
    "request_topic": checked_request_topic,
    "start_ms": _number("start_ms", 0, MAX_START_MS),
    "faults": lambda path: _checked_path("faults", path),
    "clock": _checked_clock,
    "journal_bodies": lambda flag: _checked_flag("journal_bodies", flag),
    "security": checked_security,
    "users": checked_users,
    "add_scram": checked_add_scram,
}
_MAY_BE_NONE = frozenset(
    {
        "listen", "advertise", "controller_listener", "config", "configs", "broker_configs", "seed", "cluster_id",
        "data_dir", "twin", "request_log", "request_topic", "start_ms", "faults", "security", "log_dirs",
        "kafka_version", "max_version", "metadata_version",
    }
)  # fmt: skip
OPTION_NAMES = tuple(_CHECKS)
