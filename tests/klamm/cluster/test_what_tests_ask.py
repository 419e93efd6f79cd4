"""What tests ask a cluster for: topics, records, requests and conditions, in process and over the control interface."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import trio
import trio.testing
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

import klamm
from klamm.cluster import topics
from klamm.server.bodies import Bodies
from klamm.server.recent_requests import MAX_LINES, RecentRequests, Which
from klamm.server.request_log import RequestLine
from tests.server.test_request_log import make_line

CONFIGS = {"transaction.state.log.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(scope="module")
def server() -> Iterator[klamm.ServerProcess]:
    with klamm.ServerProcess(brokers=2, configs=CONFIGS, control=True, warm=True) as server:
        yield server


def producer(server: klamm.ServerProcess, **configs: object) -> Any:
    return Producer({"bootstrap.servers": server.bootstrap_servers, "acks": "all", "linger.ms": 5, **configs})


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_have_keys_values_and_headers_as_bytes(server: klamm.ServerProcess, codec: str) -> None:
    topic = f"records-{codec}"
    server.create_topic(topic, num_partitions=2)
    writing = producer(server, **{"compression.type": codec})
    writing.produce(topic, b"value" * 100, b"key", partition=1, timestamp=1_700_000_000_000,
        headers=[("trace", b"\x00\xff"), ("none", None)])  # fmt: skip
    writing.produce(topic, None, None, partition=0, timestamp=5)
    writing.produce(topic, b"", b"", partition=1, timestamp=6)
    assert writing.flush(20) == 0
    expected = (
        klamm.Record(partition=0, offset=0, timestamp_ms=5, key=None, value=None),
        klamm.Record(partition=1, offset=0, timestamp_ms=1_700_000_000_000, key=b"key", value=b"value" * 100,
            headers=(("trace", b"\x00\xff"), ("none", None))),
        klamm.Record(partition=1, offset=1, timestamp_ms=6, key=b"", value=b""),
    )  # fmt: skip
    assert server.records(topic) == expected
    assert server.records(topic, 1) == expected[1:]
    assert server.records(topic, partition=0) == expected[:1]


def test_many_records_come_in_pages_and_in_order(server: klamm.ServerProcess) -> None:
    server.create_topic("many", 2)
    writing = producer(server)
    count = topics.PAGE_RECORDS + 500
    for number in range(count):
        for partition in (0, 1):
            writing.produce("many", str(number).encode(), partition=partition)
        writing.poll(0)
    assert writing.flush(60) == 0
    records = server.records("many")
    assert [(one.partition, one.offset, one.value) for one in records] == [
        (partition, number, str(number).encode()) for partition in (0, 1) for number in range(count)
    ]
    with pytest.raises(klamm.ControlError, match=r"the records of 'many' have more than max_bytes \(1000\)"):
        server.records("many", max_bytes=1000)


def test_large_records_come_in_pages(server: klamm.ServerProcess) -> None:
    server.create_topic("large", 1)
    writing = producer(server, **{"batch.num.messages": 1})
    for letter in "abcdef":
        writing.produce("large", letter.encode() * 400_000)
    assert writing.flush(20) == 0
    page = server.control.ask("POST", "/topics/large/records")
    assert len(page["records"]) == 3
    assert (page["next_partition"], page["next_offset"]) == (0, 3)
    assert [one.value[:1] for one in server.records("large") if one.value] == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_aborted_and_open_transactions_are_records_unless_committed_ones_are_wanted(
    server: klamm.ServerProcess,
) -> None:
    server.create_topic("orders", 1)
    writing = producer(server, **{"transactional.id": "t"})
    writing.init_transactions()
    for value, end in ((b"aborted", writing.abort_transaction), (b"committed", writing.commit_transaction)):
        writing.begin_transaction()
        writing.produce("orders", value)
        writing.flush(20)
        end()
    writing.begin_transaction()
    writing.produce("orders", b"open")
    writing.flush(20)
    assert [one.value for one in server.records("orders")] == [b"aborted", b"committed", b"open"]
    server.wait_until(lambda: server.records("orders", isolation_level="read_committed"))
    assert [one.value for one in server.records("orders", isolation_level="read_committed")] == [b"committed"]
    writing.abort_transaction()


def test_a_topic_that_is_empty_or_not_there_is_not_the_same(server: klamm.ServerProcess) -> None:
    server.create_topic("empty", 1)
    assert server.records("empty") == ()
    for topic, partition, reason in (
        ("nowhere", None, "there is no topic 'nowhere'"),
        ("empty", 3, "topic 'empty' has no partition 3: it has 1"),
    ):
        with pytest.raises(klamm.ControlRefused, match=reason) as refused:
            server.records(topic, partition)
        assert refused.value.status == 404


def test_a_topic_is_created_by_the_rules_of_the_cluster(server: klamm.ServerProcess) -> None:
    server.create_topic("made", 3, 2, {"retention.ms": 5000, "preallocate": True})
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    made = admin.list_topics("made").topics["made"].partitions
    assert {index: len(partition.replicas) for index, partition in made.items()} == {0: 2, 1: 2, 2: 2}
    for arguments, reason in (
        (("made",), "TOPIC_ALREADY_EXISTS: Topic 'made' already exists."),
        (("other", 1, 3), "INVALID_REPLICATION_FACTOR: "),
        (("other", 1, 1, {"retention.mss": "5"}), "INVALID_CONFIG: "),
    ):
        with pytest.raises(klamm.ControlRefused) as refused:
            server.create_topic(*arguments)
        assert refused.value.status == 409
        assert str(refused.value).startswith(reason)


def test_a_topic_is_deleted_by_the_rules_of_the_cluster(server: klamm.ServerProcess) -> None:
    server.create_topic("brief", 2)
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    producer = Producer({"bootstrap.servers": server.bootstrap_servers})
    producer.produce("brief", b"gone", partition=0)
    assert producer.flush(30) == 0
    server.delete_topic("brief")
    assert "brief" not in admin.list_topics().topics
    with pytest.raises(klamm.ControlRefused, match="there is no topic 'brief'") as refused:
        server.delete_topic("brief")
    assert refused.value.status == 404
    server.create_topic("brief", 1)
    assert server.records("brief") == ()
    server.delete_topic("brief")
    with pytest.raises(
        klamm.ControlRefused, match=r"no limit is set: start klamm serve with --set max\.broker"
    ) as refused:
        server.partition_limit()
    assert refused.value.status == 409


@pytest.mark.parametrize(("path", "body", "reason"), [
    ("/topics", {}, "the member 'name' is missing"),
    ("/topics", {"name": 5}, "name 5: a string is expected"),
    ("/topics", {"name": "t", "num_partitions": 0}, "count 0: a whole number"),
    ("/topics", {"name": "t", "configs": {"a": None}}, "config a: its value must be"),
    ("/topics/t/records", {"isolation_level": "none"}, "isolation_level 'none': "),
    ("/topics/t/records", {"partition": -1}, "partition -1: "),
    ("/topics/t/records", {"from_offset": "0"}, "from_offset '0': "),
    ("/requests", {"api": 0}, "api 0: Kafka's name of an API is expected"),
    ("/requests", {"api": "Produces"}, "Kafka has no API 'Produces'; did you mean 'Produce'?"),
    ("/requests", {"after_seq": True}, "after_seq True: "),
])  # fmt: skip
def test_what_is_asked_wrongly_is_named(
    server: klamm.ServerProcess, path: str, body: dict[str, object], reason: str
) -> None:
    with pytest.raises(klamm.ControlRefused) as refused:
        server.control.ask("POST", path, body)
    assert refused.value.status == 400
    assert str(refused.value).startswith(reason)


def test_requests_of_clients_are_there_as_soon_as_they_are_answered(server: klamm.ServerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers, "client.id": "service-under-test"})
    admin.list_topics(timeout=10)
    mine = [one for one in server.requests() if one.client_id == "service-under-test"]
    assert {"ApiVersions", "Metadata"} <= {one.api for one in mine}
    assert [one.seq for one in mine] == sorted(one.seq for one in mine)
    listed = server.requests(api="Metadata")
    assert {one.api for one in listed} == {"Metadata"}
    # The client goes on asking in the background, between the two questions of this test, too.
    assert [one for one in mine if one.api == "Metadata"] == [
        one for one in listed if one.client_id == mine[0].client_id and one.seq <= mine[-1].seq
    ]
    assert server.requests("DeleteTopics") == ()
    assert not any(one.client_id == "klamm-control" for one in server.requests())


async def test_a_cluster_in_the_test_s_loop_has_the_same_methods(tmp_path: Any) -> None:
    async with klamm.Cluster(brokers=3) as cluster:
        await cluster.create_topic("orders", 2, 3, {"retention.ms": 5000})
        assert await cluster.records("orders") == ()
        async with klamm.AdminClient(cluster.bootstrap_servers, client_id="mine") as admin:
            await admin.metadata(["orders"])
            (asked,) = [one for one in await cluster.requests("Metadata") if one.errors == []][-1:]
            assert asked.client_id == "mine"
            assert repr(asked) == f"<LoggedRequest {asked.seq}: Metadata v{asked.api_version} of 'mine' to broker 1>"
        await cluster.wait_until(lambda: True)
        await cluster.create_topic("brief")
        await cluster.delete_topic("brief")
        for wrong in (
            cluster.create_topic("orders"),
            cluster.delete_topic("brief"),
            cluster.partition_limit(),
            cluster.create_topic("t", configs={"a": object()}),  # type: ignore[dict-item]
            cluster.records("nowhere"),
            cluster.requests("Nothing"),
        ):
            with pytest.raises(klamm.ClusterError):
                await wrong
        for broker_id in (1, 2, 3):
            await cluster.stop_broker(broker_id)
        with pytest.raises(klamm.ClusterError, match="no broker is up"):
            await cluster.create_topic("late")
        with pytest.raises(klamm.ClusterError, match="topic 'orders' was not deleted: no broker is up"):
            await cluster.delete_topic("orders")
    async with klamm.Cluster(brokers=1, configs={"delete.topic.enable": False}) as cluster:
        await cluster.create_topic("stays")
        with pytest.raises(klamm.ClusterError, match="TOPIC_DELETION_DISABLED"):
            await cluster.delete_topic("stays")


async def test_a_condition_may_be_async_and_time_is_trio_s() -> None:
    clock_started = trio.current_time()
    cluster = klamm.Cluster()
    rounds = 0

    async def third_time() -> bool:
        nonlocal rounds
        rounds += 1
        return rounds == 3

    await cluster.wait_until(third_time)
    assert rounds == 3
    with pytest.raises(TimeoutError, match=r"not true within 0\.05 s"):
        await cluster.wait_until(lambda: False, timeout_seconds=0.05)
    assert trio.current_time() - clock_started >= 0.05


def test_a_cluster_without_trio_says_what_to_use_instead() -> None:
    async def enter() -> None:
        async with klamm.Cluster():
            pass

    with pytest.raises(
        klamm.ClusterError, match=r"runs on trio, not on asyncio; .*klamm\.ServerProcess\(control=True\)"
    ):
        asyncio.run(enter())
    with pytest.raises(klamm.ClusterError, match=r"needs `async with`, on trio; .*klamm_cluster"), klamm.Cluster():
        pass


async def test_what_is_printed_helps(server: klamm.ServerProcess) -> None:
    assert repr(server) == (
        f"<klamm.ServerProcess {server.bootstrap_servers}, process {server.process_id}, control={server.control_url}>"
    )
    assert repr(server.control) == f"klamm.ControlClient('{server.control_url}')"
    assert repr(klamm.ServerProcess()) == "<klamm.ServerProcess, not running>"
    with klamm.ServerProcess(warm=True) as ended:
        pass
    assert repr(ended) == "<klamm.ServerProcess, not running>"
    assert repr(klamm.Cluster()) == "<klamm.Cluster, not running>"
    async with klamm.Cluster() as cluster:
        assert repr(cluster) == f"<klamm.Cluster {cluster.bootstrap_servers}>"


def test_addresses_are_known_after_the_start() -> None:
    with pytest.raises(klamm.ServerFailed, match="bootstrap_servers is known inside the with block"):
        _ = klamm.ServerProcess().bootstrap_servers
    with pytest.raises(klamm.ClusterError, match="use it inside `async with`"):
        _ = klamm.Cluster().bootstrap_servers


@pytest.mark.parametrize("made", [klamm.Cluster, klamm.ServerProcess])
def test_a_file_named_like_stdout_is_refused(made: Any) -> None:
    with pytest.raises((klamm.ClusterError, klamm.ServerFailed), match="'-' would be stdout"):
        made(request_log="-")


def test_of_too_many_requests_the_newest_are_kept() -> None:
    recent = RecentRequests[RequestLine](max_lines=3, max_errors=2)
    for number in range(5):
        recent.add(number, make_line(api="Fetch" if number % 2 else "Produce"))
    recent.add(5, make_line(client_id="klamm-control"))
    assert [seq for seq, _ in recent.find(Which(), 10)] == [2, 3, 4]
    assert [seq for seq, _ in recent.find(Which(api="Fetch"), 10)] == [3]
    assert [seq for seq, _ in recent.find(Which(after_seq=2), 1)] == [3]
    assert recent.apis == {"Fetch", "Produce"}
    error = {"topic_name": "t"}
    recent.add(6, make_line(errors=[error, error]))
    recent.add(7, make_line(errors=[error]))
    assert [seq for seq, _ in recent.find(Which(), 10)] == [7]


def test_a_million_lines_take_the_memory_of_the_newest() -> None:
    recent = RecentRequests[RequestLine]()
    line = make_line(errors=[{"topic_name": "t"}], bodies=Bodies("x" * 1_000, None))
    for number in range(1_000_000):
        recent.add(number, line)
    assert len(recent._lines) == MAX_LINES
    assert recent.find(Which(), 1)[0][0] == 1_000_000 - MAX_LINES
    assert (recent._errors, recent._body_bytes) == (MAX_LINES, 1_000 * MAX_LINES)


def test_bodies_are_kept_within_their_limit() -> None:
    recent = RecentRequests[RequestLine](max_body_bytes=100)
    for number in range(5):
        recent.add(number, make_line(bodies=Bodies("x" * 20, "y" * 20)))
    assert [seq for seq, _ in recent.find(Which(), 10)] == [3, 4]
    recent.add(5, make_line(bodies=Bodies("x" * 200, None)))
    assert [seq for seq, _ in recent.find(Which(), 10)] == [5]
    recent.add(6, make_line())
    assert [seq for seq, _ in recent.find(Which(), 10)] == [6]


def test_requests_are_found_by_client_broker_and_fault() -> None:
    recent = RecentRequests[RequestLine]()
    recent.add(1, make_line(client_id="a", broker_id=1, faults=("f", "g")))
    recent.add(2, make_line(client_id="b", broker_id=None))
    for which, found in (
        (Which(client_id="a"), [1]), (Which(client_id="c"), []), (Which(broker_id=1), [1]), (Which(broker_id=2), []),
        (Which(fault="g"), [1]), (Which(fault="h"), []), (Which(client_id="b", after_seq=2), []),
    ):  # fmt: skip
        assert [seq for seq, _ in recent.find(which, 10)] == found
