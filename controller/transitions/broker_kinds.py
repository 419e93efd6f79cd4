"""Real and simulated brokers in one cluster: the replicas of a partition are on brokers of one kind (decision 22).

A simulated leader has no log that a real follower could fetch, and a simulated follower fetches from no other process.
New topics whose names fit `real_topics`, and internal topics, are on real brokers, all others on simulated ones. The
partitions of a topic that exists stay on brokers of the kind that it began with. With brokers of one kind alone, all of
this has no effect.
"""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Final

from klamm.controller.metadata.broker import BrokerState
from klamm.controller.metadata.image import INTERNAL_TOPICS, MetadataImage
from klamm.controller.settings import Settings
from klamm.protocol.errors import ApiError, ErrorCode

_NAMES: Final = {False: "simulated", True: "real"}


def is_mixed(image: MetadataImage) -> bool:
    """Whether brokers of both kinds are registered."""
    return 0 < len(image.brokers.real) < len(image.brokers)


def wants_real(image: MetadataImage, settings: Settings, topic_name: str) -> bool:
    """Whether new partitions of the topic belong on real brokers, in a cluster that has both kinds."""
    topic = image.topics_by_name.get(topic_name)
    if topic is not None and image.partition_count(topic):
        first = image.partitions.read(topic.row, 0).replicas
        known = [replica in image.brokers.real for replica in first if replica in image.brokers]
        if known:
            return known[0]
    return topic_name in INTERNAL_TOPICS or fnmatchcase(topic_name, settings.real_topics)


def fitting(image: MetadataImage, settings: Settings, topic_name: str) -> Collection[BrokerState]:
    """The registered brokers that may have replicas of the topic."""
    if not is_mixed(image):
        return image.brokers.values()
    real = wants_real(image, settings, topic_name)
    return [broker for broker in image.brokers.values() if (broker.broker_id in image.brokers.real) is real]


def kind_of_brokers(image: MetadataImage, settings: Settings, topic_name: str) -> str:
    """The word for a text about too few brokers, with a blank behind it; empty if there is one kind alone."""
    return f"{_NAMES[wants_real(image, settings, topic_name)]} " if is_mixed(image) else ""


def refuse_other_kind(
    image: MetadataImage, settings: Settings, topic_name: str, broker_ids: Iterable[int]
) -> ApiError | None:
    """INVALID_REPLICA_ASSIGNMENT if a manual assignment of new partitions names a broker of the other kind."""
    return _refuse(image, topic_name, broker_ids, wants_real(image, settings, topic_name)) if is_mixed(image) else None


def refuse_move_to_other_kind(
    image: MetadataImage, topic_name: str, present: Iterable[int], wanted: Iterable[int]
) -> ApiError | None:
    """INVALID_REPLICA_ASSIGNMENT if a partition would move to brokers of the other kind: nothing could copy its
    records."""
    kinds = {replica in image.brokers.real for replica in present if replica in image.brokers}
    return _refuse(image, topic_name, wanted, kinds.pop()) if is_mixed(image) and kinds else None


def _refuse(image: MetadataImage, topic_name: str, broker_ids: Iterable[int], real: bool) -> ApiError | None:
    for broker_id in broker_ids:
        if (broker_id in image.brokers.real) is not real:
            return ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The replicas of topic {topic_name} are on {_NAMES[real]} brokers, and broker {broker_id} is a "
                f"{_NAMES[not real]} one.",
            )
    return None
