"""Committed offsets and share groups: a share group has none, and its id cannot be used for them. OffsetFetch finds
none, as for a group that does not exist."""

from collections.abc import Mapping, Sequence

from klamm.broker.coordinator.outbox import Outbox, Waiter
from klamm.broker.groups.all_offsets import AllOffsets
from klamm.broker.groups.classic_group import ClassicGroup
from klamm.broker.groups.classic_protocol import ClassicProtocol
from klamm.broker.groups.consumer.hosted import ConsumerGroups
from klamm.broker.groups.offset_protocol import Commit, Committer
from klamm.broker.groups.offsets import Offsets
from klamm.broker.groups.settings import GroupSettings
from klamm.broker.groups.share.hosted import ShareGroups
from klamm.protocol.errors import ErrorCode


class OffsetsWithShareGroups(AllOffsets):
    """The operations on the offsets of one shard."""

    def __init__(
        self,
        groups: Mapping[str, ClassicGroup],
        offsets: Offsets,
        classic: ClassicProtocol,
        settings: GroupSettings,
        consumer: ConsumerGroups,
        share: ShareGroups,
    ) -> None:
        super().__init__(groups, offsets, classic, settings, consumer)
        self._share = share

    def _refused(self, group_id: str, waiter: Waiter) -> Outbox | None:
        if group_id not in self._share.groups:
            return None
        out = Outbox()
        out.refuse(waiter, ErrorCode.GROUP_ID_NOT_FOUND)
        return out

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
        """OffsetCommit."""
        return self._refused(committer.group_id, waiter) or super().commit(
            committer, commits, waiter, now_ms, api_version=api_version, retention_ms=retention_ms
        )

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
        """TxnOffsetCommit."""
        return self._refused(committer.group_id, waiter) or super().commit_in_transaction(
            committer, commits, waiter, now_ms, producer_id=producer_id, producer_epoch=producer_epoch
        )

    def delete_offsets(self, group_id: str, wanted: Mapping[str, Sequence[int]], waiter: Waiter) -> Outbox:
        """OffsetDelete."""
        return self._refused(group_id, waiter) or super().delete_offsets(group_id, wanted, waiter)
