"""`klamm.Cluster` in the test's event loop: brokers start and stop, and the same seed gives the same cluster."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing

import klamm
from klamm import ConfigResource, ErrorCode, NewPartitions, NewTopic

RACKS = ("a", "b", "c")


@pytest.fixture
def clock() -> trio.testing.MockClock:
    """The clock jumps through sessions and heartbeats when nothing else happens. Each jump is only to the server's next
    tick, so a jump while an answer is on its way does no harm."""
    return trio.testing.MockClock(autojump_threshold=0.005)


async def create(cluster: klamm.Cluster, *topics: NewTopic | str) -> tuple[klamm.CreatedTopic, ...]:
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        return tuple(result.raise_for_error() for result in await admin.create_topics(topics))


async def partitions(cluster: klamm.Cluster, topic_name: str) -> tuple[klamm.PartitionDescription, ...]:
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        (topic,) = (await admin.metadata([topic_name])).topics
        return topic.raise_for_error().partitions


async def eventually(claim: Callable[[], Awaitable[bool]]) -> None:
    """Wait, on the mock clock, until the condition is true, for at most a minute of simulated time."""
    with trio.fail_after(60):
        while not await claim():  # noqa: ASYNC110 - what is waited for is an answer of the server
            await trio.sleep(0.1)


async def test_brokers_stand_in_their_racks_and_replicas_on_all_of_them() -> None:
    async with klamm.Cluster(brokers=3, racks=RACKS, seed=7) as cluster:
        async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
            brokers = (await admin.describe_cluster()).brokers
        assert [(broker.broker_id, broker.rack, broker.fenced) for broker in brokers] == [
            (1, "a", False),
            (2, "b", False),
            (3, "c", False),
        ]
        assert cluster.bootstrap_servers == ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
        await create(cluster, NewTopic("t", 5, 3))
        for partition in await partitions(cluster, "t"):
            assert sorted(partition.replicas) == sorted(partition.isr) == [1, 2, 3]
            assert partition.leader == partition.replicas[0]


async def test_a_topic_needs_no_more_than_a_name() -> None:
    configs = {"num.partitions": "3", "default.replication.factor": "2"}
    async with klamm.Cluster(brokers=2, configs=configs) as cluster:
        (made,) = await create(cluster, "t")
        assert (made.num_partitions, made.replication_factor) == (3, 2)
        assert len(await partitions(cluster, "t")) == 3


async def test_topics_are_made_enlarged_described_and_deleted() -> None:
    async with klamm.Cluster(seed=7) as cluster, klamm.AdminClient(cluster.bootstrap_servers) as admin:
        (made,) = await admin.create_topics([NewTopic("t", 2, 2, {"retention.ms": "1234"})])
        (enlarged,) = await admin.create_partitions([NewPartitions("t", 3, [[3, 1]])])
        assert enlarged.error is None
        (configs,) = await admin.describe_configs([ConfigResource.topic("t")], keys=["retention.ms"])
        assert configs.configs["retention.ms"].value == "1234"
        (described,) = await admin.describe_topic_partitions(["t"])
        assert described.topic_id == made.topic_id
        assert described.partitions[2].replicas == (3, 1)
        assert made.topic_id is not None
        (deleted,) = await admin.delete_topics([made.topic_id])
        assert (deleted.topic_name, deleted.error) == ("t", None)
        (gone,) = (await admin.metadata(["t"])).topics
        assert gone.error == klamm.ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def test_each_broker_describes_its_own_configs() -> None:
    async with klamm.Cluster(brokers=2) as cluster, klamm.AdminClient(cluster.bootstrap_servers) as admin:
        results = await admin.describe_configs([ConfigResource.broker(1), ConfigResource.broker(2)])
        assert [result.error for result in results] == [None, None]
        assert [result.configs["node.id"].value for result in results] == ["1", "2"]


async def test_a_broker_takes_its_own_static_configs_before_those_of_all() -> None:
    """Also a broker that is added later. A config that it lacks is taken from those of all brokers."""
    name, configs = "max.broker.partitions", {"max.broker.partitions": "4", "num.partitions": "3"}
    own = {2: {name: "1", "num.partitions": "2"}, 3: {name: "9"}}
    async with (
        klamm.Cluster(brokers=2, configs=configs, broker_configs=own) as cluster,
        klamm.AdminClient(cluster.bootstrap_servers) as admin,
    ):
        await cluster.add_broker()
        requested = [ConfigResource.broker(broker_id) for broker_id in (1, 2, 3)]
        reported = [result.configs for result in await admin.describe_configs(requested)]
        assert [(one[name].value, one["num.partitions"].value) for one in reported] == [
            ("4", "3"),
            ("1", "2"),
            ("9", "3"),
        ]
        assert {one[name].source for one in reported} == {klamm.ConfigSource.STATIC_BROKER_CONFIG}
        codes = []
        for server in cluster.bootstrap_servers.split(","):
            async with klamm.AdminClient(server) as asking:
                (result,) = await asking.create_topics([NewTopic("t", 6, 1)], validate_only=True)
                codes.append(result.error and result.error.code)
        assert codes == [None, ErrorCode.POLICY_VIOLATION, None]


async def seen_of(seed: int | None) -> list[tuple[object, ...]]:
    async with klamm.Cluster(brokers=3, racks=RACKS, seed=seed) as cluster:
        made = await create(cluster, NewTopic("t", 6, 2), "u")
        placed = [partition.replicas for partition in await partitions(cluster, "t")]
        return [(topic.topic_name, topic.topic_id) for topic in made] + [tuple(placed)]


async def test_the_same_seed_gives_the_same_ids_and_places() -> None:
    first, again, other = await seen_of(7), await seen_of(7), await seen_of(8)
    assert first == again
    assert first != other


async def test_without_a_seed_every_cluster_is_another() -> None:
    assert await seen_of(None) != await seen_of(None)


async def test_a_broker_that_is_shut_down_gives_its_leaderships_away_and_comes_back(
    clock: trio.testing.MockClock,
) -> None:
    async with klamm.Cluster(brokers=3, racks=RACKS, seed=7) as cluster:
        await create(cluster, NewTopic("t", 6, 3))
        servers = cluster.bootstrap_servers.split(",")
        await cluster.stop_broker(2)
        assert cluster.bootstrap_servers.split(",") == [servers[0], servers[2]]
        with pytest.raises(klamm.ClusterUnreachable, match="Connection refused"):
            await klamm.AdminClient.connect(servers[1])
        for partition in await partitions(cluster, "t"):
            assert partition.leader in {1, 3}
            assert sorted(partition.isr) == [1, 3]
            assert partition.offline_replicas == (2,)
        await cluster.start_broker(2)
        assert cluster.bootstrap_servers.split(",") == servers

        async def in_sync_again() -> bool:
            return all(sorted(partition.isr) == [1, 2, 3] for partition in await partitions(cluster, "t"))

        await eventually(in_sync_again)


async def test_a_crash_is_noticed_when_the_session_is_over(clock: trio.testing.MockClock) -> None:
    async with klamm.Cluster(brokers=3, configs={"broker.session.timeout.ms": "9000"}) as cluster:
        await create(cluster, NewTopic("t", 6, 3))
        began = trio.current_time()
        await cluster.stop_broker(1, mode="crash")

        async def leads_nothing() -> bool:
            return all(partition.leader in {2, 3} for partition in await partitions(cluster, "t"))

        assert not await leads_nothing()
        await eventually(leads_nothing)
        # The last heartbeat may have been up to two seconds before the crash.
        assert 6.5 < trio.current_time() - began < 11


async def test_clients_of_a_stopped_broker_are_hung_up_on_and_those_of_others_are_not() -> None:
    async with klamm.Cluster(brokers=2) as cluster:
        one, two = [await klamm.AdminClient.connect(server) for server in cluster.bootstrap_servers.split(",")]
        await cluster.stop_broker(1, mode="crash")
        with pytest.raises(klamm.ClusterUnreachable):
            await one.describe_cluster()
        assert (await two.describe_cluster()).cluster_id
        await one.aclose()
        await two.aclose()


async def test_brokers_are_added_and_removed_while_clients_are_connected() -> None:
    async with klamm.Cluster(brokers=2, racks=("a", "b")) as cluster:
        async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
            assert await cluster.add_broker(rack="z") == 3
            assert await cluster.add_broker() == 4
            brokers = (await admin.describe_cluster()).brokers
            assert {broker.broker_id: broker.rack for broker in brokers} == {1: "a", 2: "b", 3: "z", 4: "b"}
            await create(cluster, NewTopic("t", 1, 4))
            await cluster.remove_broker(2)
            brokers = (await admin.describe_cluster()).brokers
            assert [broker.broker_id for broker in brokers] == [1, 3, 4]
        assert len(cluster.bootstrap_servers.split(",")) == 3


async def test_what_a_broker_cannot_do_is_a_cluster_error() -> None:
    async with klamm.Cluster(brokers=1) as cluster:
        for change, reason in (
            (cluster.stop_broker(9), "no simulated broker 9"),
            (cluster.start_broker(1), "up already"),
            (cluster.remove_broker(9), "no simulated broker 9"),
            (cluster.stop_broker("1"), "^broker id '1': a whole number from 0 to 2147483647"),  # type: ignore[arg-type]
            (cluster.start_broker(True), "^broker id True: a whole number"),
            (cluster.remove_broker(1.0), "^broker id 1.0: a whole number"),  # type: ignore[arg-type]
            (cluster.add_broker(rack=""), "rack '' has no name"),
            (cluster.stop_broker(1, mode="gently"), "no way to stop"),  # type: ignore[arg-type]
        ):
            with pytest.raises(klamm.ClusterError, match=reason):
                await change


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"brokers": 0}, "^brokers 0: a cluster without simulated brokers needs --controller-listener"),
        ({"brokers": 1001}, "^brokers 1001: a whole number from 0 to 1000"),
        ({"brokers": "3"}, "^brokers '3': a whole number"),
        ({"brokers": True}, "^brokers True: a whole number"),
        ({"racks": "abc"}, "^racks 'abc': a sequence of names"),
        ({"racks": 3}, "^racks 3: a sequence of names"),
        ({"racks": ("a", "")}, "^rack '' has no name"),
        ({"racks": ("a", " b")}, "^rack ' b' has no name, or blanks"),
        ({"racks": ("a", None)}, "^rack None: a name"),
        ({"racks": ("x" * 256,)}, "^rack 'x{40}': up to 255"),
        (
            {"configs": {"num.partitions": None}},
            "^config num.partitions: its value must be a string",
        ),
        ({"configs": {3: "3"}}, "^config 3: its name must be a string$"),
        ({"configs": [("num.partitions", "3")]}, "^configs .*: a mapping"),
        ({"configs": {"no.such.config": "1"}}, "^static config no.such.config: no broker config is called"),
        ({"configs": {"num.partitions": "many"}}, "^static config num.partitions: Invalid value many"),
        ({"configs": {"a\nb": "1"}}, r"^static config a\\nb: no broker config"),
        ({"broker_configs": [{"num.partitions": "3"}]}, "^broker configs .*: a mapping of broker ids"),
        ({"broker_configs": {"2": {"num.partitions": "3"}}}, "^broker '2': a whole number from 0 to 2147483647"),
        ({"broker_configs": {-1: {"num.partitions": "3"}}}, "^broker -1: a whole number"),
        ({"broker_configs": {2**31: {}}}, "^broker 2147483648: a whole number"),
        ({"broker_configs": {True: {}}}, "^broker True: a whole number"),
        ({"broker_configs": {2: "num.partitions=3"}}, "^configs of broker 2 'num.partitions=3': a mapping"),
        ({"broker_configs": {2: {3: "3"}}}, "^config 3 of broker 2: its name must be a string$"),
        (
            {"broker_configs": {2: {"num.partitions": []}}},
            "^config num.partitions of broker 2: its value must be a str",
        ),
        ({"broker_configs": {2: {"no.such": "1"}}}, "^static config no.such of broker 2: no broker config is called"),
        ({"broker_configs": {2: {"num.partitions": "many"}}}, "^static config num.partitions of broker 2: Invalid val"),
        ({"broker_configs": {2: {"super.users": "User:a"}}}, "^super.users of broker 2: the controller decides it"),
        ({"listen": "nowhere"}, "nowhere"),
        ({"profile": "zookeeper"}, "zookeeper"),
        ({"seed": -1}, "seed -1"),
        ({"seed": 2**63}, "^seed 9223372036854775808: a whole number"),
        ({"seed": "7"}, "^seed '7': a whole number"),
    ],
)
def test_a_bad_option_is_refused_before_anything_starts(options: dict[str, object], reason: str) -> None:
    with pytest.raises(klamm.ClusterError, match=reason):
        klamm.Cluster(**options)  # type: ignore[arg-type]


async def test_a_taken_port_and_a_data_directory_that_is_a_file_are_cluster_errors(tmp_path: Path) -> None:
    async with klamm.Cluster(brokers=1) as cluster:
        with pytest.raises(klamm.ClusterError, match=cluster.bootstrap_servers):
            async with klamm.Cluster(brokers=1, listen=cluster.bootstrap_servers):
                pass
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(klamm.ClusterError, match="file"):
        async with klamm.Cluster(brokers=1, data_dir=file):
            pass


async def test_a_cluster_is_used_inside_its_block_only() -> None:
    cluster = klamm.Cluster(brokers=1)
    with pytest.raises(klamm.ClusterError, match="not running"):
        _ = cluster.bootstrap_servers
    async with cluster:
        with pytest.raises(klamm.ClusterError, match="running already"):
            await cluster.__aenter__()
        servers = cluster.bootstrap_servers
    with pytest.raises(klamm.ClusterError, match="not running"):
        await cluster.stop_broker(1)
    with pytest.raises(klamm.ClusterUnreachable):
        await klamm.AdminClient.connect(servers)


async def test_an_error_of_the_block_comes_out_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with klamm.Cluster(brokers=1):
            raise ZeroDivisionError


async def test_a_data_directory_keeps_topics_brokers_and_the_cluster_s_id(tmp_path: Path) -> None:
    async with klamm.Cluster(brokers=2, data_dir=tmp_path) as cluster:
        (made,) = await create(cluster, NewTopic("t", 4, 2))
        before = await partitions(cluster, "t")
        async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
            cluster_id = (await admin.describe_cluster()).cluster_id
    async with klamm.Cluster(brokers=2, data_dir=tmp_path) as cluster:
        async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
            assert (await admin.describe_cluster()).cluster_id == cluster_id
            (kept,) = (await admin.metadata(["t"])).topics
        assert kept.topic_id == made.topic_id
        assert [p.replicas for p in kept.partitions] == [p.replicas for p in before]


async def test_the_controller_listener_is_there_when_asked_for() -> None:
    async with klamm.Cluster(brokers=1) as cluster:
        with pytest.raises(klamm.ClusterError, match="no controller listener"):
            _ = cluster.controller_bootstrap_servers
    async with klamm.Cluster(brokers=1, controller_listener="127.0.0.1:0") as cluster:
        async with klamm.AdminClient(cluster.controller_bootstrap_servers) as admin:
            (made,) = await admin.create_topics([NewTopic("t", 1, 1)])
            assert made.error is None
            with pytest.raises(klamm.NotSupportedByBroker, match="Metadata"):
                await admin.metadata()
        assert len(await partitions(cluster, "t")) == 1


async def test_the_request_log_tells_who_asked_for_what(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with (
        klamm.Cluster(brokers=1, request_log=path) as cluster,
        klamm.AdminClient(cluster.bootstrap_servers, client_id="me") as admin,
    ):
        await admin.create_topics([NewTopic("t", 1, 1)])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["api"], line["client_id"]) for line in lines] == [("ApiVersions", "me"), ("CreateTopics", "me")]
    assert lines[1]["client_software_name"] == "klamm"


@pytest.mark.parametrize(
    ("profile", "code"),
    [("kip", ErrorCode.INVALID_TOPIC_EXCEPTION), ("kafka", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
)
async def test_the_profile_decides_where_kips_and_kafka_differ(profile: str, code: ErrorCode) -> None:
    async with (
        klamm.Cluster(brokers=1, profile=profile) as cluster,  # type: ignore[arg-type]
        klamm.AdminClient(cluster.bootstrap_servers) as admin,
    ):
        (result,) = await admin.create_partitions([NewPartitions("unknown", 2)])
    assert result.error is not None
    assert result.error.code is code
