"""Requests about records of one partition, and answers that may wait."""

from typing import Any

from klamm.controller.core import Answer
from klamm.controller.delayed_answer import DelayedAnswer
from klamm.protocol.codec.requests import decode_response, encode_response
from klamm.protocol.fields import Message
from klamm.protocol.messages.data.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from klamm.protocol.messages.data.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from klamm.protocol.uuid import Uuid
from tests.controller.handlers.cluster import APIS, DrivenCluster

ALL = -1
UNKNOWN_ID = Uuid(b"unknown topic id")
ONE_SECOND = 1_000


class Asked:
    """A request that was decided: its decoded response, None as long as it waits."""

    def __init__(
        self, cluster: DrivenCluster, request: Message, *, version: int | None = None, broker_id: int = 1
    ) -> None:
        self._cluster = cluster
        self._api = APIS[type(request)]
        self._version = self._api.latest_stable if version is None else version
        self._call = cluster.call(request, version=version, broker_id=broker_id)
        self._answer: Answer = cluster.submit(request, version=version, broker_id=broker_id)

    @property
    def waiting(self) -> DelayedAnswer:
        assert isinstance(self._answer.response, DelayedAnswer)
        return self._answer.response

    @property
    def wants_no_answer(self) -> bool:
        return self._answer.response is None

    def look(self) -> Any:
        """The response, if it is complete by now."""
        if isinstance(self._answer.response, DelayedAnswer):
            self._answer = self._cluster.controller.try_complete(self._call, self._answer)
        response = self._answer.response
        if not isinstance(response, Message):
            return None
        encoded = bytes(encode_response(self._api, self._version, 1, response))
        return decode_response(self._api, self._version, encoded)[1]


def id_of(cluster: DrivenCluster, topic_name: str) -> Uuid:
    topic = cluster.image.topics_by_name.get(topic_name)
    return topic.topic_id if topic else UNKNOWN_ID


def produce_request(
    cluster: DrivenCluster,
    *records: bytes | None,
    topic_name: str = "t",
    partition: int = 0,
    acks: int = ALL,
    timeout_ms: int = ONE_SECOND,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """A request with a batch for this partition and one for each of the following partitions."""
    data = [PartitionProduceData(index=partition + place, records=one) for place, one in enumerate(records)]
    topic = TopicProduceData(name=topic_name, topic_id=id_of(cluster, topic_name), partition_data=data)
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, transactional_id=transactional_id, topic_data=[topic])


def produce(
    cluster: DrivenCluster, records: bytes | None, *, version: int | None = None, broker_id: int = 1, **fields: Any
) -> PartitionProduceResponse:
    """The answer for one batch that does not wait."""
    response = cluster.ask(produce_request(cluster, records, **fields), version=version, broker_id=broker_id)
    answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer


def fetch_request(
    cluster: DrivenCluster,
    *offsets: int,
    topic_name: str = "t",
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 2**31 - 1,
    partition: int = 0,
    partition_max_bytes: int = 1 << 20,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    **fields: Any,
) -> FetchRequest:
    """A request for this partition and the following ones, from these offsets on."""
    partitions = [
        FetchPartition(
            partition=partition + place,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=current_leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        for place, offset in enumerate(offsets)
    ]
    topic = FetchTopic(topic=topic_name, topic_id=id_of(cluster, topic_name), partitions=partitions)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=[topic], **fields)


def fetch(
    cluster: DrivenCluster, *offsets: int, version: int | None = None, broker_id: int = 1, **fields: Any
) -> list[PartitionData]:
    """The answer for each partition, at once."""
    response = cluster.ask(fetch_request(cluster, *offsets, **fields), version=version, broker_id=broker_id)
    assert response.error_code == 0
    found: list[PartitionData] = list(response.responses[0].partitions)
    return found


def read(cluster: DrivenCluster, offset: int = 0, **fields: Any) -> bytes:
    """The records that a consumer gets of a partition from an offset on."""
    (found,) = fetch(cluster, offset, **fields)
    assert found.error_code == 0
    return found.records or b""
