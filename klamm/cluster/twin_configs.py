"""The static configs of a twin: those that the brokers of the original have in their files, as `klamm clone` writes
them beside the log. They are the weakest static configs: a config that the user gives replaces them on all brokers.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from klamm.console.strict_json import InvalidJson, decode_object, refuse
from klamm.controller.config_definitions.table import one_meaning
from klamm.controller.settings import Settings, SettingsError
from klamm.protocol.bounded_file import UnreadableFile, read_bounded

STATIC_CONFIGS_FILE: Final = "static-configs.json"
MAX_FILE_BYTES: Final = 64 << 20
_MAX_BROKER_DIGITS: Final = 10
_MEMBERS: Final = ("all_brokers", "brokers")


@dataclass(frozen=True, slots=True)
class StaticConfigs:
    """Static configs by name."""

    shared: Mapping[str, str] = field(default_factory=dict)
    """Those of all brokers."""
    own: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Those of single brokers, by id."""

    def as_text(self) -> str:
        """The content of the file."""
        brokers = {str(broker_id): dict(sorted(self.own[broker_id].items())) for broker_id in sorted(self.own)}
        return json.dumps(dict(zip(_MEMBERS, (dict(sorted(self.shared.items())), brokers), strict=True)), indent=2)


def with_configs_of_twin(twin: Path | None, settings: Settings) -> Settings:
    """The settings with the static configs beside the twin's metadata, if there are any. Raises SettingsError."""
    path = None if twin is None else _path(twin)
    if path is None:
        return settings
    found = read_static_configs(path)
    given = set(_of_one_meaning(settings.static_configs))
    own = {broker_id: _without(given, configs) for broker_id, configs in found.own.items()}
    for broker_id, configs in settings.broker_static_configs.items():
        own[broker_id] = {**_without(set(_of_one_meaning(configs)), own.get(broker_id, {})), **configs}
    try:
        return replace(
            settings,
            static_configs={**_without(given, found.shared), **settings.static_configs},
            broker_static_configs={broker_id: configs for broker_id, configs in own.items() if configs},
        )
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None


def read_static_configs(path: Path) -> StaticConfigs:
    """The content of the file. Raises SettingsError."""
    try:
        decoded = decode_object(read_bounded(path, MAX_FILE_BYTES), "the file")
        for name in decoded.keys() - set(_MEMBERS):
            raise InvalidJson(f"{name[:40]!r} is none of its members, which are {', '.join(_MEMBERS)}")
        shared, brokers = (decoded.get(name, {}) for name in _MEMBERS)
        own = {_broker_id(key): _configs(f"broker {key}", value) for key, value in _object("brokers", brokers).items()}
        return StaticConfigs(_configs("all_brokers", shared), own)
    except (UnreadableFile, InvalidJson) as error:
        raise SettingsError(f"{path}: {error}") from None


def _path(twin: Path) -> Path | None:
    """The file in the data directory, if the twin is one and has it."""
    path = twin / STATIC_CONFIGS_FILE
    return path if path.is_file() else None


def _of_one_meaning(names: Iterable[str]) -> Iterable[str]:
    """The names, and those of the same configs in other units."""
    for name in names:
        yield from one_meaning().get(name, (name,))


def _without(names: set[str], configs: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in configs.items() if name not in names}


def _object(what: str, found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        refuse(what, found, "a JSON object")
    return found


def _configs(what: str, found: Any) -> dict[str, str]:
    for name, value in _object(what, found).items():
        if not isinstance(value, str):
            refuse(f"{name[:40]!r} of {what}", value, "a string")
    return dict(found)


def _broker_id(key: str) -> int:
    if not (key.isascii() and key.isdecimal() and len(key) <= _MAX_BROKER_DIGITS):
        raise InvalidJson(f"{key[:40]!r} in brokers is no id of a broker")
    return int(key)
