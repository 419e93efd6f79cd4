"""The errors in a response, found without knowing the kind of the response."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.columns import Columns, Parts
from klamm.protocol.messages.brokers.broker_heartbeat import BrokerHeartbeatResponse
from klamm.protocol.messages.configs.describe_configs import DescribeConfigsResponse, DescribeConfigsResult
from klamm.protocol.messages.index import MODULES
from klamm.protocol.messages.partitions.elect_leaders import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from klamm.protocol.messages.topics.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from klamm.protocol.messages.topics.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from klamm.protocol.uuid import Uuid
from klamm.server.response_errors import MAX_ERRORS_PER_RESPONSE, collect_errors

NOTHING = {"topic_name": None, "topic_id": None, "partition_index": None, "resource_type": None, "resource_name": None}


def test_an_answer_without_refusals_has_none() -> None:
    topic = MetadataResponseTopic(name="fine", partitions=[MetadataResponsePartition(partition_index=0)])
    assert collect_errors(MetadataResponse(topics=[topic])) == []


def test_a_refused_request_names_no_subject() -> None:
    assert collect_errors(BrokerHeartbeatResponse(error_code=77)) == [
        {**NOTHING, "error_code": 77, "error_message": None}
    ]


def test_a_refused_topic_is_named_by_name_and_id() -> None:
    topic_id = Uuid(range(16))
    response = DeleteTopicsResponse(responses=[
        DeletableTopicResult(name="a", error_code=3, error_message="no a"),
        DeletableTopicResult(name="b"),
        DeletableTopicResult(name=None, topic_id=topic_id, error_code=100),
    ])  # fmt: skip
    assert collect_errors(response) == [
        {**NOTHING, "topic_name": "a", "error_code": 3, "error_message": "no a"},
        {**NOTHING, "topic_id": str(topic_id), "error_code": 100, "error_message": None},
    ]


def test_a_refused_partition_is_named_with_its_topic() -> None:
    response = ElectLeadersResponse(replica_election_results=[
        ReplicaElectionResult(topic="t", partition_result=[PartitionResult(partition_id=4, error_code=84)])
    ])  # fmt: skip
    assert collect_errors(response) == [
        {**NOTHING, "topic_name": "t", "partition_index": 4, "error_code": 84, "error_message": None}
    ]


def test_a_refused_resource_is_named_by_type_and_name() -> None:
    result = DescribeConfigsResult(resource_type=4, resource_name="7", error_code=42, error_message="no")
    assert collect_errors(DescribeConfigsResponse(results=[result])) == [
        {**NOTHING, "resource_type": 4, "resource_name": "7", "error_code": 42, "error_message": "no"}
    ]


def test_only_the_refused_rows_of_columns_become_messages() -> None:
    codes = np.zeros(1000, dtype=np.int16)
    codes[[3, 500]] = 5
    made: list[int | slice] = []

    class Watched(Columns[MetadataResponsePartition]):
        def __getitem__(self, index):  # type: ignore[no-untyped-def]
            made.append(index)
            return super().__getitem__(index)

    rows = Watched(
        MetadataResponsePartition, 1000, {"error_code": codes, "partition_index": np.arange(1000, dtype=np.int32)}
    )
    errors = collect_errors(MetadataResponse(topics=[MetadataResponseTopic(name="wide", partitions=rows)]))
    assert [(error["topic_name"], error["partition_index"], error["error_code"]) for error in errors] == [
        ("wide", 3, 5),
        ("wide", 500, 5),
    ]
    assert [index for index in made if isinstance(index, int)] == [3, 500]


def test_topics_that_are_columns_become_messages_only_for_their_errors() -> None:
    codes = np.zeros(1000, dtype=np.int16)
    codes[500] = 5
    made: list[int | slice] = []

    class Watched(Columns[MetadataResponseTopic]):
        def __getitem__(self, index):  # type: ignore[no-untyped-def]
            made.append(index)
            return super().__getitem__(index)

    partitions = Columns(MetadataResponsePartition, 1000, {"error_code": codes})
    topics = Watched(MetadataResponseTopic, 100, {"partitions": Parts(partitions, np.arange(0, 1001, 10))})
    assert [error["error_code"] for error in collect_errors(MetadataResponse(topics=topics))] == [5]
    assert made == [50]


def test_what_counts_for_every_row_is_refused_in_every_row() -> None:
    refused = [MetadataResponsePartition(error_code=5, partition_index=7)]
    topics = Columns(MetadataResponseTopic, 2, {"partitions": refused, "name": np.array(["a", "b"], object)})
    errors = collect_errors(MetadataResponse(topics=topics))
    assert [(error["topic_name"], error["partition_index"]) for error in errors] == [("a", 7), ("b", 7)]


@given(st.lists(st.tuples(st.sampled_from([0, 0, 0, 3]), st.lists(st.sampled_from([0] * 9 + [5]), max_size=4))))
def test_slices_of_one_run_refuse_what_their_rows_refuse(topics: list[tuple[int, list[int]]]) -> None:
    """Whether the topics that hold the slices are messages or columns."""
    codes = np.array([5, *(code for _, own in topics for code in own), 5], dtype=np.int16)
    run = Columns(MetadataResponsePartition, len(codes), {"error_code": codes})
    sliced, alone, bounds = [], [], [1]
    for number, (code, own) in enumerate(topics):
        rows = run[bounds[-1] : bounds[-1] + len(own)]
        bounds.append(bounds[-1] + len(own))
        sliced.append(MetadataResponseTopic(name=f"t{number}", error_code=code, partitions=rows))
        alone.append(MetadataResponseTopic(name=f"t{number}", error_code=code, partitions=list(rows)))
    values = {
        "name": np.array([topic.name for topic in alone], object),
        "error_code": np.array([code for code, _ in topics], np.int16),
        "partitions": Parts(run, np.array(bounds)),
    }
    columns = Columns(MetadataResponseTopic, len(topics), values)
    expected = collect_errors(MetadataResponse(topics=alone))
    assert collect_errors(MetadataResponse(topics=sliced)) == expected
    assert collect_errors(MetadataResponse(topics=columns)) == expected


def test_columns_whose_constant_code_is_zero_are_not_looked_at() -> None:
    rows = Columns(MetadataResponsePartition, 3, {"partition_index": np.arange(3, dtype=np.int32)})
    refused = Columns(MetadataResponsePartition, 2, {"error_code": 5, "partition_index": np.arange(2, dtype=np.int32)})
    response = MetadataResponse(topics=[MetadataResponseTopic(name="a", partitions=rows)])
    assert collect_errors(response) == []
    response.topics = [MetadataResponseTopic(name="b", partitions=refused)]
    assert [error["partition_index"] for error in collect_errors(response)] == [0, 1]


def test_the_list_of_refusals_is_bounded() -> None:
    rows = [MetadataResponseTopic(name="x", error_code=3)] * (MAX_ERRORS_PER_RESPONSE + 5)
    assert len(collect_errors(MetadataResponse(topics=rows))) == MAX_ERRORS_PER_RESPONSE


def test_every_response_that_exists_can_be_looked_through() -> None:
    from klamm.protocol.codec.requests import load_api

    for key in MODULES:
        api = load_api(key)
        assert api is not None
        assert collect_errors(api.response()) == []
