"""ElectLeaders (43), KIP-460: elects the preferred leaders of partitions, or, uncleanly, any live replica.

Order of checks and texts: Apache Kafka 4.3 as recorded. If the request asks for all partitions (null), the answer has
every topic, in the order of creation, with those of its partitions that needed an election.
"""

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Final

import numpy as np

from klamm.controller.authorizer import AclOperation
from klamm.controller.configs import min_insync_replicas
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.metadata.live_replicas import AcceptableLeaders
from klamm.controller.metadata.partition import NO_LEADER, Partition
from klamm.controller.metadata.partition_table import PartitionKey
from klamm.controller.outcome import Outcome
from klamm.controller.settings import Settings
from klamm.controller.transitions.change_runs import in_runs
from klamm.controller.transitions.partition_change import Election, plan_partition_change
from klamm.controller.transitions.placement import max_partitions_per_request
from klamm.controller.transitions.topic_names import shown_name
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.partitions.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.quick_dataclasses import dataclass

PREFERRED: Final = 0
UNCLEAN: Final = 1
NOT_NEEDED = ApiError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
NOT_AVAILABLE = {
    PREFERRED: ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
    UNCLEAN: ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."),
}
FIRST_VERSION_WITH_ERROR = 1
"""Before this version the response has no error of its own; each partition has it (ElectLeadersResponse.json)."""
TOO_MANY = ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


@dataclass(slots=True)
class _Asked:
    """The state of one request while it is decided."""

    image: MetadataImage
    election_type: int
    settings: Settings
    read: dict[PartitionKey, Partition] = field(default_factory=dict)
    """The partitions as they were before the request."""
    changes: list[PartitionChangeRecord] = field(default_factory=list)


def handle_elect_leaders(image: MetadataImage, request: ElectLeadersRequest, context: RequestContext) -> Outcome:
    """One result per partition."""
    denied = context.refuse_cluster(AclOperation.ALTER)
    if denied:
        return _refused_as_a_whole(request, denied, context)
    if request.topic_partitions is not None and not request.topic_partitions:
        return Outcome(ElectLeadersResponse())  # for any election type, as in Kafka
    if request.timeout_ms <= 0:
        return _refused_as_a_whole(request, ApiError(ErrorCode.REQUEST_TIMED_OUT), context)
    if request.election_type not in NOT_AVAILABLE:
        text = f"Unknown election type {request.election_type}"
        return _refused_as_a_whole(request, ApiError(ErrorCode.INVALID_REQUEST, text), context)
    asked = _Asked(image, request.election_type, context.settings)
    results = [
        ReplicaElectionResult(topic=name, partition_result=_elect_in_topic(asked, name, indexes))
        for name, indexes in _wanted(image, request)
    ]
    if len(asked.changes) > max_partitions_per_request(context):
        return _refused_as_a_whole(request, TOO_MANY, context)
    return Outcome(ElectLeadersResponse(replica_election_results=results), list(in_runs(asked.changes)))


def _refused_as_a_whole(request: ElectLeadersRequest, refusal: ApiError, context: RequestContext) -> Outcome:
    results = [
        ReplicaElectionResult(
            topic=topic.topic, partition_result=[_answered(index, refusal) for index in topic.partitions]
        )
        for topic in request.topic_partitions or ()
    ]
    response = ElectLeadersResponse(replica_election_results=results)
    if context.api_version >= FIRST_VERSION_WITH_ERROR:
        response.error_code = refusal.code
    return Outcome(response)


def _answered(partition_index: int, refusal: ApiError | None) -> PartitionResult:
    return PartitionResult(
        partition_id=partition_index,
        error_code=refusal.code if refusal else ErrorCode.NONE,
        error_message=refusal.message if refusal else None,
    )


def _wanted(image: MetadataImage, request: ElectLeadersRequest) -> Iterator[tuple[str, Sequence[int]]]:
    """Names of topics, and indexes of partitions; if all were asked for, those of partitions that need an election."""
    if request.topic_partitions is None:
        for topic in image.topics_by_row.values():
            yield topic.name, _in_need(image, topic, request.election_type)
    else:
        for wanted in request.topic_partitions:
            yield wanted.topic, wanted.partitions


def _in_need(image: MetadataImage, topic: Topic, election_type: int) -> list[int]:
    found: list[int] = []
    for owned, table in image.partitions.topic_ranges(topic.row):
        leader = table.leader[owned.rows]
        needs = leader != table.replicas[owned.rows][:, 0] if election_type == PREFERRED else leader == NO_LEADER
        found += (np.flatnonzero(needs) + owned.first_index).tolist()
    return found


def _elect_in_topic(asked: _Asked, name: str, indexes: Sequence[int]) -> list[PartitionResult]:
    topic = asked.image.topics_by_name.get(name)
    if topic is None:
        unknown = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {shown_name(name)}")
        return [_answered(index, unknown) for index in indexes]
    asked.read.update(asked.image.partitions.read_many(PartitionKey(topic.row, index) for index in indexes))
    min_isr = min_insync_replicas(asked.image.configs, asked.settings, name)
    return [_answered(index, _elect(asked, topic, index, min_isr)) for index in indexes]


def _elect(asked: _Asked, topic: Topic, partition_index: int, min_isr: int) -> ApiError | None:
    """The error why there was no election; None: there was one."""
    key = PartitionKey(topic.row, partition_index)
    partition = asked.read.get(key)
    if partition is None:
        text = f"No such partition as {topic.name}-{partition_index}"
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    preferred = asked.election_type == PREFERRED
    if partition.leader == partition.replicas[0] if preferred else partition.leader != NO_LEADER:
        return NOT_NEEDED
    election = Election(
        acceptable_leaders=AcceptableLeaders(asked.image, partition),
        min_isr=min_isr,
        features=asked.image.features.elections,
        unclean=not preferred,
        preferred=preferred,
    )
    change = plan_partition_change(topic.topic_id, partition_index, partition, election)
    if change is None:
        return NOT_AVAILABLE[asked.election_type]
    asked.changes.append(change)
    return None
