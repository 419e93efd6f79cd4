"""What consumer groups see of the cluster: its topics, and the configs in force."""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from klamm.broker.groups.assignors import ASSIGNORS
from klamm.broker.groups.consumer.outcome import GroupSettings, MigrationPolicy
from klamm.broker.groups.consumer.topics import Topic
from klamm.broker.topic_changes import TopicChanges
from klamm.controller.configs.effective import (
    BrokerConfigs,
    ResourceType,
    broker_configs,
    group_values,
)
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.image import Topic as ImageTopic
from klamm.controller.settings import Settings
from klamm.protocol.uuid import Uuid


class ImageTopics:
    """`Topics` of a metadata image. Versions are offsets in its log."""

    def __init__(self, image: MetadataImage, changes: TopicChanges) -> None:
        self._image = image
        self._changes = changes
        if changes.newest_topic_version is None:
            # Expressions that an earlier process resolved are resolved anew.
            changes.newest_topic_version = image.next_offset
        self.version = image.next_offset
        self.version_of_newest_topic = changes.newest_topic_version

    def named(self, name: str) -> Topic | None:
        return self._seen(self._image.topics_by_name.get(name))

    def with_id(self, topic_id: Uuid) -> Topic | None:
        return self._seen(self._image.topics_by_id.get(topic_id))

    def names(self) -> Iterable[str]:
        return list(self._image.topics_by_name)

    def fingerprint(self, seen: Topic) -> bytes:
        found = self._changes.fingerprints.get(seen.topic_id)
        if found is None:
            topic, brokers = self._image.topics_by_id[seen.topic_id], self._image.brokers
            replicas = (self._image.partitions.read(topic.row, at).replicas for at in range(seen.partitions))
            racks = [sorted(brokers[one].rack or "" for one in row if one in brokers) for row in replicas]
            found = repr((bytes(seen.topic_id), seen.name, racks)).encode()
            self._changes.fingerprints[seen.topic_id] = found
        return found

    def _seen(self, topic: ImageTopic | None) -> Topic | None:
        return None if topic is None else Topic(topic.topic_id, topic.name, self._image.partition_count(topic))


class SettingsInForce:
    """The configs of the groups that one broker coordinates. What requests cannot change is read once."""

    def __init__(self, settings: Settings, broker_id: int) -> None:
        policy = settings.static_text("group.consumer.migration.policy", broker_id)
        self._settings = settings
        self._broker_id = broker_id
        self._of_broker = GroupSettings(
            assignors=assignors_of(settings, broker_id),
            max_size=settings.static_int("group.consumer.max.size", broker_id),
            classic_max_size=settings.static_int("group.max.size", broker_id),
            migration_policy=MigrationPolicy(policy.lower()),
        )

    def of(self, image: MetadataImage, group_id: str) -> GroupSettings:
        """Those of one group: its own, or the broker's."""
        own = image.config(ResourceType.GROUP, group_id)
        configs = broker_configs(image.configs, self._settings, self._broker_id)
        session_ms, heartbeat_ms, assignment_ms = _times_ms(configs, tuple(own.items()))
        return replace(
            self._of_broker,
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=heartbeat_ms,
            assignment_interval_ms=assignment_ms,
        )


@lru_cache(maxsize=256)
def _times_ms(configs: BrokerConfigs, own: tuple[tuple[str, str], ...]) -> tuple[int, int, int]:
    """Session timeout, heartbeat interval and assignment interval."""
    values = group_values(configs, dict(own))
    session, heartbeat, assignment = (
        int(values[f"consumer.{name}.ms"] or 0)
        for name in ("session.timeout", "heartbeat.interval", "assignment.interval")
    )
    return session, heartbeat, assignment


def assignors_of(settings: Settings, broker_id: int | None) -> tuple[str, ...]:
    """`group.consumer.assignors` in its order. Assignors that are classes of a user's own cannot be run here."""
    text = settings.static_configs_of(broker_id).get("group.consumer.assignors", "")
    return tuple(name for part in text.split(",") if (name := part.strip()) in ASSIGNORS) or tuple(ASSIGNORS)
