"""The topic of the request log: which requests it leaves out, what it does without a leader, and its limits."""

import io
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from confluent_kafka.admin import AdminClient, ConfigResource
from trio.testing import MockClock

import klamm
from klamm.controller.metadata.image import MetadataImage
from klamm.protocol.fields import Message
from klamm.protocol.messages.data.delete_records import DeleteRecordsRequest, DeleteRecordsTopic
from klamm.protocol.messages.data.fetch import FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from klamm.protocol.messages.data.list_offsets import ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.messages.data.produce import ProduceRequest, TopicProduceData
from klamm.protocol.messages.offsets.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from klamm.protocol.messages.shares.share_acknowledge import ShareAcknowledgeRequest
from klamm.protocol.messages.shares.share_fetch import FetchTopic as ShareFetchTopic
from klamm.protocol.messages.shares.share_fetch import ShareFetchRequest
from klamm.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from klamm.protocol.uuid import Uuid
from klamm.server import request_topic
from klamm.server.event_log import EventLog
from klamm.server.request_topic import RequestTopic

NAME = "__klamm_requests"
TOPIC_ID, OTHER_ID = Uuid(15 * b"\1" + b"\2"), Uuid(15 * b"\1" + b"\3")
BY_ID = FetchTopic(topic_id=TOPIC_ID)
OTHER_BY_ID = FetchTopic(topic_id=OTHER_ID)


def make_topic(exists: bool = True) -> RequestTopic:
    """One without a cluster: only its name and id are known."""
    topics = {NAME: SimpleNamespace(topic_id=TOPIC_ID, row=0)} if exists else {}
    image = cast("MetadataImage", SimpleNamespace(topics_by_name=topics))
    brokers = cast("Any", SimpleNamespace(by_id={}))
    return RequestTopic(NAME, lambda: image, brokers, lambda: 0, EventLog("console", io.StringIO()))


@pytest.mark.parametrize(("api", "request_"), [
    ("Produce", ProduceRequest(topic_data=[TopicProduceData(name="a"), TopicProduceData(name=NAME)])),
    ("Produce", ProduceRequest(topic_data=[TopicProduceData(topic_id=TOPIC_ID)])),
    ("Fetch", FetchRequest(topics=[FetchTopic(topic=NAME)])),
    ("Fetch", FetchRequest(topics=[OTHER_BY_ID, BY_ID])),
    ("ListOffsets", ListOffsetsRequest(topics=[ListOffsetsTopic(name=NAME)])),
    ("OffsetCommit", OffsetCommitRequest(topics=[OffsetCommitRequestTopic(name=NAME)])),
    ("OffsetCommit", OffsetCommitRequest(topics=[OffsetCommitRequestTopic(topic_id=TOPIC_ID)])),
    ("DeleteRecords", DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=NAME)])),
])  # fmt: skip
def test_a_request_that_reads_or_writes_the_topic_is_left_out(api: str, request_: Message) -> None:
    assert make_topic().concerns(api, 1, request_, None)


@pytest.mark.parametrize(("api", "request_"), [
    ("Produce", ProduceRequest(topic_data=[TopicProduceData(name="__klamm_request")])),
    ("Fetch", FetchRequest(topics=[OTHER_BY_ID])),
    ("Fetch", FetchRequest()),
    ("Metadata", MetadataRequest(topics=[MetadataRequestTopic(name=NAME)])),
])  # fmt: skip
def test_another_request_is_not_left_out(api: str, request_: Message) -> None:
    assert not make_topic().concerns(api, 1, request_, None)


def test_without_the_topic_an_unnamed_topic_is_not_taken_for_it() -> None:
    assert not make_topic(exists=False).concerns("Fetch", 1, FetchRequest(topics=[BY_ID]), None)


def fetch(topic: RequestTopic, session: int, epoch: int, *topics: FetchTopic, answered: int, **more: Any) -> bool:
    broker_id = more.pop("broker_id", 1)
    request = FetchRequest(session_id=session, session_epoch=epoch, topics=list(topics), **more)
    return topic.concerns("Fetch", broker_id, request, FetchResponse(session_id=answered))


def test_a_fetch_session_is_left_out_from_when_it_reads_the_topic_until_it_forgets_it() -> None:
    topic = make_topic()
    assert fetch(topic, 0, 0, BY_ID, answered=7)
    assert fetch(topic, 7, 1, answered=7)
    assert not fetch(topic, 7, 1, answered=7, broker_id=2), "another broker's session"
    assert not fetch(topic, 8, 1, answered=8)
    assert fetch(topic, 8, 2, BY_ID, answered=8), "a session that begins to read it"
    assert fetch(topic, 8, 3, answered=8)
    assert fetch(topic, 7, 2, answered=7, forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC_ID)])
    assert not fetch(topic, 7, 3, OTHER_BY_ID, answered=7)
    assert fetch(topic, 8, 4, answered=8, forgotten_topics_data=[ForgottenTopic(topic_id=OTHER_ID)])
    assert fetch(topic, 8, 5, answered=8)


def test_a_session_that_is_replaced_or_closed_is_forgotten() -> None:
    topic = make_topic()
    assert fetch(topic, 0, 0, BY_ID, answered=7)
    assert not fetch(topic, 7, 0, OTHER_BY_ID, answered=9), "a new session in place of the old one"
    assert not fetch(topic, 7, 1, answered=7)
    assert not fetch(topic, 9, 1, answered=9)
    assert fetch(topic, 0, 0, BY_ID, answered=10)
    assert not fetch(topic, 10, -1, OTHER_BY_ID, answered=0)
    assert not fetch(topic, 10, 1, answered=10)


