"""Defaults of broker configs as which brokers of a former release of Apache Kafka behave, where they are not those of
4.3. Configs that the release does not have are among them if the release behaves as if they had another default.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from klamm.controller.config_definitions.release_configs import rows_of_release
from klamm.controller.config_definitions.table import broker_definitions


@cache
def release_defaults(release: str) -> Mapping[str, str]:
    """The defaults by config, as in server.properties; empty for the newest release."""
    newest = broker_definitions()
    of_release = {
        name: definition.default
        for name, definition in broker_definitions(release).items()
        if name in newest and definition.default is not None and definition.default != newest[name].default
    }
    absent = {row["name"]: row["default"] for row in rows_of_release(release) if not row["type"] and row["default"]}
    return MappingProxyType(of_release | absent)
