"""Where replicas go when a topic gets another replication factor, more partitions, or both (KIP-179, KIP-578).

Existing partitions keep their replicas and gain some on live brokers, or lose those that are needed least
(`klamm.assignment.resize`). Automatic placement places new partitions, but never on fenced brokers or with
placeholders. The replication factor is checked first (INVALID_REPLICATION_FACTOR), then limits (POLICY_VIOLATION).
"""

from collections.abc import Collection
from typing import Final, NamedTuple

import numpy as np

from klamm.assignment import CannotPlace, CannotPlaceReason, ClusterView, grow, shrink
from klamm.assignment.wording import counted
from klamm.controller.context import RequestContext
from klamm.controller.metadata.broker import BrokerState
from klamm.controller.metadata.columns import PADDING, Ints
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.metadata.usage import count_by_id
from klamm.controller.transitions.broker_kinds import fitting
from klamm.controller.transitions.change_runs import Mask, Rows
from klamm.controller.transitions.limits import limits_for, partitions_held, replicas_held
from klamm.controller.transitions.placement import Placer, PresentPartitions, Wanted
from klamm.protocol.errors import ApiError, ErrorCode

_NO_RACK: Final = "\0"
"""The rack of brokers without one in profile `kafka`: they are treated as one rack."""


class TopicRows(NamedTuple):
    """The partitions of a topic in their order, as columns."""

    replicas: Ints
    """int32[partitions, most replicas], padded with PADDING; placeholders are negative, too."""
    leader: Ints
    """int32[partitions], -1 without a leader."""

    @property
    def replica_counts(self) -> Rows:
        """int64[partitions], placeholders included."""
        counts: Rows = np.count_nonzero(self.replicas != PADDING, axis=1)
        return counts


class Alteration(NamedTuple):
    """The result for a topic: new replica lists of some of its partitions, and new partitions. All lists have one
    length."""

    partition_indexes: Rows
    """int64[n]: the existing partitions that change."""
    replicas: Ints
    """int32[n, replication factor]: their new replica lists."""
    new: Ints
    """int32[m, replication factor]: the partitions that are appended."""


class Resizing(NamedTuple):
    """A change of partition count or replication factor that the topic itself allows; brokers and limits are not
    checked."""

    new_partitions: int
    replication_factor: int
    present_too: bool
    """Whether existing partitions get this replication factor; if not, only the new ones do."""


def topic_rows(image: MetadataImage, topic: Topic) -> TopicRows:
    """A copy of the topic's partitions."""
    ranges = list(image.partitions.topic_ranges(topic.row))
    width = max(owned.width for owned, _ in ranges)
    replicas = np.full((image.partition_count(topic), width), PADDING, dtype=np.int32)
    leader = np.empty(len(replicas), dtype=np.int32)
    for owned, table in ranges:
        at = slice(owned.first_index, owned.first_index + owned.length)
        replicas[at, : owned.width] = table.replicas[owned.rows]
        leader[at] = table.leader[owned.rows]
    most = int(np.count_nonzero(replicas != PADDING, axis=1).max())
    return TopicRows(replicas[:, :most], leader)


def resize_topic(
    image: MetadataImage, context: RequestContext, topic_name: str, rows: TopicRows, wanted: Resizing
) -> Alteration | ApiError:
    """Replicas for the new counts, or an error. A random choice decides between placements that are equally good."""
    factor, counts = wanted.replication_factor, rows.replica_counts
    new = np.empty((0, factor), dtype=np.int32)
    if wanted.new_partitions:
        present = PresentPartitions(len(counts), int(rows.replicas[0, 0]))
        placer = Placer(image, context, live_only=True)
        placed = placer.place(Wanted(topic_name, wanted.new_partitions, factor, present=present))
        if isinstance(placed, ApiError):
            return placed
        new = placed
    if not wanted.present_too:
        return Alteration(np.arange(0), new[:0], new)
    growing, shrinking = np.flatnonzero(counts < factor), np.flatnonzero(counts > factor)
    try:
        grown, new = _grow(image, context, topic_name, rows.replicas[growing], new)
    except CannotPlace as reason:
        return _refusal(fitting(image, context.settings, topic_name), reason, factor)
    if refusal := take_replicas(context, grown):
        return refusal
    shrunk = new[:0]
    if shrinking.size:
        view = _view(image, context, topic_name, new, receiving=False)
        shrunk = shrink(view, rows.replicas[shrinking], factor, rows.leader[shrinking])
    return Alteration(np.concatenate((growing, shrinking)), np.concatenate((grown, shrunk)), new)


def take_replicas(context: RequestContext, replicas: Ints) -> ApiError | None:
    """Take these replicas, int32[partitions, replication factor], from the number that one request may place;
    POLICY_VIOLATION if too few are left."""
    if replicas.size > context.ledger.replicas_left:
        return ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"{counted(replicas.size, 'replica')} would exceed the {context.ledger.replicas_left} that this request "
            "may still place.",
        )
    context.ledger.replicas_left -= replicas.size
    return None


def _grow(image: MetadataImage, context: RequestContext, topic_name: str, rows: Ints, new: Ints) -> tuple[Ints, Ints]:
    """The rows that are too short, extended to the replication factor, and the new rows. New rows are placed anew if
    the first placement leaves no room for the others. Raises CannotPlace."""
    factor = new.shape[1]
    if not len(rows):
        return np.empty((0, factor), dtype=np.int32), new
    try:
        return grow(_view(image, context, topic_name, new, receiving=True), rows, factor, context.rng), new
    except CannotPlace:
        if not len(new):
            raise
    # The new rows took brokers that only these rows could use. Placing all rows together finds a way if there is one.
    empty = np.full((len(new), rows.shape[1]), PADDING, dtype=np.int32)
    view = _view(image, context, topic_name, new[:0], receiving=True)
    together = grow(view, np.concatenate((rows, empty)), factor, context.rng)
    return together[: len(rows)], together[len(rows) :]


def _view(
    image: MetadataImage, context: RequestContext, topic_name: str, placed: Ints, *, receiving: bool
) -> ClusterView:
    """All registered brokers of the topic's kind, with the replicas that this topic has `placed` already. With
    `receiving`, cordoned brokers are closed like brokers that are not live."""
    brokers = sorted(fitting(image, context.settings, topic_name), key=lambda broker: broker.broker_id)
    more = dict(count_by_id(placed))
    racks = tuple(broker.rack for broker in brokers)
    if context.settings.profile == "kafka":
        racks = tuple(_NO_RACK if rack is None else rack for rack in racks)
    limits = limits_for(image, context, topic_name)
    held = [replicas_held(image, context, one.broker_id) + more.get(one.broker_id, 0) for one in brokers]
    closed: Mask = np.array([not one.live or (receiving and one.cordoned) for one in brokers], dtype=np.bool_)
    return ClusterView(
        broker_ids=np.array([broker.broker_id for broker in brokers], dtype=np.int32),
        racks=racks,
        fenced=closed,
        replica_counts=np.array(held, dtype=np.int64),
        replica_limit=limits.max_broker_partitions,
        partition_count=partitions_held(image, context),
        partition_limit=limits.max_partitions,
    )


def _refusal(brokers: Collection[BrokerState], reason: CannotPlace, replication_factor: int) -> ApiError:
    if reason.reason is not CannotPlaceReason.INVALID_REPLICATION_FACTOR:
        return ApiError(ErrorCode.POLICY_VIOLATION, reason.message)
    live = sum(broker.live and not broker.cordoned for broker in brokers)
    return ApiError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
        f"{replication_factor} cannot be reached because only {live} broker(s) are live.",
    )
