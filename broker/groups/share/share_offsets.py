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
        if committer.group_id in self._share.groups:
            out.refuse(waiter, ErrorCode.GROUP_ID_NOT_FOUND)
            return out
        return super()._commit_to_members(committer, commits, waiter, now_ms, out, api_version=api_version)

    def delete_offsets(self, group_id: str, wanted: Mapping[str, Sequence[int]], waiter: Waiter) -> Outbox:
        """OffsetDelete."""
        if group_id not in self._share.groups:
            return super().delete_offsets(group_id, wanted, waiter)
        out = Outbox()
        out.refuse(waiter, ErrorCode.GROUP_ID_NOT_FOUND)
        return out
