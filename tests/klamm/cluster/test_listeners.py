"""Several listeners for each broker: a client of one listener gets the end points of that listener only."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import klamm
from tests.server.test_listener import can_connect, free_ports_in_a_row

TWO = ("PLAINTEXT://127.0.0.1:0", "INTERNAL://127.0.0.1:0")
SECONDS = 30


def end_points(bootstrap_servers: str) -> set[str]:
    """The end points of all brokers, as Metadata gives them to a client of these servers."""
    brokers = AdminClient({"bootstrap.servers": bootstrap_servers}).list_topics(timeout=SECONDS).brokers.values()
    return {f"{broker.host}:{broker.port}" for broker in brokers}


def described(bootstrap_servers: str) -> set[str]:
    """The same from DescribeCluster."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    nodes = admin.describe_cluster().result(SECONDS).nodes
    return {f"{node.host}:{node.port}" for node in nodes}


def test_each_client_sees_the_end_points_of_its_listener_alone_and_writes_and_reads_there() -> None:
    with klamm.ServerProcess(brokers=3, listeners=TWO, control=True, warm=True) as server:
        internal = server.listeners["INTERNAL"]
        for servers, name in ((server.bootstrap_servers, "PLAINTEXT"), (internal, "INTERNAL")):
            assert end_points(servers) == described(servers) == set(servers.split(","))
            assert {(one.listener, one.listener_name) for one in server.requests("Metadata")[-1:]} == {("broker", name)}
        assert not set(server.bootstrap_servers.split(",")) & set(internal.split(","))
        admin = AdminClient({"bootstrap.servers": internal})
        admin.create_topics([NewTopic("orders", 3, 3)])["orders"].result(SECONDS)
        producer = Producer({"bootstrap.servers": internal, "acks": "all"})
        for partition in range(3):
            producer.produce("orders", b"%d" % partition, partition=partition)
        assert producer.flush(SECONDS) == 0
        for servers in (internal, server.bootstrap_servers):
            # The consumer assigns its partitions itself and commits nothing.
            settings = {"group.id": "none", "auto.offset.reset": "earliest", "enable.auto.commit": False}
            consumer = Consumer({"bootstrap.servers": servers, **settings})
            consumer.assign([TopicPartition("orders", partition, 0) for partition in range(3)])
            messages = [consumer.poll(SECONDS) for _ in range(3)]
            assert sorted(message.value() or b"" for message in messages if message) == [b"0", b"1", b"2"]
            consumer.close()


def test_all_listeners_of_a_broker_close_and_open_together_on_their_ports() -> None:
    with klamm.ServerProcess(brokers=2, listeners=TWO, control=True, warm=True) as server:
        (before,) = [broker for broker in server.brokers() if broker.id == 2]
        ports = [int(address.rpartition(":")[2]) for address in before.listeners.values()]
        assert [can_connect(port) for port in ports] == [True, True]
        server.stop_broker(2)
        assert [can_connect(port) for port in ports] == [False, False]
        assert end_points(server.listeners["INTERNAL"]) == {server.listeners["INTERNAL"].split(",")[0]}
        server.start_broker(2)
        assert end_points(server.listeners["INTERNAL"]) == set(server.listeners["INTERNAL"].split(","))
        added = server.add_broker()
        (after,) = [broker for broker in server.brokers() if broker.id == added]
        assert set(after.listeners) == {"PLAINTEXT", "INTERNAL"}
        assert after.listeners["INTERNAL"] in end_points(server.listeners["INTERNAL"])


def test_brokers_take_consecutive_ports_of_each_listener() -> None:
    first = free_ports_in_a_row(6)
    wanted = (f"PLAINTEXT://127.0.0.1:{first}", f"INTERNAL://127.0.0.1:{first + 3}")
    with klamm.ServerProcess(brokers=3, listeners=wanted, warm=True) as server:
        ports = [f"127.0.0.1:{first + index}" for index in range(6)]
        assert (server.bootstrap_servers, server.listeners) == (",".join(ports[:3]), {"INTERNAL": ",".join(ports[3:])})


def test_a_leader_without_the_listener_that_was_asked_is_not_told() -> None:
    single = {2: {"listeners": "PLAINTEXT://127.0.0.1:0"}}
    with klamm.ServerProcess(brokers=2, listeners=TWO, broker_configs=single, warm=True) as server:
        assert len(server.bootstrap_servers.split(",")) == 2
        assert end_points(server.listeners["INTERNAL"]) == described(server.listeners["INTERNAL"])
        assert "," not in server.listeners["INTERNAL"]
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        admin.create_topics([NewTopic("t", 2, replica_assignment=[[2, 1], [1, 2]])])["t"].result(SECONDS)
        for servers, leaders in ((server.bootstrap_servers, [2, 1]), (server.listeners["INTERNAL"], [-1, 1])):
            reported = (
                AdminClient({"bootstrap.servers": servers}).list_topics("t", timeout=SECONDS).topics["t"].partitions
            )
            assert [reported[index].leader for index in (0, 1)] == leaders
            errors = [error and error.name() for error in (reported[0].error, reported[1].error)]
            assert errors == [None if leader >= 0 else "LISTENER_NOT_FOUND" for leader in leaders]


