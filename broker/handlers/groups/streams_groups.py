"""StreamsGroupHeartbeat (88) and StreamsGroupDescribe (89): groups of KIP-1071.

A heartbeat creates the internal topics that its group's topology lacks, on behalf of the member. Kafka's broker sends
a CreateTopics of its own when the heartbeat is decided, so its answer calls them missing; here they are part of the
request, which is decided as if they were not there yet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.shard import Shard
from klamm.broker.groups.consumer.hosted import Client
from klamm.broker.groups.groups_with_streams import Beat, Creation, GroupsWithStreams
from klamm.broker.groups.streams.checks import check_request
from klamm.broker.groups.streams.heartbeat import refused
from klamm.broker.groups.streams.internal_topics import InternalTopic
from klamm.broker.handlers.groups.describing import Describing
from klamm.broker.handlers.groups.join_group import client_host
from klamm.broker.handlers.groups.rebalance_protocols import STREAMS, serves
from klamm.broker.handlers.groups.submission import submit_one
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.configs import shortened
from klamm.controller.context import RequestContext
from klamm.controller.effects import SoftState
from klamm.controller.handlers.topics.create_topics import denied_creations, handle_create_topics
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.steps import Steps
from klamm.controller.transitions.topic_names import validate_topic_name
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from klamm.protocol.messages.streams.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
)
from klamm.protocol.messages.streams.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Topology
from klamm.protocol.messages.topics.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

FEATURE: Final = "streams.version"
CREATION_VERSION: Final = 7
DEFAULT: Final = -1
_INTERNAL: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
_SHOWN_ERRORS: Final = 3


def handle_streams_group_heartbeat(
    brokers: SimulatedBrokers, image: MetadataImage, request: StreamsGroupHeartbeatRequest, context: RequestContext
) -> Outcome | Steps:
    """The member's epoch, its tasks where they have changed, and what it should know about its group.

    A member must be allowed to describe the topics of the topology that it brings, and internal topics are created if
    it may create them.
    """
    refusal = _refuse(image, request, context)
    if refusal is not None:
        return Outcome(refused(refusal))
    client = Client(
        client_id=context.requester.client_id or "",
        client_host=client_host(context),
        api_version=context.api_version,
        may_describe=lambda _: False,
    )
    beat = Beat(request, client)
    asked_broker_id = context.requester.asked_broker_id
    found = brokers.coordinators.find(image, CONSUMER_OFFSETS, request.group_id, asked_broker_id, context.now_ms)
    groups = found.state if isinstance(found, Shard) else None
    missing = groups.missing_topics(beat, context.now_ms) if isinstance(groups, GroupsWithStreams) else {}
    if not missing or not isinstance(groups, GroupsWithStreams):
        return _submit(brokers, beat, context)
    interval_ms = groups.streams.cluster.settings_of(request.group_id).heartbeat_interval_ms
    return _create(brokers, image, beat, context, missing, 2 * interval_ms)


def _submit(brokers: SimulatedBrokers, beat: Beat, context: RequestContext) -> Outcome:
    return submit_one(
        brokers,
        context,
        beat.request.group_id,
        lambda groups, waiter, now_ms: groups.streams_heartbeat(beat, waiter, now_ms),
        error=lambda code: refused(ApiError(code)),
    )


def _refuse(image: MetadataImage, request: StreamsGroupHeartbeatRequest, context: RequestContext) -> ApiError | None:
    """What is wrong with the request whatever the group is. Kafka's order."""
    if not _is_enabled(image, context):
        return ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if not context.authorize(AclOperation.READ, AclResourceType.GROUP, request.group_id):
        return ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = _topics_of(request.topology) if request.topology is not None else []
    prohibited = [name for name in names if name in _INTERNAL]
    if prohibited:
        shown = ",".join(prohibited)
        return _invalid(f"Use of Kafka internal topics {shown} in a Kafka Streams topology is prohibited.")
    invalid = [name for name in names if validate_topic_name(name) is not None]
    if invalid:
        return _invalid(f"Topic names {','.join(invalid)} are not valid topic names.")
    if context.denied(AclOperation.DESCRIBE, AclResourceType.TOPIC, names):
        return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return check_request(request)


def _is_enabled(image: MetadataImage, context: RequestContext) -> bool:
    return serves(STREAMS, context) and image.features.get(FEATURE, 0) > 0


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, shortened(text))


