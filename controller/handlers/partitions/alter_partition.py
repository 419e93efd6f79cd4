"""AlterPartition (56): the leader of partitions reports which replicas are in sync.

The report is accepted if the leader knows the newest state: the broker epoch, the leader epoch and the partition epoch
are compared first, then the ISR is checked. Order and codes of the checks: Apache Kafka 4.3. Later entries of a request
are checked against the changes of earlier ones.
"""

from collections.abc import Iterable
from dataclasses import field

from klamm.controller.authorizer import AclOperation
from klamm.controller.configs import min_insync_replicas, unclean_leader_election_enabled
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.metadata.live_replicas import AcceptableLeaders
from klamm.controller.metadata.partition import NO_LEADER_CHANGE, RECOVERED, RECOVERING, Partition, merge
from klamm.controller.outcome import Outcome
from klamm.controller.transitions.change_runs import in_runs
from klamm.controller.transitions.partition_change import Election, plan_partition_change
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.partitions.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    PartitionData,
    TopicData,
)
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.quick_dataclasses import dataclass

UNCHECKED_EPOCH = -1
"""In place of the broker epoch of a replica: the epoch is not compared. Versions before 3 have no broker epochs."""
FIRST_VERSION_BY_ID = 2
FIRST_VERSION_WITH_EPOCHS = 3
MAX_ENTRIES = 1_000
"""Most partitions that one request changes, which takes some 30 ms. The leader has to repeat the request for others."""

Key = tuple[int, int]


@dataclass(slots=True)
class _Asked:
    """The state of one request while it is decided."""

    image: MetadataImage
    request: AlterPartitionRequest
    context: RequestContext
    changes: list[PartitionChangeRecord] = field(default_factory=list)
    """At most one per partition: after a change, another entry of the request does not have the newest partition
    epoch."""
    changed: dict[Key, Partition] = field(default_factory=dict)
    """The partitions that this request changed, with the changes."""
    entries_left: int = field(default_factory=lambda: MAX_ENTRIES)
    rules: dict[int, tuple[int, bool]] = field(default_factory=dict)
    """By topic row: min.insync.replicas, and whether unclean elections are allowed."""


def handle_alter_partition(image: MetadataImage, request: AlterPartitionRequest, context: RequestContext) -> Outcome:
    """The state of each partition after the change, or why it was refused."""
    denied = context.refuse_cluster(AclOperation.CLUSTER_ACTION)
    if denied:
        return Outcome(AlterPartitionResponse(error_code=denied.code))
    if not request.topics:
        return Outcome(AlterPartitionResponse())  # for any broker id and epoch (recorded: tests/golden/authorizer)
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        return Outcome(AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    asked = _Asked(image, request, context)
    topics = [
        AlterPartitionResponseTopicData(
            topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=_alter_topic(asked, topic)
        )
        for topic in request.topics
    ]
    return Outcome(AlterPartitionResponse(topics=topics), list(in_runs(asked.changes)))


def _alter_topic(asked: _Asked, wanted: TopicData) -> list[AlterPartitionResponsePartitionData]:
    image, by_id = asked.image, asked.context.api_version >= FIRST_VERSION_BY_ID
    topic = image.topics_by_id.get(wanted.topic_id) if by_id else image.topics_by_name.get(wanted.topic_name)
    if topic is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return [_refused(partition, unknown) for partition in wanted.partitions]
    return [_alter(asked, topic, partition) for partition in wanted.partitions]


def _refused(wanted: PartitionData, code: ErrorCode) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(partition_index=wanted.partition_index, error_code=code)


def _alter(asked: _Asked, topic: Topic, wanted: PartitionData) -> AlterPartitionResponsePartitionData:
    if not asked.entries_left:
        return _refused(wanted, ErrorCode.OPERATION_NOT_ATTEMPTED)
    asked.entries_left -= 1
    key = topic.row, wanted.partition_index
    try:
        partition = asked.changed.get(key) or asked.image.partitions.read(*key)
    except KeyError:
        return _refused(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    states = _wanted_states(wanted, asked.context.api_version)
    isr = tuple(broker_id for broker_id, _ in states)
    refusal = (
        _refuse_epochs(asked.request.broker_id, partition, wanted)
        or _refuse_isr(partition, isr, wanted.leader_recovery_state)
        or _refuse_ineligible(asked.image, states)
    )
    if refusal:
        return _refused(wanted, _known_code(refusal, asked.context.api_version))
    min_isr, unclean = _rules(asked, topic)
    acceptable = AcceptableLeaders(asked.image, partition)
    election = Election(acceptable, min_isr, asked.image.features.elections, unclean=unclean)
    change = plan_partition_change(
        topic.topic_id, wanted.partition_index, partition, election, isr, wanted.leader_recovery_state
    )
    if change is not None:
        partition = asked.changed[key] = merge(partition, change)
        asked.changes.append(change)
        if change.leader not in (NO_LEADER_CHANGE, asked.request.broker_id):
            # The directory of the leader's replica went offline. The change applies; the former leader has to fetch the
            # new state.
            return _refused(wanted, _known_code(ErrorCode.NEW_LEADER_ELECTED, asked.context.api_version))
    return AlterPartitionResponsePartitionData(
        partition_index=wanted.partition_index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _known_code(code: ErrorCode, api_version: int) -> ErrorCode:
    """The error as a version knows it."""
    is_new = code in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.NEW_LEADER_ELECTED)
    return ErrorCode.OPERATION_NOT_ATTEMPTED if is_new and api_version < FIRST_VERSION_BY_ID else code


def _wanted_states(wanted: PartitionData, api_version: int) -> list[tuple[int, int]]:
    """The ISR in the request, with the broker epochs that the leader knows."""
    if api_version < FIRST_VERSION_WITH_EPOCHS:
        return [(broker_id, UNCHECKED_EPOCH) for broker_id in wanted.new_isr]
    return [(state.broker_id, state.broker_epoch) for state in wanted.new_isr_with_epochs]


def _refuse_epochs(broker_id: int, partition: Partition, wanted: PartitionData) -> ErrorCode | None:
    # A leader with newer epochs got them from a newer controller, and has to ask that one.
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return None


def _refuse_isr(partition: Partition, isr: tuple[int, ...], recovery_state: int) -> ErrorCode | None:
    members = set(isr)
    if len(members) < len(isr) or min(isr, default=-1) < 0 or not members.issubset(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    if partition.leader not in members or recovery_state not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if recovery_state == RECOVERING and (len(isr) > 1 or partition.leader_recovery_state == RECOVERED):
        return ErrorCode.INVALID_REQUEST
    return None


def _refuse_ineligible(image: MetadataImage, states: Iterable[tuple[int, int]]) -> ErrorCode | None:
    for broker_id, broker_epoch in states:
        broker = image.brokers.get(broker_id)
        if broker is None or not broker.live or broker_epoch not in (UNCHECKED_EPOCH, broker.broker_epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return None


def _rules(asked: _Asked, topic: Topic) -> tuple[int, bool]:
    found = asked.rules.get(topic.row)
    if found is None:
        configs, settings = asked.image.configs, asked.context.settings
        found = asked.rules[topic.row] = (
            min_insync_replicas(configs, settings, topic.name),
            unclean_leader_election_enabled(configs, settings, topic.name),
        )
    return found
