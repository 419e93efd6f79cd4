"""The internal topics of coordinators: their sizes and configs, as Kafka's brokers make them on demand."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from klamm.controller.context import RequestContext
from klamm.controller.handlers.topics.create_topics import TopicPlanner
from klamm.controller.log_records import Record
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.quotas.mutations import UNLIMITED
from klamm.controller.settings import Settings
from klamm.controller.transitions.broker_kinds import fitting
from klamm.protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from klamm.protocol.messages.topics.create_topics import CreatableTopic, CreatableTopicConfig

CREATION_VERSION: Final = 7


class _Topic(NamedTuple):
    """The broker configs that an internal topic is made with, and its own configs."""

    partitions: str
    replication_factor: str
    segment_bytes: str
    min_isr: str | None
    configs: tuple[tuple[str, str], ...]


_TOPICS: Final = {
    CONSUMER_OFFSETS: _Topic(
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
        None,
        (("cleanup.policy", "compact"), ("compression.type", "producer")),
    ),
    TRANSACTION_STATE: _Topic(
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
        "transaction.state.log.min.isr",
        (
            ("unclean.leader.election.enable", "false"),
            ("compression.type", "uncompressed"),
            ("cleanup.policy", "compact"),
        ),
    ),
    SHARE_GROUP_STATE: _Topic(
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.segment.bytes",
        "share.coordinator.state.topic.min.isr",
        (("cleanup.policy", "delete"), ("retention.ms", "-1"), ("compression.type", "producer")),
    ),
}


def plan_internal_topic(image: MetadataImage, context: RequestContext, topic_name: str) -> Sequence[Record]:
    """The records that make an internal topic; none if the brokers do not suffice for it."""
    topic, settings = _TOPICS[topic_name], context.settings
    live = sum(broker.live for broker in fitting(image, settings, topic_name))
    broker_id = context.requester.asked_broker_id
    replication_factor = _allowed(settings, topic.replication_factor, live, broker_id)
    configs = [*topic.configs, ("segment.bytes", str(settings.static_int(topic.segment_bytes, broker_id)))]
    if topic.min_isr is not None:
        configs.append(("min.insync.replicas", str(_allowed(settings, topic.min_isr, replication_factor, broker_id))))
    # The broker makes it, not the client.
    planner = TopicPlanner(image, replace(context, api_version=CREATION_VERSION, mutations=UNLIMITED))
    _, records = planner.plan(
        CreatableTopic(
            name=topic_name,
            num_partitions=settings.static_int(topic.partitions, broker_id),
            replication_factor=replication_factor,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs],
        )
    )
    return records


def _allowed(settings: Settings, name: str, most: int, broker_id: int | None) -> int:
    """The value of a config; if it was not set, at most `most`, so that clusters of one or two brokers work."""
    value = settings.static_int(name, broker_id)
    return value if name in settings.static_configs_of(broker_id) else max(1, min(value, most))
