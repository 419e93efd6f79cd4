"""The offsets of one shard's groups of all protocols: what streams groups (KIP-1071) allow differs."""

from collections.abc import Mapping, Sequence

from klamm.broker.coordinator.outbox import Outbox, Waiter
from klamm.broker.groups.all_offsets import commit_code
from klamm.broker.groups.classic_group import NO_TIMESTAMP, ClassicGroup
from klamm.broker.groups.classic_protocol import ClassicProtocol
from klamm.broker.groups.consumer.hosted import ConsumerGroups
from klamm.broker.groups.consumer.offsets import Committer as CheckedCommitter
from klamm.broker.groups.offset_protocol import Commit, Committer, Reader, utf16_length
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

    def _commit_to_members(
        self,
        committer: Committer,
        commits: Sequence[Commit],
        waiter: Waiter,
        now_ms: int,
        out: Outbox,
        *,
        api_version: int,
    ) -> Outbox | None:
        group = self._streams.groups.get(committer.group_id)
        if group is None:
            return super()._commit_to_members(committer, commits, waiter, now_ms, out, api_version=api_version)
        transactional = out.producer_id != -1
        epoch = committer.generation_id
        checked = offsets.check_commit(
            group,
            CheckedCommitter(committer.member_id, committer.instance_id, epoch, api_version, transactional),
        )
        if isinstance(checked, ErrorCode):
            out.refuse(waiter, commit_code(checked, transactional=transactional))
            return out
        if checked is not None and not self._may_commit(group, checked, epoch, commits, transactional=transactional):
            # One partition that may not be committed refuses all, as in Kafka.
            out.refuse(waiter, commit_code(ErrorCode.STALE_MEMBER_EPOCH, transactional=transactional))
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

    def _fetch_refusal(self, group_id: str, reader: Reader) -> ErrorCode:
        group = self._streams.groups.get(group_id)
        if group is None:
            return super()._fetch_refusal(group_id, reader)
        return offsets.check_fetch(group, reader.member_id, reader.member_epoch)

    def delete_offsets(self, group_id: str, wanted: Mapping[str, Sequence[int]], waiter: Waiter) -> Outbox:
        """OffsetDelete: the response is a `Committed`."""
        group = self._streams.groups.get(group_id)
        if group is None:
            return super().delete_offsets(group_id, wanted, waiter)
        return self._delete_unless(group.is_subscribed, group_id, wanted, waiter)
