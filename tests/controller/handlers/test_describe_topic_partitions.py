"""DescribeTopicPartitions: pages that together are complete, and the eligible leaders of each partition."""

from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.topics.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.controller.handlers.cluster import DrivenCluster

SERVER_LIMIT = 2000
NAMES = ("a", "b.c", "d", "d-e", "Z", "_x", "zz")


def asked(names: list[str], limit: int = SERVER_LIMIT, cursor: Cursor | None = None) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
    )


def with_topics(counts: dict[str, int]) -> DrivenCluster:
    cluster = DrivenCluster()
    topics = [CreatableTopic(name=name, num_partitions=count, replication_factor=2) for name, count in counts.items()]
    cluster.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000))
    return cluster


@given(
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, 12), min_size=1),
    st.integers(0, 4),
    st.integers(-1, 15),
    st.booleans(),
)
def test_pages_are_together_what_is_there_once_and_in_order(
    counts: dict[str, int], added: int, limit: int, by_name: bool
) -> None:
    """Partitions that are added later are stored behind those of other topics."""
    cluster = with_topics(counts)
    if added:
        counts = {name: count + added for name, count in counts.items()}
        topics = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()]
        grown = cluster.ask(CreatePartitionsRequest(topics=topics, timeout_ms=1000))
        assert {result.error_code for result in grown.results} == {ErrorCode.NONE}
    names = list(counts) if by_name else []
    seen: list[tuple[str | None, int]] = []
    cursor: Cursor | None = None
    for _ in range(sum(counts.values()) + 1):
        page: DescribeTopicPartitionsResponse = cluster.ask(asked(names, limit, cursor))
        found = [(topic.name, partition.partition_index) for topic in page.topics for partition in topic.partitions]
        for topic in page.topics:
            states = cluster.partitions(topic.name or "")
            for partition in topic.partitions:
                state = states[partition.partition_index]
                assert (tuple(partition.replica_nodes), partition.leader_id) == (state.replicas, state.leader)
        assert 1 <= len(found) <= max(1, limit)
        seen += found
        cursor = page.next_cursor
        if cursor is None:
            break
        assert len(found) == max(1, limit), "a page that is not the last is full"
    assert cursor is None
    assert seen == [(name, index) for name in sorted(counts) for index in range(counts[name])]


def test_a_page_holds_what_the_server_allows_at_most() -> None:
    cluster = with_topics({"t": SERVER_LIMIT + 5})
    page = cluster.ask(asked(["t"], 2**31 - 1))
    assert len(page.topics[0].partitions) == SERVER_LIMIT
    assert (page.next_cursor.topic_name, page.next_cursor.partition_index) == ("t", SERVER_LIMIT)
    rest = cluster.ask(asked(["t"], 2**31 - 1, page.next_cursor))
    assert [partition.partition_index for partition in rest.topics[0].partitions] == list(
        range(SERVER_LIMIT, SERVER_LIMIT + 5)
    )
    assert rest.next_cursor is None


def test_a_cursor_on_a_topic_that_was_deleted_goes_on_with_the_next_when_all_are_asked_for() -> None:
    cluster = with_topics({"a": 2, "c": 2})
    page = cluster.ask(asked([], 10, Cursor(topic_name="b", partition_index=1)))
    assert [(topic.name, len(topic.partitions)) for topic in page.topics] == [("c", 2)]


def test_a_cursor_behind_the_last_partition_shows_the_topic_without_any() -> None:
    cluster = with_topics({"a": 2, "c": 2})
    page = cluster.ask(asked([], 10, Cursor(topic_name="a", partition_index=2**31 - 1)))
    assert [(topic.name, len(topic.partitions)) for topic in page.topics] == [("a", 0), ("c", 2)]


def test_a_cursor_has_to_be_on_what_is_asked_for() -> None:
    cluster = with_topics({"a": 2, "c": 2})
    for cursor in (Cursor(topic_name="b", partition_index=0), Cursor(topic_name="a", partition_index=-1)):
        page = cluster.ask(asked(["a", "c"], 10, cursor))
        assert [topic.error_code for topic in page.topics] == [ErrorCode.INVALID_REQUEST] * 2


def test_unknown_and_bad_names_come_in_their_order_and_take_no_room() -> None:
    cluster = with_topics({"b": 2})
    page = cluster.ask(asked(["zz", "b", "a b", "a"], 1))
    assert [(topic.name, topic.error_code) for topic in page.topics] == [
        ("a", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("b", ErrorCode.NONE),
    ]
    assert (page.next_cursor.topic_name, page.next_cursor.partition_index) == ("b", 1)
    page = cluster.ask(asked(["zz", "b", "c", "a"], 3))
    assert [topic.name for topic in page.topics] == ["a", "b", "c", "zz"]
    page = cluster.ask(asked(["zz", "b", "a b", "a"], 2))
    assert len(page.topics) == 3, "names behind the last partition of a page wait for the next one"
    assert (page.next_cursor.topic_name, page.next_cursor.partition_index) == ("zz", 0)


def test_the_names_of_internal_topics_are_internal_before_there_are_such() -> None:
    cluster = with_topics({"b": 2})
    page = cluster.ask(asked(["__consumer_offsets", "__share_group_state", "__transaction_state", "__other", "b"]))
    assert [(topic.name, topic.is_internal) for topic in page.topics] == [
        ("__consumer_offsets", True),
        ("__other", False),
        ("__share_group_state", True),
        ("__transaction_state", True),
        ("b", False),
    ]


def test_what_a_partition_may_elect_is_told_beside_those_that_have_nothing_to_tell() -> None:
    """KIP-966: the replica that left last stays eligible. Rows of several shapes are one answer."""
    cluster = DrivenCluster()
    cluster.create_at("t", [1, 2], [3, 1], [2, 3])
    cluster.create_at("alone", [1], [3], [2])
    cluster.shut_down(3)
    page = cluster.ask(asked(["t", "alone"]))
    reported = [
        (
            partition.leader_id,
            list(partition.isr_nodes),
            list(partition.eligible_leader_replicas),
            list(partition.last_known_elr),
            list(partition.offline_replicas),
        )
        for topic in page.topics
        for partition in topic.partitions
    ]
    assert reported == [
        (1, [1], [], [], []),
        (-1, [], [3], [3], [3]),
        (2, [2], [], [], []),
        (1, [1, 2], [], [], []),
        (1, [1], [], [], [3]),
        (2, [2], [], [], [3]),
    ]
