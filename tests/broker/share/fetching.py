"""Members that fetch and acknowledge, on a cluster without sockets."""

from collections.abc import Sequence
from typing import Any

from klamm.protocol.messages.data.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.messages.shares import share_acknowledge, share_fetch
from tests.broker.data.batches import batch, record
from tests.broker.groups.conversation import Asked, Conversation
from tests.broker.share.members import join, set_config

ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0
Acks = Sequence[tuple[int, int, Sequence[int]]]


class Fetcher:
    """One member, as its requests to the leader of partition 0 of `t` show it."""

    def __init__(self, group: Conversation, member_id: str, connection_id: int = 0) -> None:
        self.group = group
        self.member_id = member_id
        self.epoch = 0
        self.connection_id = connection_id

    @property
    def topic_id(self) -> Any:
        return self.group.cluster.image.topics_by_name["t"].topic_id

    @property
    def leader(self) -> int:
        return self.group.cluster.partitions("t")[0].leader

    def submit(self, request: Any, version: int | None = None, broker_id: int | None = None) -> Asked:
        cluster = self.group.cluster
        call = cluster.call(request, version=version, broker_id=self.leader if broker_id is None else broker_id)
        object.__setattr__(call, "connection_id", self.connection_id)
        return Asked(cluster, call, cluster.controller.submit(call))

    def fetch_request(
        self, acks: Acks = (), *, epoch: int | None = None, **limits: Any
    ) -> share_fetch.ShareFetchRequest:
        batches = [
            share_fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in acks
        ]
        used = self.epoch if epoch is None else epoch
        partition = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=batches)
        topics = [share_fetch.FetchTopic(topic_id=self.topic_id, partitions=[partition])] if acks or not used else []
        values: dict[str, Any] = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 10**6,
            "max_records": 100,
            "batch_size": 100,
            "topics": topics,
            **limits,
        }
        return share_fetch.ShareFetchRequest(
            group_id=self.group.group_id, member_id=self.member_id, share_session_epoch=used, **values
        )

    def fetch(self, acks: Acks = (), *, epoch: int | None = None, **limits: Any) -> list[tuple[int, int, int]]:
        """What was acquired: first and last offset, delivery count."""
        answer = self.submit(self.fetch_request(acks, epoch=epoch, **limits)).response
        assert answer is not None
        assert answer.error_code == 0, answer
        if epoch is None:
            self.epoch += 1
        partitions = [one for topic in answer.responses for one in topic.partitions]
        assert not any(one.error_code or one.acknowledge_error_code for one in partitions), partitions
        return [
            (one.first_offset, one.last_offset, one.delivery_count)
            for partition in partitions
            for one in partition.acquired_records
        ]

    def acknowledge(self, *acks: tuple[int, int, Sequence[int]], renew: bool = False) -> int:
        """The error code of the partition, or of the request."""
        asked = self.submit(self.acknowledge_request(acks, renew=renew))
        if asked.response is None:
            self.group.pass_time(2)
        answer = asked.response
        if answer.error_code:
            return int(answer.error_code)
        self.epoch += 1
        return int(answer.responses[0].partitions[0].error_code)

    def acknowledge_request(self, acks: Acks, *, renew: bool = False) -> share_acknowledge.ShareAcknowledgeRequest:
        batches = [
            share_acknowledge.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in acks
        ]
        partition = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        return share_acknowledge.ShareAcknowledgeRequest(
            group_id=self.group.group_id,
            member_id=self.member_id,
            share_session_epoch=self.epoch,
            is_renew_ack=renew,
            topics=[share_acknowledge.AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])],
        )

    def close(self) -> None:
        """End the session."""
        assert self.fetch(epoch=-1, topics=[]) == []
        self.epoch = 0


def produce(group: Conversation, count: int, *, partition: int = 0) -> None:
    """One batch of records."""
    leader = group.cluster.partitions("t")[partition].leader
    data = PartitionProduceData(index=partition, records=batch([record(index) for index in range(count)]))
    request = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    call = group.cluster.call(request, version=12, broker_id=leader)
    asked = Asked(group.cluster, call, group.cluster.controller.submit(call))
    assert asked.response is not None
    group.pass_time(1)


def begin(group: Conversation, *batches: int) -> Fetcher:
    """Member `a` has joined, and the partition has these batches."""
    set_config(group, "share.auto.offset.reset", "earliest")
    join(group, "a")
    for count in batches:
        produce(group, count)
    return Fetcher(group, "a")
