"""Broker loggers as a resource of the config APIs (KIP-412): a simulated broker has one, called root.

Its level can be described and set. As in Kafka it lasts until the process ends. It does not influence what Klamm itself
logs. No other logger exists. Texts: Apache Kafka 4.3.
"""

from collections.abc import Iterable
from typing import Final

from klamm.controller.configs import (
    ConfigEdit,
    ConfigEntry,
    ConfigOperation,
    ConfigSource,
    ConfigType,
    invalid_config,
    invalid_request,
)
from klamm.protocol.errors import ApiError

ROOT_LOGGER: Final = "root"
DEFAULT_LEVEL: Final = "INFO"
LEVELS: Final = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")


def validate_logger_edits(edits: Iterable[ConfigEdit]) -> ApiError | None:
    """An error if the loggers of a broker cannot be altered like this, else None."""
    for edit in edits:
        refusal = _validate(edit)
        if refusal:
            return refusal
    return None


def _validate(edit: ConfigEdit) -> ApiError | None:
    if edit.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        operation = ConfigOperation(edit.operation).name
        return invalid_request(f"{operation} operation is not allowed for the BROKER_LOGGER resource")
    if edit.operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        return invalid_request(f"Unknown operations type {edit.operation}")
    if edit.name != ROOT_LOGGER:
        return invalid_config(f"Logger {edit.name} does not exist!")
    if edit.operation == ConfigOperation.DELETE:
        return invalid_request("Removing the log level of the root logger is not allowed")
    if edit.value in LEVELS:
        return None
    if edit.value is None:
        return invalid_request(f"Null value not supported for : {edit.name}")
    return invalid_config(
        f"Cannot set the log level of {edit.name} to {edit.value} as it is not a supported log level. "
        f"Valid log levels are {', '.join(LEVELS)}"
    )


def root_level(edits: Iterable[ConfigEdit]) -> str | None:
    """The level that the edits set for the root logger; None if they do not name it."""
    return next((edit.value for edit in edits if edit.name == ROOT_LOGGER), None)


def logger_entry(level: str) -> ConfigEntry:
    """The root logger as DescribeConfigs shows it."""
    return ConfigEntry(
        name=ROOT_LOGGER,
        value=level,
        source=ConfigSource.DYNAMIC_BROKER_LOGGER,
        config_type=ConfigType.UNKNOWN,
        read_only=False,
        sensitive=False,
        synonyms=(),
    )
