"""What OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete do to the offsets of a shard's groups.

Order of the checks: Kafka's OffsetMetadataManager.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from klamm.broker.coordinator.outbox import Outbox, Waiter
from klamm.broker.groups.classic_group import NO_TIMESTAMP, ClassicGroup, GroupState
from klamm.broker.groups.classic_protocol import ClassicProtocol
from klamm.broker.groups.limits import MAX_GROUPS, MAX_OFFSETS, MAX_PENDING_OFFSETS
from klamm.broker.groups.offsets import NO_EPOCH, NO_OFFSET, CommittedOffset, Offsets, write_offset, write_tombstone
from klamm.broker.groups.settings import GroupSettings
from klamm.protocol.errors import ErrorCode
from klamm.protocol.uuid import ZERO_UUID, Uuid

FIRST_COMMIT_VERSION_WITH_GROUP_ID_NOT_FOUND: Final = 9
UNKNOWN = CommittedOffset(NO_OFFSET, NO_EPOCH, "", NO_TIMESTAMP, NO_TIMESTAMP, ZERO_UUID, NO_OFFSET)
"""What OffsetFetch shows for a partition without a committed offset."""


@dataclass(frozen=True, slots=True)
class Commit:
    """An offset to commit for one partition."""

    topic_name: str
    topic_id: Uuid
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    timestamp_ms: int | None = None
    """When it is committed; None: now."""


@dataclass(frozen=True, slots=True)
class Committer:
    """Who commits. `generation_id` is -1 for a commit outside of a generation."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation_id: int


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads offsets: the member and its epoch, as far as the request says."""

    member_id: str | None
    member_epoch: int


ANYONE: Final = Reader(None, -1)


@dataclass(frozen=True, slots=True)
class Committed:
    """The outcome of a commit: error codes by topic name and partition, in the order of the commits."""

    codes: Mapping[tuple[str, int], ErrorCode]


@dataclass(frozen=True, slots=True)
class FetchedOffsets:
    """The outcome of a fetch: by topic name, pairs of a partition and its offset, in the order of the request. An error
    code stands in place of an offset that is unstable."""

    offsets: Mapping[str, Sequence[tuple[int, CommittedOffset | ErrorCode]]]


class OffsetProtocol:
    """The operations on the offsets of one shard. It shares groups and offsets with the shard's `Groups`."""

    def __init__(
        self, groups: Mapping[str, ClassicGroup], offsets: Offsets, classic: ClassicProtocol, settings: GroupSettings
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._classic = classic
        self._settings = settings

    def commit(
        self,
        committer: Committer,
        commits: Sequence[Commit],
        waiter: Waiter,
        now_ms: int,
        *,
        api_version: int,
        retention_ms: int = -1,
    ) -> Outbox:
        """OffsetCommit: the response is a `Committed`. `retention_ms`: the offsets expire after this time; -1: by the
        group's rule."""
        out = Outbox()
        group = self._groups.get(committer.group_id)
        if group is None and committer.generation_id >= 0:
            is_known = api_version >= FIRST_COMMIT_VERSION_WITH_GROUP_ID_NOT_FOUND
            out.refuse(waiter, ErrorCode.GROUP_ID_NOT_FOUND if is_known else ErrorCode.ILLEGAL_GENERATION)
            return out
        code = _refuse_commit(group, committer) if group else ErrorCode.NONE
        if group is None and len(self._groups) >= MAX_GROUPS:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if code:
            out.refuse(waiter, code)
            return out
        if group and committer.generation_id >= 0:
            self._classic.touch(group, committer.member_id, now_ms)
        expire_ms = NO_TIMESTAMP if retention_ms == -1 else now_ms + retention_ms
        self._write_commits(out, committer.group_id, commits, waiter, now_ms, expire_ms)
        return out

    def commit_in_transaction(
        self,
        committer: Committer,
        commits: Sequence[Commit],
        waiter: Waiter,
        now_ms: int,
        *,
        producer_id: int,
        producer_epoch: int,
    ) -> Outbox:
        """TxnOffsetCommit: like `commit`; the offsets are pending until the producer's transaction ends."""
        out = Outbox(producer_id=producer_id, producer_epoch=producer_epoch)
        group = self._groups.get(committer.group_id)
        code = ErrorCode.NONE
        if group is not None:
            code = _refuse_commit(group, committer, in_transaction=True)
        elif committer.generation_id >= 0:
            code = ErrorCode.ILLEGAL_GENERATION
        elif len(self._groups) >= MAX_GROUPS:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if code:
            out.refuse(waiter, code)
            return out
        self._write_commits(out, committer.group_id, commits, waiter, now_ms, NO_TIMESTAMP)
        return out

    def _write_commits(
        self,
        out: Outbox,
        group_id: str,
        commits: Sequence[Commit],
        waiter: Waiter,
        now_ms: int,
        expire_ms: int,
    ) -> None:
        codes = {}
        for one in commits:
            code = ErrorCode.NONE
            if utf16_length(one.metadata) > self._settings.offset_metadata_max_bytes:
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            elif self._is_full(out, group_id, one):
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            else:
                write_offset(
                    out,
                    group_id,
                    one.topic_name,
                    one.partition,
                    one.offset,
                    leader_epoch=one.leader_epoch,
                    metadata=one.metadata,
                    now_ms=now_ms if one.timestamp_ms is None else one.timestamp_ms,
                    expire_timestamp_ms=expire_ms,
                    topic_id=one.topic_id,
                )
            codes[one.topic_name, one.partition] = code
        out.reply(waiter, Committed(codes))

    def _is_full(self, out: Outbox, group_id: str, one: Commit) -> bool:
        """Whether one more offset exceeds a limit of the shard."""
        offsets, more = self._offsets, len(out.records)
        if out.producer_id >= 0 and offsets.pending_count + more >= MAX_PENDING_OFFSETS:
            return True
        return offsets.count + more >= MAX_OFFSETS and not offsets.find(group_id, one.topic_name, one.partition)

    def fetch(
        self,
        group_id: str,
        wanted: Mapping[str, Sequence[int]] | None,
        waiter: Waiter,
        *,
        require_stable: bool,
        reader: Reader = ANYONE,
    ) -> Outbox:
        """OffsetFetch for one group: the response is a `FetchedOffsets`. `wanted` has partitions by topic name; None:
        all that the group has committed. With `require_stable` offsets that an open transaction changes are
        UNSTABLE_OFFSET_COMMIT. `reader` counts in consumer groups only."""
        known = self._offsets.of_group(group_id)
        if wanted is None:
            wanted = {topic: list(partitions) for topic, partitions in known.items()}
        found: dict[str, list[tuple[int, CommittedOffset | ErrorCode]]] = {}
        for topic, partitions in wanted.items():
            of_topic, shown = known.get(topic, {}), found.setdefault(topic, [])
            for partition in partitions:
                if require_stable and self._offsets.is_pending(group_id, topic, partition):
                    shown.append((partition, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                else:
                    shown.append((partition, of_topic.get(partition, UNKNOWN)))
        out = Outbox()
        out.reply(waiter, FetchedOffsets(found))
        return out

    def delete_offsets(self, group_id: str, wanted: Mapping[str, Sequence[int]], waiter: Waiter) -> Outbox:
        """OffsetDelete: the response is a `Committed`."""
        out = Outbox()
        group = self._groups.get(group_id)
        if group is None:
            out.refuse(waiter, ErrorCode.GROUP_ID_NOT_FOUND)
            return out
        if group.state is not GroupState.EMPTY and not group.uses_consumer_protocol:
            out.refuse(waiter, ErrorCode.NON_EMPTY_GROUP)
            return out
        return self._delete_unless(group.is_subscribed_to, group_id, wanted, waiter)

    def _delete_unless(
        self,
        is_subscribed_to: Callable[[str], bool],
        group_id: str,
        wanted: Mapping[str, Sequence[int]],
        waiter: Waiter,
    ) -> Outbox:
        """Remove the offsets of the topics that members are not subscribed to."""
        out, codes = Outbox(), {}
        for topic, partitions in wanted.items():
            is_subscribed = is_subscribed_to(topic)
            for partition in partitions:
                codes[topic, partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE
                is_known = self._offsets.find(group_id, topic, partition) is not None
                if not is_subscribed and (is_known or self._offsets.is_pending(group_id, topic, partition)):
                    write_tombstone(out, group_id, topic, partition)
        out.reply(waiter, Committed(codes))
        return out


def utf16_length(text: str) -> int:
    """The number of UTF-16 units: the length of a Java string."""
    return len(text) + sum(character > "\uffff" for character in text)


def _refuse_commit(group: ClassicGroup, committer: Committer, *, in_transaction: bool = False) -> ErrorCode:
    """Why a group does not accept a commit; NONE if it does."""
    generation_id = committer.generation_id
    if generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation_id >= 0 or committer.member_id or committer.instance_id is not None:
        code = group.validate_member(committer.member_id, committer.instance_id)
        if code:
            return code
        if generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
    elif not in_transaction and group.state is not GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not in_transaction and group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
