"""The limits of KIP-578 as they hold for one request: which values, and what earlier items of it took.

The value of the broker that was asked counts, the cluster-wide one on the controller's listener. Limits are soft:
what is there stays, and only what is added can break them. Automatic placement finds what fits (`placement`); manual
assignments and the targets of reassignments are checked here.
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
    """`max.broker.partitions` and `max.partitions` in force."""

    max_broker_partitions: int = NO_LIMIT
    max_partitions: int = NO_LIMIT

    @property
    def limit_nothing(self) -> bool:
        return self.max_broker_partitions == self.max_partitions == NO_LIMIT

    def __str__(self) -> str:
        return f"max.broker.partitions={self.max_broker_partitions}, max.partitions={self.max_partitions}"


UNLIMITED = Limits()


def limits_for(image: MetadataImage, context: RequestContext, topic_name: str) -> Limits:
    """The limits for new replicas of a topic; none for the two internal topics that KIP-578 names."""
    return UNLIMITED if topic_name in UNLIMITED_TOPICS else limits_in_force(image, context)


def limits_in_force(image: MetadataImage, context: RequestContext) -> Limits:
    """The limits for new replicas of all other topics."""
    asked = (image.configs, context.settings, context.requester.asked_broker_id)
    return Limits(max_broker_partitions(*asked), max_partitions(*asked))


def replicas_held(image: MetadataImage, context: RequestContext, broker_id: int) -> int:
    """The replicas on a broker that count, those that earlier items of the request took included."""
    return image.usage.replicas.get(broker_id, 0) + context.ledger.replicas.get(broker_id, 0)


def partitions_held(image: MetadataImage, context: RequestContext) -> int:
    """The partitions in the cluster that count, those that earlier items of the request took included."""
    return image.usage.partitions + context.ledger.partitions


def validate_limits(
    image: MetadataImage, context: RequestContext, topic_name: str, replicas: Ints, new_partitions: int
) -> ApiError | None:
    """POLICY_VIOLATION if `replicas`, int32[n, k] of brokers that gain one each, or so many new partitions, break a
    limit. Both configs are named with their values, and what would have exceeded them."""
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
    """POLICY_VIOLATION if the limits do not let a partition have replicas on these brokers, too. What a reassignment
    removes is there until it is complete, so only what it adds counts; and `max.partitions` has no say in it."""
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
    """Remember what an item that was accepted takes, int32[partitions, replicas], for the items that follow."""
    if topic_name not in UNLIMITED_TOPICS:
        context.ledger.partitions += len(replicas)
    count_as_added(context, topic_name, replicas)


def count_as_added(context: RequestContext, topic_name: str, broker_ids: Ints) -> None:
    """Remember the brokers, of any shape, that an item that was accepted gives one more replica each."""
    if topic_name in UNLIMITED_TOPICS:
        return
    taken = context.ledger.replicas
    for broker_id, times in count_by_id(broker_ids):
        taken[broker_id] = taken.get(broker_id, 0) + times


def count_as_moved(context: RequestContext, topic_name: str, before: Sequence[int], after: Sequence[int]) -> None:
    """Remember what an item that was accepted adds to brokers and takes from them at once."""
    if topic_name in UNLIMITED_TOPICS or before == after:
        return
    taken = context.ledger.replicas
    for replicas, sign in ((before, -1), (after, 1)):
        for replica in replicas:
            taken[replica] = taken.get(replica, 0) + sign
