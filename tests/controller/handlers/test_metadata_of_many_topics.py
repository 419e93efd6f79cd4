"""Metadata of so many topics that the answer has columns: the bytes are those of single requests. Alone, a topic of few
partitions is a message that holds messages, and none of its bytes come from a column."""

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from klamm.controller.authorizer import AclOperation, PatternType
from klamm.controller.handlers.topics.described_topics import FEW_PARTITIONS, MANY_TOPICS
from klamm.protocol.codec.requests import encode_response
from klamm.protocol.columns import Columns
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.partitions.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.messages.topics import metadata
from klamm.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from klamm.protocol.uuid import Uuid
from tests.controller.handlers.guarded_cluster import ALICE, DENY, GuardedCluster, entry

BROKERS = 4
NARROW, WIDE = "narrow-", "wide."
INTERNAL = "__consumer_offsets"
UNKNOWN = MetadataRequestTopic(name="unknown")
UNKNOWN_ID = MetadataRequestTopic(name=None, topic_id=Uuid(b"\x11" * 16))
FIRST_WITH_OPERATIONS = 8
FIRST_BY_ID = 12
Shapes = Sequence[tuple[int, int]]


def with_topics(shapes: Shapes, widened: bool, lost: set[int]) -> GuardedCluster:
    """A cluster with topics of these shapes, given by partitions and replication factor, and enough plain topics to
    need columns."""
    cluster = GuardedCluster(BROKERS, racks=())
    named = {f"{WIDE}{number:0{number * 20}}": shape for number, shape in enumerate(shapes)}
    named |= {INTERNAL: (2, 2)} | {f"{NARROW}{number}": (1, 2) for number in range(MANY_TOPICS)}
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor)
        for name, (partitions, replication_factor) in named.items()
    ]
    made = cluster.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
    assert {topic.error_code for topic in made.topics} == {ErrorCode.NONE}
    if widened:  # Its first partition is then in another table.
        move = [ReassignablePartition(partition_index=0, replicas=[4, 3, 2, 1])]
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=f"{NARROW}7", partitions=move)])
        assert cluster.ask(request).error_code == ErrorCode.NONE
    if lost:
        cluster.lose(*lost)
    return cluster


@given(
    st.lists(st.tuples(st.integers(1, FEW_PARTITIONS), st.integers(1, BROKERS)), max_size=6),
    st.booleans(),
    st.sets(st.integers(2, BROKERS)),
    st.sampled_from(["all", "by name", "by id"]),
    st.booleans(),
    st.sampled_from(["nothing", "one unknown", "one denied"]),
    st.integers(0, 13) | st.sampled_from([12, 13]),
)
@example(shapes=[], widened=False, lost=set(), way="by name", operations=True, amiss="nothing", version=12)  # one table
def test_they_are_told_in_the_bytes_of_each_alone(
    shapes: Shapes, widened: bool, lost: set[int], way: str, operations: bool, amiss: str, version: int
) -> None:
    cluster = with_topics(shapes, widened, lost)
    cluster.grant(entry(AclOperation.DESCRIBE, "*"), entry(AclOperation.ALTER, NARROW, pattern=PatternType.PREFIXED))
    if amiss == "one denied":
        cluster.grant(entry(AclOperation.DESCRIBE, f"{NARROW}3", permission=DENY))
    known = list(cluster.image.topics_by_name.values())
    if way != "all":
        known.reverse()  # Their rows are then not adjacent.
    each = [MetadataRequestTopic(name=topic.name) for topic in known]
    if way == "by id" and version >= FIRST_BY_ID:
        each = [MetadataRequestTopic(name=None, topic_id=topic.topic_id) for topic in known]
    if amiss == "one unknown" and way != "all":
        each.insert(5, UNKNOWN_ID if each[0].name is None else UNKNOWN)
    everything = None if version else ()

    def tell(topics: Sequence[MetadataRequestTopic] | None) -> MetadataResponse:
        request = MetadataRequest(
            topics=topics,
            allow_auto_topic_creation=version < 4,
            include_topic_authorized_operations=operations and version >= FIRST_WITH_OPERATIONS,
        )
        response = cluster.submit(request, version=version).response
        assert isinstance(response, MetadataResponse)
        return response

    with cluster.asking(ALICE):
        together = tell(everything if way == "all" else each)
        alone = [topic for one in each for topic in tell([one]).topics]
    if way == "all" and amiss == "one denied":
        alone = [topic for topic in alone if topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert isinstance(together.topics, Columns) == (amiss == "nothing" or way == "all")
    assert not any(isinstance(topic.partitions, Columns) for topic in alone)
    encoded = encode_response(metadata.API, version, 1, together)
    together.topics = alone
    assert encoded == encode_response(metadata.API, version, 1, together)
