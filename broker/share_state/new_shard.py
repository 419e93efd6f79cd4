"""Makes the empty state machine of one partition of `__share_group_state`, with what it sees of the cluster."""

from collections.abc import Callable

from klamm.broker.groups.consumer.in_cluster import ImageTopics
from klamm.broker.share_state.states import ShareStates
from klamm.broker.topic_changes import TopicChanges
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.settings import Settings


def new_share_states(
    image: Callable[[], MetadataImage], changes: TopicChanges, settings: Settings, broker_id: int
) -> ShareStates:
    """The share partitions of one shard on the broker of this id. `image` returns the present metadata."""
    updates = settings.static_int("share.coordinator.snapshot.update.records.per.snapshot", broker_id)
    return ShareStates(lambda: ImageTopics(image(), changes), updates)