def _topics_of(topology: Topology) -> list[str]:
    names: dict[str, None] = {}
    for each in topology.subtopologies:
        names |= dict.fromkeys(each.source_topics)
        names |= dict.fromkeys(each.repartition_sink_topics)
        names |= dict.fromkeys(topic.name for topic in each.repartition_source_topics)
        names |= dict.fromkeys(topic.name for topic in each.state_changelog_topics)
    return list(names)


# -- internal topics ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _KeepErrors:
    """An effect: the broker remembers why topics could not be created."""

    brokers: SimulatedBrokers
    broker_id: int | None
    errors: Mapping[str, str]
    for_ms: int

    def apply(self, _soft: SoftState, now_ms: int) -> None:
        broker = self.brokers.by_id.get(self.broker_id) if self.broker_id is not None else None
        if broker is not None:
            for name, text in self.errors.items():
                broker.creation_errors.put(name, text, now_ms + self.for_ms)


def _create(
    brokers: SimulatedBrokers,
    image: MetadataImage,
    beat: Beat,
    context: RequestContext,
    missing: Mapping[str, InternalTopic],
    pause_ms: int,
) -> Steps:
    """The heartbeat, and the records of the internal topics that it lacks. What fails is not tried again for a
    while."""
    denied = denied_creations(context, missing)
    if denied:
        names = ", ".join(name for name in missing if name in denied)
        creation = Creation(remark=shortened(f"; Unauthorized to CREATE on topics {names}."))
        return _submit(brokers, Beat(beat.request, beat.client, creation), context)
    broker_id = context.requester.asked_broker_id
    broker = brokers.by_id.get(broker_id) if broker_id is not None else None
    known = broker.creation_errors.of(missing, context.now_ms) if broker is not None else {}
    asked = [_creatable(topic) for name, topic in missing.items() if name not in known]
    request = CreateTopicsRequest(topics=asked, timeout_ms=context.settings.static_int("request.timeout.ms", broker_id))
    made = yield from handle_create_topics(image, request, context.for_version(CREATION_VERSION))
    assert isinstance(made.response, CreateTopicsResponse)
    failed = {
        result.name: result.error_message or ErrorCode(result.error_code).name
        for result in made.response.topics
        if result.error_code
    }
    created = frozenset(result.name for result in made.response.topics if not result.error_code)
    beat = Beat(beat.request, beat.client, Creation(created, _failures(known)))
    submitted = _submit(brokers, beat, context)
    keep = [_KeepErrors(brokers, broker_id, failed, pause_ms)] if failed else []
    return Outcome(submitted.response, made.records, effects=[*keep, *made.effects, *submitted.effects])


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or DEFAULT,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _failures(errors: Mapping[str, str]) -> str:
    if not errors:
        return ""
    shown = ", ".join(f"{name} ({text})" for name, text in islice(errors.items(), _SHOWN_ERRORS))
    more = len(errors) - _SHOWN_ERRORS
    return shortened(f"; Creation failed: {shown}{f' and {more} more' if more > 0 else ''}.")


# -- StreamsGroupDescribe ----------------------------------------------------------------------------------------------


def handle_streams_group_describe(
    brokers: SimulatedBrokers, image: MetadataImage, request: StreamsGroupDescribeRequest, context: RequestContext
) -> Outcome:
    """State, topology and members of each group."""
    if not _is_enabled(image, context):
        return _DESCRIBING.all_refused(request.group_ids, ErrorCode.UNSUPPORTED_VERSION)
    with_operations = request.include_authorized_operations
    return _DESCRIBING.ask(brokers, context, request.group_ids, with_operations=with_operations)


def _described_topics(group: DescribedGroup) -> set[str]:
    subtopologies: Sequence[Subtopology] = (group.topology.subtopologies or ()) if group.topology is not None else ()
    names: set[str] = set()
    for each in subtopologies:
        names.update(each.source_topics, each.repartition_sink_topics)
        names.update(topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics))
    return names


_DESCRIBING: Final = Describing(
    described=DescribedGroup,
    response=StreamsGroupDescribeResponse,
    operation=GroupsWithStreams.streams_describe,
    topics_of=_described_topics,
    hidden_text="The described group uses topics that the client is not authorized to describe.",
)
