"""What every API of share groups needs first: the feature `share.version`, and the share coordinator's topic."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from klamm.broker.coordinator.internal_topics import plan_internal_topic
from klamm.controller.context import RequestContext
from klamm.controller.effects import SoftState
from klamm.controller.log_records import Record
from klamm.controller.metadata.image import MetadataImage
from klamm.protocol.internal_topics import SHARE_GROUP_STATE

SHARE_VERSION = "share.version"


def share_groups_are_enabled(image: MetadataImage) -> bool:
    """Whether the finalized `share.version` has share groups. Without it their APIs answer UNSUPPORTED_VERSION."""
    return image.features.get(SHARE_VERSION, 0) > 0


def records_of_state_topic(image: MetadataImage, context: RequestContext) -> Sequence[Record]:
    """The records that make `__share_group_state`; none if it is there, or the brokers do not suffice. In Kafka a
    broker that looks for the coordinator of a share partition makes it."""
    if SHARE_GROUP_STATE in image.topics_by_name:
        return ()
    return plan_internal_topic(image, context, SHARE_GROUP_STATE)


@dataclass(frozen=True, slots=True)
class Begin:
    """An effect: begins what several coordinators decide one after the other."""

    begin: Callable[[MetadataImage, int], None]
    """Called with the image and the time in ms."""

    def apply(self, soft: SoftState, now_ms: int) -> None:
        self.begin(soft.image, now_ms)
