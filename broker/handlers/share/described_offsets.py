"""DescribeShareGroupOffsets (90): where groups begin in partitions, and how far behind the end they are.

Start offsets are those of the share coordinator. A group that names its partitions is described by any broker; one that
asks for all of its partitions (null) by the group's coordinator, which knows them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.answer import Part
from klamm.broker.handlers.hosted import find_partition, high_watermark
from klamm.broker.handlers.share.group_offsets import GroupFlow
from klamm.broker.handlers.share.share_version import Begin, records_of_state_topic, share_groups_are_enabled
from klamm.broker.handlers.share.texts import text_of
from klamm.broker.share_state.offset import UNINITIALIZED, ShareGroupOffset, SharePartitionKey
from klamm.broker.share_state.persister import Answers
from klamm.broker.share_state.questions import Summarize
from klamm.controller.answer_room import NO_ROOM
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.shares.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from klamm.protocol.uuid import ZERO_UUID, Uuid

MAX_PARTITIONS: Final = 10_000
"""Partitions of one answer. Kafka has no such limit. Groups beyond it get INVALID_REQUEST."""
Places = Mapping[Uuid, tuple[int, ...]]


def handle_describe_share_group_offsets(
    brokers: SimulatedBrokers, image: MetadataImage, request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> Outcome:
    """The groups in the order of the request."""
    denied = context.denied(
        AclOperation.DESCRIBE, AclResourceType.GROUP, list(dict.fromkeys(group.group_id for group in request.groups))
    )
    enabled = share_groups_are_enabled(image)

    def finish(groups: list[DescribeShareGroupOffsetsResponseGroup]) -> DescribeShareGroupOffsetsResponse:
        return DescribeShareGroupOffsetsResponse(groups=groups)

    answer = brokers.coordinators.new_answer(len(request.groups), finish)
    effects, room = [], _Room()
    for number, asked in enumerate(request.groups):
        part = Part(answer, number, lambda code, name=asked.group_id: _error(name, ApiError(code, text_of(code))))  # type: ignore[misc]
        if not enabled:
            part.resolve(_error(asked.group_id, ApiError(ErrorCode.UNSUPPORTED_VERSION)))
        elif asked.group_id in denied:
            part.resolve(_error(asked.group_id, ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)))
        elif not room.take(sum(len(topic.partitions) for topic in asked.topics or ())):
            part.resolve(_error(asked.group_id, NO_ROOM))
        else:
            description = _Description(GroupFlow(brokers, context, asked.group_id, part), context, room)
            effects.append(description.begins(asked))
    return Outcome(answer, records_of_state_topic(image, context) if effects else (), effects)


def _error(group_id: str, error: ApiError) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, error_code=error.code, error_message=error.message)


class _Room:
    """What is left of the partitions that one answer may have."""

    def __init__(self) -> None:
        self._left = MAX_PARTITIONS

    def take(self, count: int) -> bool:
        """Whether there is room for so many partitions. If there is, it is taken."""
        if count > self._left:
            return False
        self._left -= count
        return True


class _Description:
    """How one group of a request is described."""

    def __init__(self, flow: GroupFlow, context: RequestContext, room: _Room) -> None:
        self._flow = flow
        self._room = room
        self._may_describe = context.permits(AclOperation.DESCRIBE, AclResourceType.TOPIC)

    def begins(self, asked: DescribeShareGroupOffsetsRequestGroup) -> Begin:
        if asked.topics is None:
            return Begin(self._ask_for_all)
        return Begin(lambda image, now_ms: self._ask_for_topics(image, asked, now_ms))

    def _ask_for_all(self, image: MetadataImage, now_ms: int) -> None:
        def replied(places: Places) -> None:
            shown = {
                topic_id: partitions
                for topic_id, partitions in places.items()
                if (topic := image.topics_by_id.get(topic_id)) is not None and self._may_describe(topic.name)
            }
            if not self._room.take(sum(map(len, shown.values()))):
                self._flow.part.resolve(_error(self._flow.group_id, NO_ROOM))
            else:
                self._summarize(image, shown, [])

        group_id = self._flow.group_id
        self._flow.ask_group(image, lambda groups, step: groups.initialized_partitions(group_id, step), replied, now_ms)

    def _ask_for_topics(self, image: MetadataImage, asked: DescribeShareGroupOffsetsRequestGroup, _now_ms: int) -> None:
        places: dict[Uuid, tuple[int, ...]] = {}
        others = []
        for topic in asked.topics or ():
            known = image.topics_by_name.get(topic.topic_name)
            if not self._may_describe(topic.topic_name):
                others.append(_unknown(topic.topic_name, topic.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif known is None:
                others.insert(0, _unknown(topic.topic_name, topic.partitions, ErrorCode.NONE))
            else:
                known_places = places.get(known.topic_id, ())
                places[known.topic_id] = tuple(dict.fromkeys((*known_places, *topic.partitions)))
        if any(not indexes or min(indexes) < 0 for indexes in places.values()):
            # Kafka's persister refuses such a question as a whole.
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            self._flow.part.resolve(_error(self._flow.group_id, ApiError(code, text_of(code))))
            return
        self._summarize(image, places, others)

    def _summarize(
        self, image: MetadataImage, places: Places, others: list[DescribeShareGroupOffsetsResponseTopic]
    ) -> None:
        keys = [
            SharePartitionKey(self._flow.group_id, topic_id, index)
            for topic_id, indexes in places.items()
            for index in indexes
        ]

        def collected(image: MetadataImage, answers: dict[SharePartitionKey, object], now_ms: int) -> None:
            topics = [
                DescribeShareGroupOffsetsResponseTopic(
                    topic_name=image.topics_by_id[topic_id].name if topic_id in image.topics_by_id else "",
                    topic_id=topic_id,
                    partitions=[
                        self._partition(image, key, answers[key], now_ms) for key in keys if key.topic_id == topic_id
                    ],
                )
                for topic_id in places
            ]
            self._resolve([*topics, *others])

        if not keys:
            self._resolve(others)
            return
        collecting = Answers(len(keys), collected)
        for key in keys:
            self._flow.brokers.shares.persister.ask(key, Summarize(), collecting.of(key), self._flow.part.wait_on)

    def _resolve(self, topics: list[DescribeShareGroupOffsetsResponseTopic]) -> None:
        group = DescribeShareGroupOffsetsResponseGroup(group_id=self._flow.group_id, topics=topics)
        self._flow.part.resolve(group)

    def _partition(
        self, image: MetadataImage, key: SharePartitionKey, answer: object, now_ms: int
    ) -> DescribeShareGroupOffsetsResponsePartition:
        shown = DescribeShareGroupOffsetsResponsePartition(partition_index=key.partition, start_offset=UNINITIALIZED)
        if not isinstance(answer, ShareGroupOffset):
            return shown
        shown.start_offset, shown.leader_epoch = answer.start_offset, answer.leader_epoch
        topic = image.topics_by_id.get(key.topic_id)
        if topic is not None and UNINITIALIZED not in (answer.start_offset, answer.delivery_complete_count):
            hosted = find_partition(image, self._flow.brokers.data, topic, key.partition)
            end = high_watermark(hosted, now_ms) if hosted is not None else 0
            shown.lag = end - answer.start_offset - answer.delivery_complete_count
        return shown


def _unknown(name: str, partitions: Iterable[int], code: ErrorCode) -> DescribeShareGroupOffsetsResponseTopic:
    shown = [
        DescribeShareGroupOffsetsResponsePartition(
            partition_index=index, start_offset=UNINITIALIZED, error_code=code, error_message=text_of(code)
        )
        for index in partitions
    ]
    return DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=ZERO_UUID, partitions=shown)
