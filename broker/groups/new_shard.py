"""Makes the empty state machine of one partition of `__consumer_offsets`, with what it sees of the cluster."""

from collections.abc import Callable
from uuid import UUID

from klamm.broker.groups.consumer.hosted import Cluster
from klamm.broker.groups.consumer.in_cluster import ImageTopics, SettingsInForce
from klamm.broker.groups.groups_with_streams import GroupsWithStreams
from klamm.broker.groups.settings import group_settings
from klamm.broker.groups.share.hosted import ShareCluster
from klamm.broker.groups.share.in_cluster import ShareSettingsInForce
from klamm.broker.groups.streams.hosted import Cluster as StreamsCluster
from klamm.broker.groups.streams.in_cluster import StreamsSettingsInForce
from klamm.broker.topic_changes import TopicChanges
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.settings import Settings
from klamm.protocol.uuid import Uuid


def new_groups(
    image: Callable[[], MetadataImage],
    new_uuid: Callable[[], Uuid],
    changes: TopicChanges,
    settings: Settings,
    broker_id: int,
) -> GroupsWithStreams:
    """The groups of one shard on the broker of this id. `image` returns the present metadata, `new_uuid` an id for a
    member."""
    in_force = SettingsInForce(settings, broker_id)
    cluster = Cluster(
        topics=lambda: ImageTopics(image(), changes),
        settings_of=lambda group_id: in_force.of(image(), group_id),
        changes=changes,
        new_member_id=lambda: str(new_uuid()),
    )
    share_in_force = ShareSettingsInForce(settings, broker_id)
    share_cluster = ShareCluster(
        topics=cluster.topics,
        settings_of=lambda group_id: share_in_force.of(image(), group_id),
        changes=changes,
    )
    streams_in_force = StreamsSettingsInForce(settings, broker_id)
    streams_cluster = StreamsCluster(
        topics=cluster.topics,
        settings_of=lambda group_id: streams_in_force.of(image(), group_id),
        changes=changes,
    )
    of_groups = group_settings(settings, broker_id)
    return GroupsWithStreams(of_groups, lambda: _text_of(new_uuid()), cluster, share_cluster, streams_cluster)


def _text_of(uuid: Uuid) -> str:
    """A UUID as Java prints it, in groups of hexadecimal digits."""
    return str(UUID(bytes=bytes(uuid)))
