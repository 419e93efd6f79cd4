"""AlterPartitionReassignments (45), KIP-455: begins reassignments of partitions to other replicas, or cancels them.

One result per partition, in request order. Order of checks and texts: Apache Kafka 4.3 as recorded. The limits of
KIP-578 are checked last, because only replicas that a reassignment adds count; they never prevent a cancellation. A
reassignment that has nothing to wait for completes at once.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import field
from itertools import islice
from typing import Final, NamedTuple

from klamm.controller.authorizer import AclOperation
from klamm.controller.configs import min_insync_replicas, unclean_leader_election_enabled
from klamm.controller.context import RequestContext
from klamm.controller.log_records import Record
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.metadata.live_replicas import AcceptableLeaders
from klamm.controller.metadata.partition import Partition, merge
from klamm.controller.metadata.partition_table import PartitionKey
from klamm.controller.outcome import Outcome
from klamm.controller.steps import COLUMNS_PER_ITEM, Steps
from klamm.controller.transitions.broker_kinds import is_mixed, refuse_move_to_other_kind
from klamm.controller.transitions.change_runs import in_runs
from klamm.controller.transitions.limits import Limits, count_as_moved, limits_for, validate_added_replicas
from klamm.controller.transitions.manual_assignment import validate_manual_replicas
from klamm.controller.transitions.partition_change import Election, plan_partition_change
from klamm.controller.transitions.placement import max_partitions_per_request
from klamm.controller.transitions.reassignment import Assignment, assignment_of, reassigned, reverted
from klamm.controller.transitions.reassignment_columns import plan_plain_reassignments
from klamm.controller.transitions.topic_names import shown_name
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.partitions.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.quick_dataclasses import dataclass

MESSAGE_OF_NO_TOPICS = ""
"""Recorded: if the request has no topics, the text is empty instead of null."""
READ_AT_ONCE: Final = 10
"""The number of partitions that can be read in the time in which one is decided."""


class _Rules(NamedTuple):
    """The configs that apply to the partitions of one topic."""

    limits: Limits
    min_isr: int
    unclean: bool


@dataclass(slots=True)
class _Asked:
    """The state of one request while it is decided."""

    image: MetadataImage
    context: RequestContext
    allow_replication_factor_change: bool
    most: int
    """How many more changes the request may make. Plain reassignments are not counted: a request with plain ones names
    no more partitions than it may change."""
    plain: set[PartitionKey] = field(default_factory=set)
    """The partitions whose plain reassignments are planned already."""
    read: dict[PartitionKey, Partition] = field(default_factory=dict)
    """The other partitions, as they were before the request, or after `changes` that were merged."""
    records: list[Record] = field(default_factory=list)
    changes: dict[PartitionKey, PartitionChangeRecord] = field(default_factory=dict)
    """Changes that may still become part of a run. When a partition is named again, they are written as records
    first."""
    spent: int = 0
    """Work of the current step, in hundredths of the work for a partition that is decided alone."""

    def partition(self, key: PartitionKey) -> Partition | None:
        """The partition after the earlier items of the request; None if it does not exist."""
        if key in self.changes:
            self.read.update((changed, merge(self.read[changed], change)) for changed, change in self.changes.items())
            self.close_run()
        return self.read.get(key)

    def close_run(self) -> None:
        self.records += in_runs(self.changes.values())
        self.changes.clear()


def handle_alter_partition_reassignments(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> Steps:
    """One result per partition."""
    denied = context.refuse_cluster(AclOperation.ALTER)
    if denied:
        return Outcome(_refused_as_a_whole(request, denied))
    if not request.topics:
        return Outcome(AlterPartitionReassignmentsResponse(error_message=MESSAGE_OF_NO_TOPICS))
    if request.timeout_ms <= 0:
        return Outcome(_refused_as_a_whole(request, ApiError(ErrorCode.REQUEST_TIMED_OUT)))
    allowed = request.allow_replication_factor_change
    asked = _Asked(image, context, allowed, max_partitions_per_request(context))
    wanted = list(_wanted(image, request.topics))
    yield from _begin_what_is_plain(asked, _targets_to_do_at_once(asked, wanted))
    alone = (key for key, _ in wanted if key not in asked.plain)
    while keys := list(islice(alone, READ_AT_ONCE * context.at_once)):
        asked.read.update(image.partitions.read_many(keys))
        if len(keys) == READ_AT_ONCE * context.at_once:
            yield
    responses = []
    for topic in request.topics:
        partitions = yield from _alter_topic(asked, topic)
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
    asked.close_run()
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=allowed, error_message=None, responses=responses
    )
    return Outcome(response, asked.records)


def _begin_what_is_plain(asked: _Asked, targets: dict[PartitionKey, Sequence[int]]) -> Generator[None, None, None]:
    begun = iter(targets.items())
    at_most = max(1, COLUMNS_PER_ITEM * asked.context.at_once // 2)
    while some := dict(islice(begun, at_most)):
        records, plain = plan_plain_reassignments(
            asked.image, some, allow_replication_factor_change=asked.allow_replication_factor_change
        )
        asked.records += records
        asked.plain |= plain
        if len(some) == at_most:
            yield


def _wanted(
    image: MetadataImage, topics: Sequence[ReassignableTopic]
) -> Iterator[tuple[PartitionKey, Sequence[int] | None]]:
    """The partitions of existing topics, and their targets; None: cancel."""
    for topic in topics:
        known = image.topics_by_name.get(topic.name)
        if known is not None:
            for wanted in topic.partitions:
                yield PartitionKey(known.row, wanted.partition_index), wanted.replicas


def _targets_to_do_at_once(
    asked: _Asked, wanted: Sequence[tuple[PartitionKey, Sequence[int] | None]]
) -> dict[PartitionKey, Sequence[int]]:
    """The targets that do not depend on each other: each of another partition, no limits are set, all brokers are of
    one kind, and the request may change that many partitions."""
    targets = {key: target for key, target in wanted if target is not None}
    if len(dict(wanted)) < len(wanted) or len(wanted) > asked.most:
        return {}
    is_free = limits_for(asked.image, asked.context, "").limit_nothing and not is_mixed(asked.image)
    return targets if is_free else {}


def _refused_as_a_whole(
    request: AlterPartitionReassignmentsRequest, refusal: ApiError
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=refusal.code,
        error_message=refusal.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name, partitions=[_answered(partition, refusal) for partition in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def _answered(wanted: ReassignablePartition, refusal: ApiError | None) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=wanted.partition_index,
        error_code=refusal.code if refusal else ErrorCode.NONE,
        error_message=refusal.message if refusal else None,
    )


def _alter_topic(
    asked: _Asked, wanted: ReassignableTopic
) -> Generator[None, None, list[ReassignablePartitionResponse]]:
    topic = asked.image.topics_by_name.get(wanted.name)
    if topic is None:
        unknown = ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {shown_name(wanted.name)}."
        )
        return [_answered(partition, unknown) for partition in wanted.partitions]
    configs, settings = asked.image.configs, asked.context.settings
    rules = _Rules(
        limits_for(asked.image, asked.context, topic.name),
        min_insync_replicas(configs, settings, topic.name),
        unclean_leader_election_enabled(configs, settings, topic.name),
    )
    answered = []
    for partition in wanted.partitions:
        if asked.spent >= COLUMNS_PER_ITEM * asked.context.at_once:
            yield
            asked.spent = 0
        asked.spent += 1 if PartitionKey(topic.row, partition.partition_index) in asked.plain else COLUMNS_PER_ITEM
        answered.append(_answered(partition, _alter(asked, topic, rules, partition)))
    return answered


def _alter(asked: _Asked, topic: Topic, rules: _Rules, wanted: ReassignablePartition) -> ApiError | None:
    """The error why a partition stays as it is; None: it changed, or has its target already."""
    key = PartitionKey(topic.row, wanted.partition_index)
    if key in asked.plain:
        return None
    partition = asked.partition(key)
    if partition is None:
        return ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic.name}:{wanted.partition_index}."
        )
    acceptable, features = AcceptableLeaders(asked.image, partition), asked.image.features.elections
    if wanted.replicas is None:
        election = Election(acceptable, rules.min_isr, features, unclean=rules.unclean)
        change = _cancel(topic, key, partition, election)
    else:
        election = Election(acceptable, rules.min_isr, features)
        change = _reassign(asked, topic, key, partition, wanted.replicas, election, rules.limits)
    if isinstance(change, ApiError):
        return change
    if change is not None:
        if not asked.most:
            most = max_partitions_per_request(asked.context)
            return ApiError(ErrorCode.POLICY_VIOLATION, f"One request may change no more than {most} partitions.")
        asked.most -= 1
        asked.changes[key] = change
        if change.replicas is not None:
            count_as_moved(asked.context, topic.name, partition.replicas, change.replicas)
    return None


def _cancel(
    topic: Topic, key: PartitionKey, partition: Partition, election: Election
) -> PartitionChangeRecord | ApiError | None:
    if not partition.reassigning:
        return ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas, isr, unclean = reverted(partition)
    if unclean and not election.unclean:
        return ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}:{key.partition_index} because it would require "
            "an unclean leader election.",
        )
    if unclean and election.features.has_elr and isr[0] not in election.acceptable_leaders:
        isr = ()  # a replica that is not live is not in sync: another one leads, or an eligible one is waited for
    return plan_partition_change(
        topic.topic_id, key.partition_index, partition, election, isr, target=Assignment(replicas)
    )


def _reassign(
    asked: _Asked,
    topic: Topic,
    key: PartitionKey,
    partition: Partition,
    wanted: Sequence[int],
    election: Election,
    limits: Limits,
) -> PartitionChangeRecord | ApiError | None:
    image = asked.image
    refusal = validate_manual_replicas(image, wanted, None)
    if refusal is None and not asked.allow_replication_factor_change:
        refusal = _validate_replication_factor(partition, wanted)
    refusal = refusal or refuse_move_to_other_kind(image, topic.name, partition.replicas, wanted)
    if refusal:
        return refusal
    target = reassigned(assignment_of(partition), wanted)
    added = set(wanted).difference(partition.replicas)
    refusal = validate_added_replicas(image, asked.context, limits, added)
    if refusal:
        return refusal
    directories = {replica: image.brokers[replica].default_directory for replica in added}
    return plan_partition_change(
        topic.topic_id, key.partition_index, partition, election, target=target, new_directories=directories
    )


def _validate_replication_factor(partition: Partition, wanted: Sequence[int]) -> ApiError | None:
    """INVALID_REPLICATION_FACTOR if a target has another length than the present replicas without those that a
    reassignment in progress removes."""
    present = len(set(partition.replicas).difference(partition.removing_replicas))
    if len(wanted) == present:
        return None
    return ApiError(
        ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor is changed from {present} to {len(wanted)}"
    )
