"""The configs in a CreateTopics response (KIP-525): all configs of the new topic, each with its source.

Unlike in DescribeConfigs, values are spelled as they were set. The list of a topic without configs of its own is built
and encoded once per state of the brokers' configs, and shared: its messages must not be changed.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from klamm.controller.config_definitions.table import created_topic_definitions
from klamm.controller.configs.effective import BrokerConfigs, ConfigSource, inherited_value
from klamm.protocol.columns import Columns
from klamm.protocol.fields import wire_fields
from klamm.protocol.messages.topics.create_topics import CreatableTopicConfigs


def topic_config_list(configs: BrokerConfigs, own: Mapping[str, str]) -> Sequence[CreatableTopicConfigs]:
    """The configs of a new topic that sets `own`, in alphabetical order. The result is shared: do not change it."""
    if not own:
        return _inherited_columns(configs)
    return [
        _config(config.name, own[config.name], ConfigSource.TOPIC, sensitive=config.is_sensitive)
        if config.name in own
        else config
        for config in _inherited_list(configs)
    ]


@lru_cache(maxsize=64)
def _inherited_columns(configs: BrokerConfigs) -> Sequence[CreatableTopicConfigs]:
    listed = _inherited_list(configs)
    columns = {
        wire.name: np.array([getattr(config, wire.name) for config in listed], dtype=np.object_)
        for wire in wire_fields(CreatableTopicConfigs)
    }
    # A slice, because the encoded bytes are cached with the run that a slice belongs to.
    return Columns(CreatableTopicConfigs, len(listed), columns)[:]


@lru_cache(maxsize=64)
def _inherited_list(configs: BrokerConfigs) -> tuple[CreatableTopicConfigs, ...]:
    levels = configs.set_levels()
    return tuple(
        _config(name, *inherited_value(levels, definition), sensitive=definition.sensitive)
        for name, definition in created_topic_definitions(configs.release).items()
    )


def _config(name: str, value: str | None, source: ConfigSource, *, sensitive: bool) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(
        name=name,
        value=None if sensitive else value,
        read_only=False,
        config_source=source,
        is_sensitive=sensitive,
    )
