"""Chosen broker ids: `--broker-ids`, `broker_ids`, `klamm_broker_ids` and KAFKA_NODE_ID."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import klamm
from klamm.cluster.options import MAX_BROKER_ID, checked_options
from klamm.cluster.plan import FREE_PORTS, plan_cluster
from klamm.container import ContainerError, broker_id, serve_arguments
from klamm.controller.settings import SettingsError
from klamm.testing.marker_options import words_from_ini, words_from_marker
from tests.klamm.serve.processes import FREE, refused
from tests.server.test_listener import free_ports_in_a_row

SECONDS = 30
GROUP = {"group.id": "g", "auto.offset.reset": "earliest"}


def planned(**options: Any) -> Any:
    return plan_cluster(checked_options(options), {}, FREE_PORTS)


def test_a_client_writes_and_reads_by_group_on_brokers_that_count_from_zero() -> None:
    delay = {"group.initial.rebalance.delay.ms": 0}
    with klamm.ServerProcess(
        broker_ids=(0, 1, 2), racks=("a", "b", "c"), control=True, configs=delay, warm=True
    ) as server:
        assert [(one.id, one.rack) for one in server.brokers()] == [(0, "a"), (1, "b"), (2, "c")]
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        topic = NewTopic("orders", replica_assignment=[[0, 1, 2], [0, 2, 1], [1, 0, 2]], num_partitions=3)
        admin.create_topics([topic])["orders"].result(SECONDS)
        metadata = admin.list_topics(timeout=SECONDS)
        assert sorted(metadata.brokers) == [0, 1, 2]
        assert [one.leader for _, one in sorted(metadata.topics["orders"].partitions.items())] == [0, 0, 1]
        server.stop_broker(0)
        server.start_broker(0)
        producer = Producer({"bootstrap.servers": server.bootstrap_servers, "acks": "all"})
        for partition in range(3):
            producer.produce("orders", b"%d" % partition, partition=partition)
        assert producer.flush(SECONDS) == 0
        consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, **GROUP})
        consumer.subscribe(["orders"])
        values = {message.value() for message in consumer.consume(3, SECONDS)}
        consumer.close()
    assert values == {b"0", b"1", b"2"}


async def test_ports_and_racks_follow_the_order_of_the_ids_and_added_brokers_come_after_the_highest() -> None:
    first = free_ports_in_a_row(4)
    options: Any = {"broker_ids": (7, 0, 4), "racks": ("a", "b", "c"), "listen": f"127.0.0.1:{first}"}
    async with klamm.Cluster(**options) as cluster, klamm.AdminClient(cluster.bootstrap_servers) as admin:
        assert await cluster.add_broker() == 8
        shown = {one.broker_id: (one.port - first, one.rack) for one in (await admin.metadata()).brokers}
        assert shown == {0: (1, "b"), 4: (2, "c"), 7: (0, "a"), 8: (3, "a")}
        await cluster.remove_broker(8)
        await cluster.remove_broker(7)
        assert await cluster.add_broker() == 7
        (again,) = [one for one in (await admin.metadata()).brokers if one.broker_id == 7]
        assert (again.port - first, again.rack) == (0, "a")
        assert await cluster.add_broker() == 8


async def test_a_broker_that_is_added_never_gets_the_controller_s_id_and_none_beyond_the_highest() -> None:
    async with klamm.Cluster(broker_ids=(2999,)) as cluster:
        assert await cluster.add_broker() == 3001
    async with klamm.Cluster(broker_ids=(MAX_BROKER_ID,)) as cluster:
        with pytest.raises(klamm.ClusterError, match="there is no broker id after 2147483647"):
            await cluster.add_broker()
        await cluster.stop_broker(MAX_BROKER_ID)


async def test_configs_of_single_brokers_and_listeners_of_their_own_go_by_id() -> None:
    first = free_ports_in_a_row(3)
    own: Any = {0: {"num.partitions": 5, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}}
    listen = {"listeners": f"PLAINTEXT://127.0.0.1:{first}"}
    async with (
        klamm.Cluster(broker_ids=(9, 8, 0), broker_configs=own, configs=listen) as cluster,
        klamm.AdminClient(cluster.bootstrap_servers) as admin,
    ):
        assert {one.broker_id: one.port - first for one in (await admin.metadata()).brokers} == {9: 0, 8: 1, 0: 2}
        assert await _num_partitions(admin, 0) == "5"
        assert await _num_partitions(admin, 8) == "1"


async def _num_partitions(admin: klamm.AdminClient, broker: int) -> str | None:
    found = await admin.describe_configs([klamm.ConfigResource.broker(broker)])
    return found[0].configs["num.partitions"].value


async def test_with_other_ids_after_a_restart_the_former_brokers_are_fenced_and_keep_their_replicas(
    tmp_path: Path,
) -> None:
    fast: Any = {"data_dir": tmp_path, "configs": {"broker.session.timeout.ms": 1000}}
    async with klamm.Cluster(broker_ids=(1, 2), **fast) as cluster:
        await cluster.create_topic("t", 4, 2)
    async with (
        klamm.Cluster(broker_ids=(0, 1), **fast) as cluster,
        klamm.AdminClient(cluster.bootstrap_servers) as admin,
    ):

        async def only_the_new_ones() -> bool:
            return [one.broker_id for one in (await admin.metadata()).brokers] == [0, 1]

        await cluster.wait_until(only_the_new_ones)
        (topic,) = (await admin.metadata(["t"])).topics
        assert {(frozenset(one.replicas), one.leader) for one in topic.partitions} == {(frozenset((1, 2)), 1)}
        assert all(one.offline_replicas == (2,) for one in topic.partitions)


@pytest.mark.parametrize(("options", "reason"), [
    ({"broker_ids": (0, 1, 0)}, "broker id 0 is given twice"),
    ({"broker_ids": (-1,)}, "broker id -1: a whole number from 0 to 2147483647 is expected"),
    ({"broker_ids": (2**31,)}, "broker id 2147483648: a whole number from 0"),
    ({"broker_ids": (True,)}, "broker id True: a whole number"),
    ({"broker_ids": "012"}, "broker ids '012': a sequence of numbers is expected, such as (0, 1, 2)"),
    ({"broker_ids": {0, 1}}, "a sequence of numbers is expected"),
    ({"broker_ids": range(1001)}, "1001 broker ids: at most 1000 are possible"),
    ({"broker_ids": (0, 1), "brokers": 3}, "the number of brokers is 3, and 2 broker ids are given"),
    ({"broker_ids": (2999, 3000)}, "broker id 3000 is not possible, because it is the controller's"),
])  # fmt: skip
def test_impossible_ids_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(klamm.ClusterError) as refused:
        klamm.Cluster(**options)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_ids_imply_the_number_of_brokers() -> None:
    assert planned().broker_ids == planned(broker_ids=()).broker_ids == planned(broker_ids=(1, 2, 3)).broker_ids
    assert planned(brokers=2).broker_ids == (1, 2)
    assert planned(broker_ids=range(0, 8, 2)).broker_ids == planned(broker_ids=(0, 2, 4, 6), brokers=4).broker_ids
    (replication,) = {planned(broker_ids=(5, 0)).settings.static_configs["offsets.topic.replication.factor"]}
    assert replication == "2"


def test_configs_for_absent_brokers_are_a_warning_that_names_those_that_start() -> None:
    options: Any = {"broker_ids": (4, 0), "broker_configs": {0: {}, 1: {"num.partitions": 1}}}
    (warning,) = planned(**options).warnings
    assert warning == "--broker-set names brokers that are not started: 1; started are 4, 0"


@pytest.mark.parametrize(("arguments", "reason"), [
    (("--broker-ids", ""), "argument --broker-ids: '': a whole number from 0 to 2147483647 is expected"),
    (("--broker-ids", "0,1,1"), "argument --broker-ids: '0,1,1': broker id 1 is given twice"),
    (("--broker-ids", "0,-1"), "argument --broker-ids: '-1': a whole number from 0"),
    (("--broker-ids", "3000"), "broker id 3000 is not possible"),
    (("--broker-ids", "0,1", "--brokers", "1"), "the number of brokers is 1, and 2 broker ids are given"),
])  # fmt: skip
def test_the_command_line_refuses_in_one_line(arguments: tuple[str, ...], reason: str) -> None:
    code, stdout, stderr = refused("serve", *FREE, *arguments)
    assert (code, stdout, stderr.count("\n")) == (2, "", 1)
    assert reason in stderr


def test_a_closer_number_of_brokers_replaces_ids_and_closer_ids_the_number() -> None:
    def of(ini: dict[str, str], *markers: dict[str, Any]) -> list[str]:
        words = words_from_ini(ini)
        for marker in markers:
            words |= words_from_marker((), marker)
        return [word for some in words.values() for word in some]

    assert of({"brokers": "3"}, {"broker_ids": (0, 1)}) == ["--broker-ids", "0,1"]
    assert of({"broker_ids": "0,1"}, {"brokers": 3}) == ["--brokers", "3"]
    assert of({"brokers": "4"}, {"broker_ids": (0, 1)}, {"brokers": 2}) == ["--brokers", "2"]
    assert of({}, {"broker_ids": (0, 1), "brokers": 2}) == ["--broker-ids", "0,1", "--brokers", "2"]


@pytest.mark.parametrize(("environ", "expected"), [
    ({}, 1),
    ({"KAFKA_NODE_ID": "0"}, 0),
    ({"KAFKA_NODE_ID": " 5 ", "KAFKA_BROKER_ID": "6"}, 5),
    ({"KAFKA_BROKER_ID": "6"}, 6),
    ({"KAFKA_BROKER_ID": "-1"}, 1),
    ({"KAFKA_NODE_ID": str(MAX_BROKER_ID)}, MAX_BROKER_ID),
])  # fmt: skip
def test_the_one_broker_of_a_container_has_the_id_of_the_variable(environ: dict[str, str], expected: int) -> None:
    assert broker_id(environ) == expected
    arguments = serve_arguments([], environ, Path("/nonexistent"))
    assert arguments[arguments.index("--broker-ids") + 1] == str(expected)
    for option in ("--brokers=3", "--broker-ids=7"):
        assert "--broker-ids" not in serve_arguments([option], environ, Path("/nonexistent"))


@pytest.mark.parametrize("text", ["x", "-2", str(MAX_BROKER_ID + 1), "9" * 5000, "1.0", "٣"])
def test_a_variable_that_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ContainerError, match="KAFKA_NODE_ID="):
        broker_id({"KAFKA_NODE_ID": text})


def test_the_controller_s_id_is_refused_in_a_container_too() -> None:
    with pytest.raises(SettingsError, match="3000"):
        planned(broker_ids=(3000,))