def test_fetches_without_a_session_are_each_taken_by_themselves() -> None:
    topic = make_topic()
    assert fetch(topic, 0, -1, BY_ID, answered=0)
    assert not fetch(topic, 0, 1, answered=0)


def test_the_sessions_that_are_known_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_topic, "MAX_SESSIONS", 2)
    topic = make_topic()
    for session in (5, 6, 5, 7):
        fetch(topic, session, 1, BY_ID, answered=session)
    assert [fetch(topic, session, 2, answered=session) for session in (5, 6, 7)] == [True, False, True]


def test_a_share_session_is_left_out_as_well() -> None:
    topic = make_topic()
    first = ShareFetchRequest(
        group_id="g", member_id="m", share_session_epoch=0, topics=[ShareFetchTopic(topic_id=TOPIC_ID)]
    )
    assert topic.concerns("ShareFetch", 1, first, None)
    later = ShareFetchRequest(group_id="g", member_id="m", share_session_epoch=1)
    assert topic.concerns("ShareFetch", 1, later, None)
    acknowledged = ShareAcknowledgeRequest(group_id="g", member_id="m", share_session_epoch=2)
    assert topic.concerns("ShareAcknowledge", 1, acknowledged, None)
    other = ShareFetchRequest(group_id="g", member_id="n", share_session_epoch=1)
    assert not topic.concerns("ShareFetch", 1, other, None)
    again = ShareFetchRequest(group_id="g", member_id="m", share_session_epoch=0)
    assert not topic.concerns("ShareFetch", 1, again, None)


def configs_of(bootstrap_servers: str) -> dict[str, str]:
    admin, resource = AdminClient({"bootstrap.servers": bootstrap_servers}), ConfigResource("TOPIC", NAME)
    found = admin.describe_configs([resource])[resource].result(20)
    return {name: entry.value for name, entry in found.items()}


def run(story: Any) -> None:
    trio.run(story, clock=MockClock(autojump_threshold=0.002))


async def lines_of(cluster: klamm.Cluster) -> list[dict[str, Any]]:
    await trio.sleep(0.5)  # the mock clock's: two ticks
    return [json.loads(record.value or b"") for record in await cluster.records(NAME)]


def test_lines_wait_for_a_leader_up_to_a_limit_and_go_on_after_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(request_topic, "MAX_WAITING_LINES", 4)

    async def story() -> None:
        async with klamm.Cluster(brokers=1, request_topic=NAME, seed=1) as cluster:
            first = await lines_of(cluster)
            assert first == []  # the cluster's own requests before the topic was there
            await cluster.create_topic("t1", 1, 1)
            found = await lines_of(cluster)
            assert [line["api"] for line in found] == ["ApiVersions", "CreateTopics"]
            request_log = cluster._up._parts.request_log
            assert request_log is not None
            topic = request_log.topic
            assert topic is not None
            await cluster.kill_broker(1)
            for number in range(6):
                topic.add(b'{"number": %d}' % number)
            await trio.sleep(0.5)
            await cluster.start_broker(1)
            await trio.sleep(0.5)
            await cluster.create_topic("t2", 1, 1)
            found = await lines_of(cluster)
            assert [line.get("number") for line in found][2:] == [0, 1, 2, 3, None, None]
            assert [line.get("api") for line in found][-2:] == ["ApiVersions", "CreateTopics"]

    run(story)
    assert capsys.readouterr().err.count("its lines are lost until it can") == 1


def test_the_topic_is_on_the_first_brokers_and_its_size_is_limited() -> None:
    async def story() -> None:
        async with klamm.Cluster(brokers=4, request_topic=NAME, seed=1) as cluster:
            image = cluster._up.image
            topic = image.topics_by_name[NAME]
            assert image.partition_count(topic) == 1
            assert list(image.partitions.read(topic.row, 0).replicas) == [1, 2, 3]
            shown = await trio.to_thread.run_sync(configs_of, cluster.bootstrap_servers)
            assert {name: shown[name] for name in request_topic.CONFIGS} == dict(request_topic.CONFIGS)

    trio.run(story)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "x" * 250, "é", "__consumer_offsets", 5,
    "__cluster_metadata", "__share_group_state", "__transaction_state"])  # fmt: skip
def test_a_name_that_no_such_topic_can_have_is_refused(name: Any) -> None:
    with pytest.raises(klamm.ClusterError, match=r"^request topic .*: (the name of a topic|Kafka itself)"):
        klamm.Cluster(request_topic=name)


def test_a_cluster_without_simulated_brokers_has_no_such_topic() -> None:
    with pytest.raises(klamm.ClusterError, match="request_topic needs a simulated broker"):
        klamm.Cluster(brokers=0, controller_listener="127.0.0.1:0", request_topic=NAME)


def refuse(_: object) -> None:
    raise klamm.PolicyViolation("no such names")


def test_a_topic_that_the_cluster_refuses_prevents_the_start() -> None:
    async def story() -> None:
        with pytest.raises(klamm.ClusterError, match="request topic: POLICY_VIOLATION: no such names"):
            async with klamm.Cluster(request_topic=NAME, topic_policy=refuse):
                pass

    run(story)


def test_a_restart_goes_on_with_the_topic_that_is_there(tmp_path: Any) -> None:
    async def story() -> None:
        for offset in (0, 2):
            async with klamm.Cluster(brokers=1, request_topic=NAME, data_dir=tmp_path, seed=1) as cluster:
                await cluster.create_topic(f"t{offset}", 1, 1)
                await trio.sleep(0.5)
                records = await cluster.records(NAME)
                assert [record.offset for record in records] == [offset, offset + 1]

    run(story)
