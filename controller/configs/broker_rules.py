"""Validates dynamic configs of brokers: the checks of the broker that was asked, before it forwards to the controller.

In Kafka's order, with Kafka's messages: configs that need a restart, security configs without a listener, each value,
configs of one broker that are set for all, and rules between several configs (`broker_dependencies`). A bad value is
INVALID_REQUEST here but INVALID_CONFIG for topics, as in Kafka (KAFKA-13609). Unknown configs are accepted.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Final

from klamm.controller.config_definitions.definition_order import BROKER_ORDER
from klamm.controller.config_definitions.hash_order import in_hash_order
from klamm.controller.config_definitions.release_configs import NEWEST
from klamm.controller.config_definitions.table import (
    ConfigDefinition,
    ConfigType,
    broker_definitions,
    throttle_definitions,
    without_listener,
)
from klamm.controller.config_definitions.values import invalid_config, invalid_request, typed_value
from klamm.controller.configs.alteration import ConfigEdit, ConfigOperation
from klamm.controller.configs.broker_dependencies import BrokerValues, validate_dependencies
from klamm.controller.configs.effective import BrokerConfigs
from klamm.protocol.errors import ApiError

# These may be set per listener for all brokers; every other config of a listener belongs to one broker.
_CLUSTER_WIDE_PER_LISTENER: Final = frozenset(
    {"max.connection.creation.rate", "max.connections", "num.network.threads"}
)
_ONLY_PER_LISTENER: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
# No class is loaded here: only the classes that Kafka itself contains count as existing.
_KNOWN_CLASSES: Final = {
    "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "ssl.engine.factory.class": "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",
}


def validate_broker_edits(edits: Iterable[ConfigEdit], release: str = NEWEST) -> ApiError | None:
    """The error of checks that come before the values: unknown operations, list operations on configs that are no
    lists."""
    edits = list(edits)
    unknown = next((edit for edit in edits if edit.operation not in _OPERATIONS), None)
    if unknown:
        return invalid_request(f"Unknown operations type {unknown.operation}")
    for edit in edits:
        if edit.operation not in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            continue
        definition = broker_definitions(release).get(edit.name)
        if definition is None:
            return invalid_config(f"Unknown config name: {edit.name}")
        if definition.type is not ConfigType.LIST:
            operation = ConfigOperation(edit.operation).name.lower()
            return invalid_config(f"Config value {operation} is not allowed for config key: {edit.name}")
    return None


_OPERATIONS: Final = frozenset(map(int, ConfigOperation))


def validate_broker_configs(
    configs: Mapping[str, str], present: BrokerConfigs, *, for_one_broker: bool
) -> ApiError | None:
    """INVALID_REQUEST, or None if a broker takes `configs` in place of all dynamic ones of its own, or of the
    cluster-wide default.

    Args:
        configs: what is to be set, all of it.
        present: what is set for the broker asked, who it is and where it listens included, and the release as which it
            acts.
        for_one_broker: whether they are for the broker asked alone.
    """
    release = present.release
    return (
        _refuse(configs, lambda name: _is_read_only(name, release), "Cannot update these configs dynamically")
        or _refuse(
            configs,
            _ONLY_PER_LISTENER.__contains__,
            "These security configs can be dynamically updated only per-listener using the listener prefix",
        )
        or _validate_values(configs, release)
        or (None if for_one_broker else _refuse_for_all(configs, release))
        or _validate_together(configs, present, for_one_broker=for_one_broker)
    )


def usable_broker_configs(configs: Mapping[str, str], release: str = NEWEST, *, for_one_broker: bool) -> dict[str, str]:
    """The logged configs that a broker uses. The others came from the controller's listener, which accepts any
    config."""
    return {
        name: text
        for name, text in configs.items()
        if not (_is_read_only(name, release) or name in _ONLY_PER_LISTENER or _is_bad(name, text, release))
        and (for_one_broker or not _is_per_broker(name, release))
    }


def _is_bad(name: str, text: str, release: str) -> bool:
    definition = _judged_as(without_listener(name), release)
    return definition is not None and not definition.read_only and _fault(definition, text) is not None


def validate_own_configs(changes: Mapping[str, str | None]) -> ApiError | None:
    """The same for the configs that only Klamm has, on the controller's listener: the controller knows these
    configs."""
    for name in _own_names():
        text = changes.get(name)
        refusal = None if text is None else typed_value(broker_definitions()[name], text)
        if isinstance(refusal, ApiError):
            return invalid_request(refusal.message or name)
    return None


def _refuse(configs: Mapping[str, str], is_refused: Callable[[str], bool], why: str) -> ApiError | None:
    refused = [name for name in in_hash_order(configs) if is_refused(name)]
    return invalid_request(f"{why}: [{', '.join(refused)}]") if refused else None


def _refuse_for_all(configs: Mapping[str, str], release: str) -> ApiError | None:
    return _refuse(
        configs,
        lambda name: _is_per_broker(name, release),
        "Cannot update these configs at default cluster level, broker id must be specified",
    )


def _is_read_only(name: str, release: str) -> bool:
    definition = broker_definitions(release).get(name)
    return definition is not None and definition.read_only


def _is_per_broker(name: str, release: str) -> bool:
    definition = broker_definitions(release).get(name)
    if definition is not None:
        return definition.update_mode == "per-broker"
    base = without_listener(name)
    return base != name and base not in _CLUSTER_WIDE_PER_LISTENER


def _validate_values(configs: Mapping[str, str], release: str) -> ApiError | None:
    texts = {without_listener(name): text for name, text in configs.items()}
    for name in _dynamic_names(release):
        if name in texts:
            definition = _judged_as(name, release)
            fault = definition and _fault(definition, texts[name])
            if fault:
                return invalid_request(fault)
    return None


def _judged_as(name: str, release: str) -> ConfigDefinition | None:
    return broker_definitions(release).get(name) or throttle_definitions().get(name)


def _fault(definition: ConfigDefinition, text: str) -> str | None:
    value = typed_value(definition, text)
    if isinstance(value, ApiError):
        return value.message or definition.name
    known = _KNOWN_CLASSES.get(definition.name)
    if known is None or value == known:
        return None
    return f"Invalid value {text} for configuration {definition.name}: Class {text} could not be found."


@cache
def _dynamic_names(release: str) -> tuple[str, ...]:
    """The configs whose values are validated, in order: those that only former releases have follow Kafka 4.3's."""
    former = broker_definitions(release).keys() - broker_definitions().keys()
    return (*BROKER_ORDER, *sorted(former), *throttle_definitions(), *_own_names())


@cache
def _own_names() -> tuple[str, ...]:
    return tuple(name for name, definition in broker_definitions().items() if definition.is_own)


def _validate_together(configs: Mapping[str, str], present: BrokerConfigs, *, for_one_broker: bool) -> ApiError | None:
    of_broker, of_all, static = dict(present.dynamic_broker), dict(present.dynamic_default), dict(present.static)
    # To a former release, names of newer configs are unknown names.
    unknown = broker_definitions().keys() - broker_definitions(present.release).keys()
    configs = {name: text for name, text in configs.items() if name not in unknown}
    now = BrokerValues({**static, **of_all, **of_broker})
    then = BrokerValues({**static, **of_all, **configs} if for_one_broker else {**static, **configs, **of_broker})
    fault = validate_dependencies(now, then)
    return invalid_request(fault) if fault else None
