"""The offsets of one shard's groups of both protocols: what consumer groups (KIP-848) allow differs."""

from collections.abc import Mapping, Sequence

from klamm.broker.coordinator.outbox import Outbox, Waiter
from klamm.broker.groups.classic_group import NO_TIMESTAMP, ClassicGroup
from klamm.broker.groups.classic_protocol import ClassicProtocol
from klamm.broker.groups.consumer import offsets
from klamm.broker.groups.consumer.group import ConsumerGroup
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
        group = self._consumer.groups.get(committer.group_id)
        if group is None:
            return super().commit(
                committer, commits, waiter, now_ms, api_version=api_version, retention_ms=retention_ms
            )
        return self._commit_to_consumer(group, committer, commits, waiter, now_ms, Outbox(), api_version=api_version)

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
        group = self._consumer.groups.get(committer.group_id)
        if group is None:
            return super().commit_in_transaction(
                committer, commits, waiter, now_ms, producer_id=producer_id, producer_epoch=producer_epoch
            )
        out = Outbox(producer_id=producer_id, producer_epoch=producer_epoch)
        return self._commit_to_consumer(group, committer, commits, waiter, now_ms, out, api_version=0)

    def _commit_to_consumer(
        self,
        group: ConsumerGroup,
        committer: Committer,
        commits: Sequence[Commit],
        waiter: Waiter,
        now_ms: int,
        out: Outbox,
        *,
        api_version: int,
    ) -> Outbox:
        transactional = out.producer_id != -1
        asked = offsets.Committer(
            committer.member_id, committer.instance_id, committer.generation_id, api_version, transactional
        )
        checked = offsets.check_commit(group, asked)
        refusal = self._first_refused(checked, commits, transactional=transactional) if callable(checked) else checked
        if refusal is not None:
            # One partition that may not be committed refuses all, as in Kafka.
            out.refuse(waiter, _commit_code(refusal, transactional=transactional))
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
        group = self._consumer.groups.get(group_id)
        refusal = offsets.check_fetch(group, reader.member_id, reader.member_epoch) if group is not None else None
        if refusal is None:
            return super().fetch(group_id, wanted, waiter, require_stable=require_stable, reader=reader)
        out = Outbox()
        out.refuse(waiter, refusal.code)
        return out

    def delete_offsets(self, group_id: str, wanted: Mapping[str, Sequence[int]], waiter: Waiter) -> Outbox:
        """OffsetDelete: the response is a `Committed`."""
        group = self._consumer.groups.get(group_id)
        if group is None:
            return super().delete_offsets(group_id, wanted, waiter)
        return self._delete_unless(self._consumer.is_subscribed(group), group_id, wanted, waiter)


def _commit_code(refusal: ApiError, *, transactional: bool) -> ErrorCode:
    """TxnOffsetCommit knows no stale epochs."""
    stale = refusal.code is ErrorCode.STALE_MEMBER_EPOCH
    return ErrorCode.ILLEGAL_GENERATION if transactional and stale else refusal.code
