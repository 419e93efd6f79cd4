"""The configs in a CreateTopics answer (KIP-525): all that the new topic has, each with its source.

Unlike DescribeConfigs, values stand in the spelling in which they were set. The list of a topic that sets nothing is
built once per state of the brokers' configs and shared: its messages must not be changed.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from controller.configs.effective import (
    BrokerConfigs,
    ConfigSource,
    DynamicConfigs,
    broker_configs,
    inherited_value,
)
from controller.configs.table import topic_definitions
from protocol.messages.topics.create_topics import CreatableTopicConfigs

if TYPE_CHECKING:
    from controller.settings import Settings


def topic_config_list(
    configs: Mapping[str, str],
    dynamic_configs: DynamicConfigs,
    settings: "Settings",
    broker_id: int | None = None,
) -> Sequence[CreatableTopicConfigs]:
    """What the answer tells of a new topic that sets `configs`, in alphabetical order. Not to be changed."""
    inherited = _inherited_list(broker_configs(dynamic_configs, settings, broker_id))
    if not configs:
        return inherited
    return [
        _config(config.name, configs[config.name], ConfigSource.TOPIC, sensitive=config.is_sensitive)
        if config.name in configs
        else config
        for config in inherited
    ]


@lru_cache(maxsize=64)
def _inherited_list(configs: BrokerConfigs) -> tuple[CreatableTopicConfigs, ...]:
    levels = configs.levels()
    return tuple(
        _config(name, *inherited_value(levels, definition), sensitive=definition.sensitive)
        for name, definition in topic_definitions().items()
    )


def _config(name: str, value: str | None, source: ConfigSource, *, sensitive: bool) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(
        name=name,
        value=None if sensitive else value,
        read_only=False,
        config_source=source,
        is_sensitive=sensitive,
    )
