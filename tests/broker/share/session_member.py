"""A member whose requests go to broker 1, about any topic and several partitions, on a cluster without sockets."""

from dataclasses import replace
from typing import Any

from klamm.protocol.messages.data.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.messages.shares import share_fetch
from klamm.protocol.uuid import Uuid
from tests.broker.data.batches import batch
from tests.broker.groups.conversation import Asked, Conversation
from tests.broker.share.members import join, new_conversation, set_config

UNKNOWN = Uuid(bytes(15) + b"\x07")
"""The id of no topic."""
BOTH = (0, 1)


def with_topic_both() -> Conversation:
    """A topic whose two partitions have the same leader, broker 1."""
    group = new_conversation()
    group.cluster.create_at("both", [1, 2, 3], [1, 2, 3])
    return group


def partitions(topic_id: Uuid, *indexes: int, acks: Any = ()) -> share_fetch.FetchTopic:
    batches = [
        share_fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
        for first, last, types in acks
    ]
    return share_fetch.FetchTopic(
        topic_id=topic_id,
        partitions=[
            share_fetch.FetchPartition(partition_index=index, acknowledgement_batches=batches) for index in indexes
        ],
    )


class Member:
    """Requests of one member to broker 1, about any topic."""

    def __init__(self, group: Conversation, member_id: str = "a", connection_id: int = 1) -> None:
        self.group, self.member_id, self.connection_id = group, member_id, connection_id
        self.epoch = 0

    def id_of(self, topic_name: str) -> Uuid:
        return self.group.cluster.image.topics_by_name[topic_name].topic_id

    def request(self, *topics: share_fetch.FetchTopic, **fields: Any) -> share_fetch.ShareFetchRequest:
        values: dict[str, Any] = {
            "group_id": self.group.group_id,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "min_bytes": 1,
            "max_bytes": 10**6,
            "max_records": 100,
            "batch_size": 100,
            "topics": topics,
            **fields,
        }
        return share_fetch.ShareFetchRequest(**values)

    def submit(self, request: Any, version: int | None = None, broker_id: int = 1, **of_call: Any) -> Asked:
        cluster = self.group.cluster
        call = cluster.call(request, version=version, broker_id=broker_id)
        object.__setattr__(call, "connection_id", self.connection_id)
        call = replace(call, **of_call)
        object.__setattr__(call, "connection_id", self.connection_id)
        return Asked(cluster, call, cluster.controller.submit(call))

    def fetch(self, *topics: share_fetch.FetchTopic, **fields: Any) -> Any:
        """The answer to the next request of the session."""
        asked = self.submit(self.request(*topics, **fields))
        if asked.is_waiting:
            self.group.pass_time(2)
        answer = asked.response
        assert answer is not None
        if not answer.error_code and "share_session_epoch" not in fields:
            self.epoch += 1
        return answer


def shown(answer: Any) -> list[tuple[int, int, int]]:
    """Partition, error code and number of acquired records."""
    return [
        (
            one.partition_index,
            one.error_code,
            sum(each.last_offset - each.first_offset + 1 for each in one.acquired_records),
        )
        for topic in answer.responses
        for one in topic.partitions
    ]


def acks_of(answer: Any) -> list[tuple[int, int]]:
    return [(one.partition_index, one.acknowledge_error_code) for topic in answer.responses for one in topic.partitions]


def subscribe(group: Conversation, *topic_names: str) -> Member:
    set_config(group, "share.auto.offset.reset", "earliest")
    join(group, "a", list(topic_names))
    return Member(group)


def write(group: Conversation, topic: str, partition: int, count: int) -> None:
    data = PartitionProduceData(index=partition, records=batch(count))
    request = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
    call = group.cluster.call(request, version=12, broker_id=1)
    answer = Asked(group.cluster, call, group.cluster.controller.submit(call)).response
    assert answer.responses[0].partition_responses[0].error_code == 0
    group.pass_time(1)
