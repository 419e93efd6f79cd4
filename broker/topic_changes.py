"""What group coordinators have to compare anew, because topics changed."""

from klamm.controller.metadata.delta import Delta
from klamm.protocol.uuid import Uuid


class TopicChanges:
    """Counts what happens to topics, as a subscriber to the metadata log."""

    def __init__(self) -> None:
        self.count = 0
        """Grows with each batch that makes, removes or enlarges topics, or moves replicas."""
        self.newest_topic_version: int | None = None
        """The offset of the metadata log after the last new topic. None: no metadata were seen yet."""
        self.fingerprints: dict[Uuid, bytes] = {}
        """Of the topics that were asked for since the last change."""

    def follow(self, delta: Delta) -> None:
        if delta.new_topics or delta.removed_topics or len(delta.new_partitions) or delta.has_new_replicas:
            self.count += 1
            self.fingerprints.clear()
        if delta.new_topics:
            self.newest_topic_version = delta.end_offset
