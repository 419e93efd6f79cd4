"""The offsets of one shard's groups of all protocols: what streams groups (KIP-1071) allow differs."""

from collections.abc import Mapping, Sequence

from klamm.broker.coordinator.outbox import Outbox, Waiter
from klamm.broker.groups.classic_group import NO_TIMESTAMP, ClassicGroup
from klamm.broker.groups.classic_protocol import ClassicProtocol
from klamm.broker.groups.consumer.hosted import ConsumerGroups
from klamm.broker.groups.consumer.offsets import Committer as CheckedCommitter
from klamm.broker.groups.offset_protocol import ANYONE, Commit, Committer, Reader, utf16_length
from klamm.broker.groups.offsets import Offsets
from klamm.broker.groups.settings import GroupSettings
from klamm.broker.groups.share.hosted import ShareGroups
from klamm.broker.groups.share.share_offsets import OffsetsWithShareGroups
from klamm.broker.groups.streams import offsets
from klamm.broker.groups.streams.group import StreamsGroup
from klamm.broker.groups.streams.hosted import StreamsGroups
from klamm.broker.groups.streams.member import Member
from klamm.protocol.errors import ErrorCode


class StreamsOffsets(OffsetsWithShareGroups):
    """The operations on the offsets of one shard."""

    def __init__(
        self,
        groups: Mapping[str, ClassicGroup],
        offsets_kept: Offsets,
        classic: ClassicProtocol,
        settings: GroupSettings,
        consumer: ConsumerGroups,
        share: ShareGroups,
        streams: StreamsGroups,
    ) -> None:
        super().__init__(groups, offsets_kept, classic, settings, consumer, share)
        self._streams = streams

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
        """OffsetCommit: the response is a `Committed`."""
        group = self._streams.groups.get(committer.group_id)
        if group is None:
            return super().commit(
                committer, commits, waiter, now_ms, api_version=api_version, retention_ms=retention_ms
            )
        return self._commit_to_streams(group, committer, commits, waiter, now_ms, Outbox(), api_version=api_version)

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
        group = self._streams.groups.get(committer.group_id)
        if group is None:
            return super().commit_in_transaction(
                committer, commits, waiter, now_ms, producer_id=producer_id, producer_epoch=producer_epoch
            )
        out = Outbox(producer_id=producer_id, producer_epoch=producer_epoch)
        return self._commit_to_streams(group, committer, commits, waiter, now_ms, out, api_version=0)

    def _commit_to_streams(
        self,
        group: StreamsGroup,
        committer: Committer,
        commits: Sequence[Commit],
        waiter: Waiter,
        now_ms: int,
        out: Outbox,
        *,
        api_version: int,
    ) -> Outbox:
        transactional = out.producer_id != -1
        epoch = committer.generation_id
        checked = offsets.check_commit(
            group,
            CheckedCommitter(committer.member_id, committer.instance_id, epoch, api_version, transactional),
        )
        if isinstance(checked, ErrorCode):
            out.refuse(waiter, _code(checked, transactional=transactional))
            return out
        if checked is not None and not self._may_commit(group, checked, epoch, commits, transactional=transactional):
            # One partition that may not be committed refuses all, as in Kafka.
            out.refuse(waiter, _code(ErrorCode.STALE_MEMBER_EPOCH, transactional=transactional))
            return out
        self._write_commits(out, committer.group_id, commits, waiter, now_ms, NO_TIMESTAMP)
        return out

    def _may_commit(
        self, group: StreamsGroup, member: Member, epoch: int, commits: Sequence[Commit], *, transactional: bool
    ) -> bool:
        """Whether an older epoch of the member may commit these partitions. Those whose metadata is too large are
        refused for themselves."""
        topics, most = self._streams.cluster.topics(), self._settings.offset_metadata_max_bytes
        return all(
            offsets.may_commit(group, member, epoch, one.topic_name, one.partition)
            and not (transactional and topics.named(one.topic_name) is None)
            for one in commits
            if utf16_length(one.metadata) <= most
        )

    def fetch(
        self,
        group_id: str,
        wanted: Mapping[str, Sequence[int]] | None,
        waiter: Waiter,
        *,
        require_stable: bool,
        reader: Reader = ANYONE,
    ) -> Outbox:
        """OffsetFetch for one group: the response is a `FetchedOffsets`."""
        group = self._streams.groups.get(group_id)
        code = (
            offsets.check_fetch(group, reader.member_id, reader.member_epoch) if group is not None else ErrorCode.NONE
        )
        if not code:
            return super().fetch(group_id, wanted, waiter, require_stable=require_stable, reader=reader)
        out = Outbox()
        out.refuse(waiter, code)
        return out

    def delete_offsets(self, group_id: str, wanted: Mapping[str, Sequence[int]], waiter: Waiter) -> Outbox:
        """OffsetDelete: the response is a `Committed`."""
        group = self._streams.groups.get(group_id)
        if group is None:
            return super().delete_offsets(group_id, wanted, waiter)
        return self._delete_unless(group.is_subscribed, group_id, wanted, waiter)


def _code(code: ErrorCode, *, transactional: bool) -> ErrorCode:
    """TxnOffsetCommit knows no stale epochs."""
    stale = code is ErrorCode.STALE_MEMBER_EPOCH
    return ErrorCode.ILLEGAL_GENERATION if transactional and stale else code
