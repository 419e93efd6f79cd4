"""The offsets of one shard's groups of both protocols: what consumer groups (KIP-848) allow differs."""

from collections.abc import Mapping, Sequence

from klamm.broker.coordinator.outbox import Outbox, Waiter
from klamm.broker.groups.classic_group import NO_TIMESTAMP, ClassicGroup
from klamm.broker.groups.classic_protocol import ClassicProtocol
from klamm.broker.groups.consumer import offsets
from klamm.broker.groups.consumer.hosted import ConsumerGroups
from klamm.broker.groups.offset_protocol import ANYONE, Commit, Committer, OffsetProtocol, Reader, utf16_length
from klamm.broker.groups.offsets import Offsets
from klamm.broker.groups.settings import GroupSettings
from klamm.protocol.errors import ApiError, ErrorCode


class AllOffsets(OffsetProtocol):
    """The operations on the offsets of one shard."""

    def __init__(
        self,
        groups: Mapping[str, ClassicGroup],
        offsets: Offsets,
        classic: ClassicProtocol,
        settings: GroupSettings,
        consumer: ConsumerGroups,
    ) -> None:
        super().__init__(groups, offsets, classic, settings)
        self._consumer = consumer

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
        out = self._commit_to_members(committer, commits, waiter, now_ms, Outbox(), api_version=api_version)
        if out is not None:
            return out
        return super().commit(committer, commits, waiter, now_ms, api_version=api_version, retention_ms=retention_ms)

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
        settled = self._commit_to_members(committer, commits, waiter, now_ms, out, api_version=0)
        if settled is not None:
            return settled
        return super().commit_in_transaction(
            committer, commits, waiter, now_ms, producer_id=producer_id, producer_epoch=producer_epoch
        )

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
        """Decide a commit by the members of a group that is no classic one. None: the group is one, or there is none.
        `out` says whether the commit is part of a transaction."""
        group = self._consumer.groups.get(committer.group_id)
        if group is None:
            return None
        transactional = out.producer_id != -1
        asked = offsets.Committer(
            committer.member_id, committer.instance_id, committer.generation_id, api_version, transactional
        )
        checked = offsets.check_commit(group, asked)
        refusal = self._first_refused(checked, commits, transactional=transactional) if callable(checked) else checked
        if refusal is not None:
            # One partition that may not be committed refuses all, as in Kafka.
            out.refuse(waiter, commit_code(refusal.code, transactional=transactional))
            return out
        self._write_commits(out, committer.group_id, commits, waiter, now_ms, NO_TIMESTAMP)
        return out

    def _first_refused(
        self, check: offsets.PartitionCheck, commits: Sequence[Commit], *, transactional: bool
    ) -> ApiError | None:
        """Why an older epoch may not commit a partition. Those whose metadata is too large are refused for
        themselves."""
        topics = self._consumer.cluster.topics()
        for one in commits:
            if utf16_length(one.metadata) <= self._settings.offset_metadata_max_bytes:
                topic = topics.named(one.topic_name)
                if topic is None and transactional:
                    return ApiError(ErrorCode.ILLEGAL_GENERATION)
                refusal = check(topic.topic_id if topic is not None else one.topic_id, one.partition)
                if refusal is not None:
                    return refusal
        return None

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
        code = self._fetch_refusal(group_id, reader)
        if not code:
            return super().fetch(group_id, wanted, waiter, require_stable=require_stable, reader=reader)
        out = Outbox()
        out.refuse(waiter, code)
        return out

    def _fetch_refusal(self, group_id: str, reader: Reader) -> ErrorCode:
        """Why the members of a group that is no classic one may not read its offsets."""
        group = self._consumer.groups.get(group_id)
        refusal = offsets.check_fetch(group, reader.member_id, reader.member_epoch) if group is not None else None
        return ErrorCode.NONE if refusal is None else refusal.code

    def delete_offsets(self, group_id: str, wanted: Mapping[str, Sequence[int]], waiter: Waiter) -> Outbox:
        """OffsetDelete: the response is a `Committed`."""
        group = self._consumer.groups.get(group_id)
        if group is None:
            return super().delete_offsets(group_id, wanted, waiter)
        return self._delete_unless(self._consumer.is_subscribed(group), group_id, wanted, waiter)


def commit_code(code: ErrorCode, *, transactional: bool) -> ErrorCode:
    """The error of a refused commit: TxnOffsetCommit knows no stale epochs."""
    stale = code is ErrorCode.STALE_MEMBER_EPOCH
    return ErrorCode.ILLEGAL_GENERATION if transactional and stale else code
