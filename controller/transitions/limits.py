"""The limits of KIP-578 within one request: the values that apply, and what earlier items of the request have taken.

The configs of the broker that was asked apply; on the controller's listener, the cluster-wide ones. The limits concern
only what is added: replicas and partitions that exist stay, even if a limit is lower. Automatic placement observes the
limits itself (`placement`); this module checks manual assignments and the targets of reassignments.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from klamm.assignment import NO_LIMIT
from klamm.assignment.wording import counted
from klamm.controller.configs import max_broker_partitions, max_partitions
from klamm.controller.context import RequestContext
from klamm.controller.metadata.columns import Ints
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.usage import UNLIMITED_TOPICS, count_by_id
from klamm.protocol.errors import ApiError, ErrorCode


class Limits(NamedTuple):
    """The values of `max.broker.partitions` and `max.partitions` that apply to the request."""

    max_broker_partitions: int = NO_LIMIT
    max_partitions: int = NO_LIMIT

    @property
    def limit_nothing(self) -> bool:
        return self.max_broker_partitions == self.max_partitions == NO_LIMIT

    def __str__(self) -> str:
        return f"max.broker.partitions={self.max_broker_partitions}, max.partitions={self.max_partitions}"


UNLIMITED = Limits()


def limits_for(image: MetadataImage, context: RequestContext, topic_name: str) -> Limits:
    """The limits for new replicas of a topic; unlimited for the two internal topics that KIP-578 names."""
    return UNLIMITED if topic_name in UNLIMITED_TOPICS else limits_in_force(image, context)


def limits_in_force(image: MetadataImage, context: RequestContext) -> Limits:
    """The limits for new replicas of every other topic."""
    asked = (image.configs, context.settings, context.requester.asked_broker_id)
    return Limits(max_broker_partitions(*asked), max_partitions(*asked))


def replicas_held(image: MetadataImage, context: RequestContext, broker_id: int) -> int:
    """The replicas on a broker that count towards the limit, including those of earlier items of the request."""
    return image.usage.replicas.get(broker_id, 0) + context.ledger.replicas.get(broker_id, 0)


def partitions_held(image: MetadataImage, context: RequestContext) -> int:
    """The partitions of the cluster that count towards the limit, including those of earlier items of the request."""
    return image.usage.partitions + context.ledger.partitions


def validate_limits(
    image: MetadataImage, context: RequestContext, topic_name: str, replicas: Ints, new_partitions: int
) -> ApiError | None:
    """POLICY_VIOLATION if a limit does not allow `replicas`, int32[n, k] broker ids that gain one replica each, or does
    not allow `new_partitions` more partitions. The text names both configs, their values and what would exceed them."""
    limits = limits_for(image, context, topic_name)
    if limits.limit_nothing:
        return None
    partitions = partitions_held(image, context)
    if new_partitions and partitions + new_partitions > limits.max_partitions:
        return ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"{counted(new_partitions, 'new partition')} beside the {partitions} in the cluster would exceed the "
            f"limits ({limits}).",
        )
    return _validate_brokers(image, context, limits, count_by_id(replicas))


def validate_added_replicas(
    image: MetadataImage, context: RequestContext, limits: Limits, broker_ids: Iterable[int]
) -> ApiError | None:
    """POLICY_VIOLATION if the limits do not allow a partition additional replicas on these brokers. The replicas that a
    reassignment removes exist until it is complete, so only those that it adds count. `max.partitions` does not
    apply."""
    return _validate_brokers(image, context, limits, ((broker_id, 1) for broker_id in broker_ids))


def _validate_brokers(
    image: MetadataImage, context: RequestContext, limits: Limits, added: Iterable[tuple[int, int]]
) -> ApiError | None:
    if limits.max_broker_partitions == NO_LIMIT:
        return None
    for broker_id, more in sorted(added):
        held = replicas_held(image, context, broker_id)
        if held + more > limits.max_broker_partitions:
            return ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"{counted(more, 'new replica')} beside the {held} on broker {broker_id} would exceed the limits "
                f"({limits}).",
            )
    return None


def count_as_taken(context: RequestContext, topic_name: str, replicas: Ints) -> None:
    """Record what an accepted item takes, int32[partitions, replicas], for the items that follow in the request."""
    if topic_name not in UNLIMITED_TOPICS:
        context.ledger.partitions += len(replicas)
    count_as_added(context, topic_name, replicas)


def count_as_added(context: RequestContext, topic_name: str, broker_ids: Ints) -> None:
    """Record that an accepted item gives each of these brokers, in an array of any shape, one more replica."""
    if topic_name in UNLIMITED_TOPICS:
        return
    taken = context.ledger.replicas
    for broker_id, times in count_by_id(broker_ids):
        taken[broker_id] = taken.get(broker_id, 0) + times


def count_as_moved(context: RequestContext, topic_name: str, before: Sequence[int], after: Sequence[int]) -> None:
    """Record which replicas an accepted item adds to and removes from brokers at once."""
    if topic_name in UNLIMITED_TOPICS or before == after:
        return
    taken = context.ledger.replicas
    for replicas, sign in ((before, -1), (after, 1)):
        for replica in replicas:
            taken[replica] = taken.get(replica, 0) + sign
