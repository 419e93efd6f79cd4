"""What streams groups see of the cluster: the configs in force, and topics as they were before a request."""

from collections.abc import Collection, Iterable
from functools import lru_cache

from klamm.broker.groups.consumer.topics import Topic, Topics
from klamm.broker.groups.streams.outcome import StreamsSettings
from klamm.controller.configs.effective import BrokerConfigs, ResourceType, broker_configs, group_values
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.settings import Settings
from klamm.protocol.uuid import Uuid


class StreamsSettingsInForce:
    """The configs of the streams groups that one broker coordinates."""

    def __init__(self, settings: Settings, broker_id: int) -> None:
        self._settings = settings
        self._broker_id = broker_id
        self._max_size = settings.static_int("group.streams.max.size", broker_id)

    def of(self, image: MetadataImage, group_id: str) -> StreamsSettings:
        """Those of one group: its own, or the broker's."""
        own = image.config(ResourceType.GROUP, group_id)
        configs = broker_configs(image.configs, self._settings, self._broker_id)
        return _settings(configs, tuple(own.items()), self._max_size)


@lru_cache(maxsize=256)
def _settings(configs: BrokerConfigs, own: tuple[tuple[str, str], ...], max_size: int) -> StreamsSettings:
    values = group_values(configs, dict(own))

    def number(name: str) -> int:
        return int(values[f"streams.{name}"] or 0)

    return StreamsSettings(
        session_timeout_ms=number("session.timeout.ms"),
        heartbeat_interval_ms=number("heartbeat.interval.ms"),
        assignment_interval_ms=number("assignment.interval.ms"),
        initial_rebalance_delay_ms=number("initial.rebalance.delay.ms"),
        standby_replicas=number("num.standby.replicas"),
        max_size=max_size,
    )


class TopicsWithout:
    """`Topics` without some of them: those that the request at hand creates, which its answer calls missing."""

    def __init__(self, topics: Topics, hidden: Collection[str]) -> None:
        self._topics = topics
        self._hidden = hidden
        self.version = topics.version
        self.version_of_newest_topic = topics.version_of_newest_topic

    def named(self, name: str) -> Topic | None:
        return None if name in self._hidden else self._topics.named(name)

    def with_id(self, topic_id: Uuid) -> Topic | None:
        found = self._topics.with_id(topic_id)
        return None if found is not None and found.name in self._hidden else found

    def names(self) -> Iterable[str]:
        return [name for name in self._topics.names() if name not in self._hidden]

    def fingerprint(self, topic: Topic) -> bytes:
        return self._topics.fingerprint(topic)
