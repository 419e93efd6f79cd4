"""OffsetFetch (9): the committed offsets of one group, or, from version 8 on, of several (KIP-709)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.outbox import Outbox, Waiter
from klamm.broker.groups.groups import Groups
from klamm.broker.groups.offset_protocol import FetchedOffsets, Reader
from klamm.broker.groups.offsets import NO_EPOCH, NO_OFFSET, CommittedOffset
from klamm.broker.handlers.groups.first_offsets import fetch_first_offsets
from klamm.broker.handlers.groups.submission import Operation, submit_each
from klamm.controller.answer_room import NO_ROOM, AnswerRoom, encoded_at_most
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offsets.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from klamm.protocol.uuid import ZERO_UUID, Uuid

VERSION_OF_ZOOKEEPER = 0
FIRST_VERSION_WITH_ERROR = 2
FIRST_VERSION_WITH_GROUPS = 8
FIRST_VERSION_BY_ID = 10
MAX_TIMES_ALL = 16
"""A request may ask so many times for all offsets of one group."""


def handle_offset_fetch(
    brokers: SimulatedBrokers, image: MetadataImage, request: OffsetFetchRequest, context: RequestContext
) -> Outcome:
    """The offsets of each group; of a partition without one, offset -1 and no error."""
    if context.api_version == VERSION_OF_ZOOKEEPER:
        return fetch_first_offsets(brokers, image, request, context)
    has_groups = context.api_version >= FIRST_VERSION_WITH_GROUPS
    asked = [_Asked.make(image, context, group) for group in (request.groups if has_groups else [_only_group(request)])]
    too_many = _too_many_of_all(asked)
    parts = [
        (one.group_id, _refusing(NO_ROOM.code) if number in too_many else one.operation(request.require_stable), _same)
        for number, one in enumerate(asked)
    ]

    def finish(found: list[FetchedOffsets | ErrorCode]) -> OffsetFetchResponse:
        groups = [one.response(result) for one, result in zip(asked, found, strict=True)]
        if has_groups:
            return OffsetFetchResponse(groups=groups if len(groups) == 1 else _with_room(groups))
        return _for_one_group(groups[0], request, context.api_version)

    return submit_each(brokers, context, parts, finish)


def _same(code: ErrorCode) -> ErrorCode:
    return code


def _too_many_of_all(asked: Sequence["_Asked"]) -> set[int]:
    """The numbers of the groups whose offsets were all asked for too often before."""
    times: Counter[str] = Counter()
    found = set()
    for number, one in enumerate(asked):
        if one.wanted is None:
            times[one.group_id] += 1
            if times[one.group_id] > MAX_TIMES_ALL:
                found.add(number)
    return found


def _refusing(code: ErrorCode) -> Operation:
    def refuse(_groups: Groups, waiter: Waiter, _now_ms: int) -> Outbox:
        out = Outbox()
        out.refuse(waiter, code)
        return out

    return refuse


def _with_room(groups: Sequence[OffsetFetchResponseGroup]) -> list[OffsetFetchResponseGroup]:
    """The groups; those for which the answer has no room, with an error instead of offsets."""
    room = AnswerRoom()
    return [
        group
        if room.take(group.group_id, encoded_at_most(group))
        else OffsetFetchResponseGroup(group_id=group.group_id, error_code=NO_ROOM.code)
        for group in groups
    ]


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


class _Asked(NamedTuple):
    """What a request wants to know of one group, and what it may not know."""

    group_id: str
    wanted: Mapping[str, Sequence[int]] | None
    """Partitions by topic name; None: all."""
    refused: Sequence[tuple[str, Uuid, Sequence[int], ErrorCode]]
    """Topics that are not shown: name, id, partitions, reason."""
    by_id: bool
    image: MetadataImage
    context: RequestContext
    reader: Reader

    @classmethod
    def make(cls, image: MetadataImage, context: RequestContext, group: OffsetFetchRequestGroup) -> "_Asked":
        by_id = context.api_version >= FIRST_VERSION_BY_ID
        reader = Reader(group.member_id, group.member_epoch)
        if group.topics is None:
            return cls(group.group_id, None, (), by_id, image, context, reader)
        wanted: dict[str, list[int]] = {}
        refused = []
        for topic in group.topics:
            known = image.topics_by_id.get(topic.topic_id) if by_id else None
            name = known.name if known else topic.name
            if by_id and known is None:
                refused.append((name, topic.topic_id, topic.partition_indexes, ErrorCode.UNKNOWN_TOPIC_ID))
            elif not context.authorize(AclOperation.DESCRIBE, AclResourceType.TOPIC, name):
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                refused.append((name, topic.topic_id, topic.partition_indexes, code))
            else:
                wanted.setdefault(name, []).extend(topic.partition_indexes)
        return cls(group.group_id, wanted, refused, by_id, image, context, reader)

    def operation(self, require_stable: bool) -> Operation:
        """What to ask the group's coordinator."""

        def fetch(groups: Groups, waiter: Waiter, _now_ms: int) -> Outbox:
            return groups.offset_protocol.fetch(
                self.group_id, self.wanted, waiter, require_stable=require_stable, reader=self.reader
            )

        return fetch if self._may_describe else _refusing(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    @property
    def _may_describe(self) -> bool:
        return self.context.authorize(AclOperation.DESCRIBE, AclResourceType.GROUP, self.group_id)

    def response(self, found: FetchedOffsets | ErrorCode) -> OffsetFetchResponseGroup:
        """The answer for this group."""
        if not self._may_describe:
            found = ErrorCode.GROUP_AUTHORIZATION_FAILED
        if isinstance(found, ErrorCode):
            return OffsetFetchResponseGroup(group_id=self.group_id, error_code=found)
        topics = []
        for name, partitions in found.offsets.items():
            known = self.image.topics_by_name.get(name)
            if self.wanted is None and (
                (self.by_id and known is None)
                or not self.context.authorize(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)
            ):
                continue
            shown = [_partition(partition, committed) for partition, committed in partitions]
            topic_id = known.topic_id if known else ZERO_UUID
            topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=shown))
        for name, topic_id, indexes, code in self.refused:
            shown = [_partition(index, code) for index in indexes]
            topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=shown))
        return OffsetFetchResponseGroup(group_id=self.group_id, topics=topics)


def _partition(index: int, committed: CommittedOffset | ErrorCode) -> OffsetFetchResponsePartitions:
    if isinstance(committed, ErrorCode):
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, committed_leader_epoch=NO_EPOCH, error_code=committed
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _for_one_group(
    group: OffsetFetchResponseGroup, request: OffsetFetchRequest, api_version: int
) -> OffsetFetchResponse:
    """The answer in the form of the versions before 8. The first ones have no error for the whole group."""
    if group.error_code and api_version < FIRST_VERSION_WITH_ERROR:
        code = ErrorCode(group.error_code)
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name, partitions=[_partition(at, code) for at in topic.partition_indexes]
            )
            for topic in request.topics or ()
        ]
        group = OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=one.partition_index,
                        committed_offset=one.committed_offset,
                        committed_leader_epoch=one.committed_leader_epoch,
                        metadata=one.metadata,
                        error_code=one.error_code,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
