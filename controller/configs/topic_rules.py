"""Validates the configs of a topic with the checks of CreateTopics, in Kafka's order and with Kafka's messages.

Null values are checked first, then unknown names, then each value in the order in which Kafka defines the configs, and
then the rules between several configs, with the broker's values for configs that the topic does not set.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from klamm.controller.config_definitions.definition_order import TOPIC_ORDER
from klamm.controller.config_definitions.hash_order import in_hash_order
from klamm.controller.config_definitions.release_configs import NEWEST
from klamm.controller.config_definitions.table import topic_definitions
from klamm.controller.config_definitions.values import ConfigValue, invalid_config, typed_value, typed_values
from klamm.controller.configs.effective import BrokerConfigs, DynamicConfigs, broker_configs, inherited_value
from klamm.controller.settings import Settings
from klamm.protocol.errors import ApiError

_UNLIMITED: Final = -1
# In local.retention.*: the same value as retention.*.
_SAME_AS_RETENTION: Final = -2


def validate_topic_configs(
    configs: Mapping[str, str | None] | Iterable[tuple[str, str | None]],
    dynamic_configs: DynamicConfigs | None = None,
    settings: Settings | None = None,
    broker_id: int | None = None,
    release: str = NEWEST,
) -> ApiError | None:
    """INVALID_CONFIG with Kafka's message, or None. Pairs may name a config twice: the last one counts.

    `dynamic_configs`, `settings` and `broker_id` give the values that the topic inherits; without them, the table's
    defaults. `release`: the one whose configs there are.
    """
    pairs = list(configs.items() if isinstance(configs, Mapping) else configs)
    nulls = [name for name, value in pairs if value is None]
    if nulls:
        return invalid_config(f"Null value not supported for topic configs: {','.join(nulls)}")
    given = {name: value for name, value in pairs if value is not None}
    definitions = topic_definitions(release)
    if not given.keys() <= definitions.keys():
        unknown = next(name for name in in_hash_order(given) if name not in definitions)
        return invalid_config(f"Unknown topic config name: {unknown}")
    typed = typed_values(definitions, given, TOPIC_ORDER)
    if isinstance(typed, ApiError):
        return typed
    if not typed:
        return None
    return _validate_together(typed, broker_configs(dynamic_configs or {}, settings, broker_id))


def _validate_together(typed: Mapping[str, ConfigValue], configs: BrokerConfigs) -> ApiError | None:
    together = _Together(typed, configs)
    least, most = together.number("min.compaction.lag.ms"), together.number("max.compaction.lag.ms")
    if least > most:
        return invalid_config(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )
    return _validate_tiered(together, configs) if together.value("remote.storage.enable") is True else None


@lru_cache(maxsize=64)
def _inherited_values(configs: BrokerConfigs) -> Mapping[str, ConfigValue]:
    levels, values = configs.levels(), {}
    for name, definition in topic_definitions().items():
        text = inherited_value(levels, definition)[0] or ""
        value = typed_value(definition, text)
        values[name] = text if isinstance(value, ApiError) else value
    return values


class _Together:
    """The configs that a new topic would have, as typed values."""

    def __init__(self, typed: Mapping[str, ConfigValue], configs: BrokerConfigs) -> None:
        self._typed = typed
        self._inherited = _inherited_values(configs)

    def value(self, name: str) -> ConfigValue:
        if name in self._typed:
            return self._typed[name]
        return self._inherited[name]

    def number(self, name: str) -> int:
        value = self.value(name)
        return value if isinstance(value, int) else 0


def _validate_tiered(together: _Together, configs: BrokerConfigs) -> ApiError | None:
    enabled = dict(configs.static).get("remote.log.storage.system.enable", "false")
    if enabled.strip().lower() != "true":
        return invalid_config(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    if together.value("cleanup.policy") not in ((), ("delete",)):
        return invalid_config(
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
        )
    for unit in ("bytes", "ms"):
        refusal = _validate_local_retention(together, unit)
        if refusal:
            return refusal
    if together.value("remote.log.copy.disable") is True:
        for unit in ("bytes", "ms"):
            local, retention = together.number(f"local.retention.{unit}"), together.number(f"retention.{unit}")
            if local not in (_SAME_AS_RETENTION, retention):
                return invalid_config(
                    f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and "
                    f"`retention.{unit}` must be set to the identical value because there will be no more logs "
                    "copied to the remote storage."
                )
    return None


def _validate_local_retention(together: _Together, unit: str) -> ApiError | None:
    local, retention = together.number(f"local.retention.{unit}"), together.number(f"retention.{unit}")
    invalid = f"Invalid value {local} for configuration local.retention.{unit}: "
    if local == _SAME_AS_RETENTION or retention == _UNLIMITED:
        return None
    if local == _UNLIMITED:
        return invalid_config(f"{invalid}Value must not be -1 as retention.{unit} value is set as {retention}.")
    if local > retention:
        return invalid_config(f"{invalid}Value must not be more than retention.{unit} property value: {retention}")
    return None