def test_configs_say_what_options_say() -> None:
    port = free_ports_in_a_row(4)
    configs = {
        "listeners": f"BROKER://127.0.0.1:{port},HOST://127.0.0.1:{port + 2},CONTROLLER://127.0.0.1:0",
        "advertised.listeners": "BROKER://broker.example:19092,HOST://localhost:0",
        "listener.security.protocol.map": "BROKER:PLAINTEXT,HOST:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL",
        "inter.broker.listener.name": "BROKER",
    }
    with klamm.ServerProcess(brokers=2, configs=configs, warm=True) as server:
        assert server.bootstrap_servers == f"localhost:{port + 2},localhost:{port + 3}"
        assert server.listeners == {"BROKER": "broker.example:19092,broker.example:19093"}
        assert server.controller_bootstrap_servers
        assert server.stderr_text() == ""


def test_a_file_says_where_to_listen_if_nothing_closer_does(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    port = free_ports_in_a_row(1)
    file.write_text(f"listeners=PLAINTEXT://127.0.0.1:{port},\\\n INSIDE://127.0.0.1:0\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT\n")  # fmt: skip
    with klamm.ServerProcess(brokers=1, config=file, warm=True) as server:
        assert server.bootstrap_servers == f"127.0.0.1:{port}"
        assert set(server.listeners) == {"INSIDE"}
        assert server.stderr_text() == ""
    for options in ({"listen": "127.0.0.1:0"}, {"users": {"alice": "secret"}}):
        with klamm.ServerProcess(brokers=1, config=file, **options, warm=True) as server:
            assert server.bootstrap_servers != f"127.0.0.1:{port}"
            assert server.listeners == {}
    with klamm.ServerProcess(
        brokers=1, config=file, configs={"listeners": "PLAINTEXT://127.0.0.1:0"}, warm=True
    ) as server:
        assert server.bootstrap_servers != f"127.0.0.1:{port}"
        assert server.listeners == {}
    file.write_text("num.partitions=3\n")
    with klamm.ServerProcess(brokers=1, config=file, warm=True) as server:
        assert not server.bootstrap_servers.endswith(":9092")


def test_configs_of_a_file_have_no_effect_where_options_say_where_to_listen(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listeners=TLS://:1\nlistener.security.protocol.map=TLS:SSL\nssl.keystore.location=/k\n")
    with klamm.ServerProcess(brokers=1, config=file, listen="127.0.0.1:0", warm=True) as server:
        reported = server.stderr_text()
    assert "the server's own options decide, so these have no effect: listeners" in reported
    assert reported.count("no listener uses TLS or SASL, so these configs have no effect: ssl.keystore.location") == 1


async def test_a_cluster_in_a_trio_program_has_the_same() -> None:
    async with klamm.Cluster(brokers=1, listeners=(*TWO, "CONTROLLER://127.0.0.1:0"), seed=1) as cluster:
        assert set(cluster.listeners) == {"INTERNAL"}
        for servers in (cluster.bootstrap_servers, cluster.listeners["INTERNAL"]):
            async with klamm.AdminClient(servers) as admin:
                brokers = (await admin.describe_cluster()).brokers
                assert [f"{broker.host}:{broker.port}" for broker in brokers] == [servers]
        assert cluster.controller_bootstrap_servers


MAP = {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,S:SSL,CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"}


@pytest.mark.parametrize(("configs", "said"), [
    ({"listeners": "A"}, "listeners: 'A': NAME://HOST:PORT is expected"),
    ({"listeners": "A://127.0.0.1:x"}, "listeners: 'x' is no port"),
    ({"listeners": "A://h:1"}, "listeners: listener.security.protocol.map has no security protocol for listener A"),
    ({"listeners": "A://h:1", "listener.security.protocol.map": "A"}, "map: 'A': NAME:PROTOCOL is expected"),
    ({"listeners": "A://h:1", "listener.security.protocol.map": "A:TLS"}, "map: 'A:TLS': the security protocols are"),
    ({"listeners": "PLAINTEXT://h:1,plaintext://h:2"}, "listener name PLAINTEXT is used twice"),
    ({"listeners": "A://h:1,B://g:1", **MAP}, "A, B have the same port 1; only an IPv4 and an IPv6"),
    ({"listeners": "A://127.0.0.1:1,B://127.0.0.2:1", **MAP}, "A, B have the same port 1"),
    ({"listeners": "CONTROLLER://h:1,PLAINTEXT://h:2", "process.roles": "broker"},
     "listeners: a broker that is not a controller cannot have a controller listener: CONTROLLER"),
    ({"listeners": "CONTROLLER://h:1"}, "advertised.listeners: there is no listener of brokers"),
    ({"listeners": "A://h:1", **MAP}, "inter.broker.listener.name: PLAINTEXT is not advertised"),
    ({"inter.broker.listener.name": "Z"}, "inter.broker.listener.name: listener.security.protocol.map has no"),
    ({"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"}, "only one of the two"),
    ({"security.inter.broker.protocol": "SSL"}, "inter.broker.listener.name: SSL is not advertised"),
    ({"advertised.listeners": "PLAINTEXT://h:1,A://h:2", **MAP}, "has listeners that listeners does not have: A"),
    ({"advertised.listeners": "PLAINTEXT://:1"}, "advertised.listeners: PLAINTEXT://:1: clients need a host"),
    ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "clients cannot connect to the address 0.0.0.0"),
    ({"listeners": "PLAINTEXT://0.0.0.0:1"}, "PLAINTEXT://0.0.0.0:1: clients cannot connect to the address"),
    ({"listeners": "PLAINTEXT://h:1,S://h:2", **MAP}, "listener S: ssl.keystore.location: is not set"),
    ({"listeners": "PLAINTEXT://h:1,SASL_SSL://h:2"}, "listener SASL_SSL: sasl.enabled.mechanisms: GSSAPI"),
    ({"listeners": "PLAINTEXT://h:1,A://h:2,B://h:3", "controller.listener.names": "A,B"},
     "the controller can have only one listener, not 2: A, B"),
])  # fmt: skip
def test_kafkas_rules_are_kept(configs: dict[str, str], said: str) -> None:
    with pytest.raises(klamm.ClusterError) as refused:
        klamm.Cluster(configs=configs)
    assert said in str(refused.value)


@pytest.mark.parametrize(("options", "said"), [
    ({"listen": "127.0.0.1:0", "listeners": TWO}, "give listen or listeners, not both"),
    ({"listeners": ("SSL://127.0.0.1:0",)}, "listener SSL: ssl.keystore.location: is not set"),
    ({"listeners": ("PLAINTEXT",)}, "'PLAINTEXT': NAME://HOST:PORT is expected"),
    ({"listeners": "PLAINTEXT://127.0.0.1:0"}, "a sequence is expected"),
    ({"listeners": TWO, "advertise": "kafka"}, "advertise cannot be used with several listeners"),
    ({"listeners": (*TWO, "CONTROLLER://h:1"), "controller_listener": "h:2"}, "listener is given twice"),
    ({"listeners": TWO, "configs": {"inter.broker.listener.name": "C"}}, "has no security protocol for listener C"),
    ({"broker_configs": {2: {"listeners": "S://h:1", **MAP}}}, "broker 2: inter.broker.listener.name: PLAINTEXT is"),
    ({"broker_configs": {2: {"listeners": "CONTROLLER://h:1"}}}, "broker 2: listeners: a broker that is not"),
])  # fmt: skip
def test_options_that_cannot_be_had_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(klamm.ClusterError) as refused:
        klamm.Cluster(**options)  # type: ignore[arg-type]
    assert said in str(refused.value)


@pytest.mark.parametrize(("listeners", "said"), [
    (("PLAINTEXT://127.0.0.1:19092", "B://127.0.0.1:19094"), "B of broker 1 and PLAINTEXT of broker 3 both need"),
    (("PLAINTEXT://127.0.0.1:19092", "B://0.0.0.0:19091"), "PLAINTEXT of broker 1 and B of broker 2"),
    (("PLAINTEXT://localhost:19092", "CONTROLLER://127.0.0.1:19093"), "PLAINTEXT of broker 2 and CONTROLLER of the"),
    (("PLAINTEXT://127.0.0.1:65534",), "3 brokers from 127.0.0.1:65534 on need ports beyond 65535"),
])  # fmt: skip
async def test_ranges_that_overlap_are_refused_before_anything_opens(listeners: tuple[str, ...], said: str) -> None:
    with pytest.raises(klamm.ClusterError, match=said):
        async with klamm.Cluster(listeners=listeners):
            pytest.fail("it started")


async def test_one_port_serves_two_listeners_of_both_families() -> None:
    port = free_ports_in_a_row(1)
    async with klamm.Cluster(brokers=1, listeners=(f"PLAINTEXT://127.0.0.1:{port}", f"SIX://[::1]:{port}")) as cluster:
        assert (cluster.bootstrap_servers, cluster.listeners) == (f"127.0.0.1:{port}", {"SIX": f"[::1]:{port}"})
