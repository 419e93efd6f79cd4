"""`--client-telemetry`: metrics of a real client, through the control interface and the shell."""

import time
from typing import Any

import trio
from confluent_kafka import Producer

import klamm
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.configs import incremental_alter_configs as alter
from tests.behaviour.player import Line
from tests.klamm.control.control_cluster import controlled_cluster
from tests.klamm.control.test_command import run

SECONDS = 30.0
CLIENT_METRICS = 16


def subscribe(bootstrap_servers: str) -> None:
    """All metrics of all clients, ten times per second."""

    async def ask() -> None:
        line = await Line.open(bootstrap_servers.split(",", maxsplit=1)[0])
        configs = [
            alter.AlterableConfig(name=name, config_operation=0, value=value)
            for name, value in (("metrics", "*"), ("interval.ms", "100"), ("match", "client_id=watched.*"))
        ]
        resource = alter.AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name="all", configs=configs)
        answer = await line.ask(alter.API, 1, alter.IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == 0
        await line.close()

    trio.run(ask)


def test_librdkafka_pushes_its_metrics_and_they_are_shown() -> None:
    with klamm.ServerProcess(client_telemetry=True, control=True, warm=True) as server:
        subscribe(server.bootstrap_servers)
        producer = Producer({"bootstrap.servers": server.bootstrap_servers, "client.id": "watched-1"})
        producer.produce("t", b"x")
        producer.flush(SECONDS)
        control = klamm.ControlClient(server.control_url)
        give_up_at = time.monotonic() + SECONDS
        clients: Any = []
        while not any(one["metric_count"] for one in clients):
            assert time.monotonic() < give_up_at, "no metrics came"
            time.sleep(0.05)
            clients = control.ask("GET", "/telemetry")["clients"]
        (client,) = clients
        assert (client["client_id"], client["client_software_name"]) == ("watched-1", "confluent-kafka-python")
        shown = control.ask("GET", f"/telemetry/{client['client_instance_id']}")
        names = {one["name"] for one in shown["metrics"]}
        assert "org.apache.kafka.producer.connection.creation.total" in names
        _, listed, _ = run("--url", server.control_url, "telemetry")
        assert client["client_instance_id"] in listed
        _, printed, _ = run("--url", server.control_url, "telemetry", client["client_instance_id"])
        assert "org.apache.kafka.producer.connection.creation.total" in printed


async def test_without_the_option_there_is_nothing_and_the_apis_are_not_listed() -> None:
    async with controlled_cluster(1) as cluster:
        status, content = await cluster.ask("GET", "/telemetry")
        assert status == 404
        assert content["error"] == "metrics of clients are not read: start the server with --client-telemetry"
    for telemetry in (False, True):
        async with klamm.Cluster(brokers=1, client_telemetry=telemetry) as running:
            line = await Line.open(running.bootstrap_servers)
            software = api_versions.ApiVersionsRequest(client_software_name="t", client_software_version="1")
            keys = {one.api_key for one in (await line.ask(api_versions.API, 4, software)).api_keys}
            assert (keys >= {71, 72}) is telemetry
            assert bool(keys & {71, 72}) is telemetry
            await line.close()
