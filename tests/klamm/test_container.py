"""The container's entry point: how it translates the variables of Apache Kafka's image."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

import klamm
from klamm.container import (
    ContainerError,
    is_healthy,
    listener_variables,
    main_address,
    obeyed_variables,
    serve_arguments,
)
from klamm.serve.options import ServeOptions, decode_serve_options
from klamm.server.addresses import Address
from tests.server.test_listener import free_ports_in_a_row

NOWHERE = Path("/nonexistent/server.properties")
SECONDS = 60
ROOT = Path(__file__).resolve().parent.parent.parent


def started(environ: dict[str, str], *given: str) -> ServeOptions:
    """The arguments with which `klamm serve` is started."""
    return decode_serve_options(serve_arguments(given, environ, NOWHERE))


def refusal(environ: dict[str, str], *given: str) -> str:
    with pytest.raises(ContainerError) as refused:
        serve_arguments(given, environ, NOWHERE)
    return str(refused.value)


def test_without_variables_it_is_one_broker_with_the_volume() -> None:
    listen, data_dir = Address("0.0.0.0", 9092), Path("/var/lib/kafka/data")
    assert started({}) == ServeOptions(listen=listen, broker_ids=(1,), data_dir=data_dir, env=True)


@pytest.mark.parametrize(("environ", "listeners", "advertised", "healthy_at"), [
    ({"KAFKA_LISTENERS": "PLAINTEXT://:29092"}, "PLAINTEXT://:29092", None, "0.0.0.0:29092"),
    ({"KAFKA_LISTENERS": "plaintext://[::1]:9092"}, "PLAINTEXT://[::1]:9092", None, "[::1]:9092"),
    ({"KAFKA_LISTENERS": " CONTROLLER://:9093 , PLAINTEXT://:9092"}, "CONTROLLER://:9093,PLAINTEXT://:9092", None,
     "0.0.0.0:9092"),
    ({"KAFKA_LISTENERS": "C://h:9093", "KAFKA_CONTROLLER_LISTENER_NAMES": "c"}, "C://h:9093,PLAINTEXT://:9092", None,
     "0.0.0.0:9092"),
    ({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:29092"}, "PLAINTEXT://:29092", "PLAINTEXT://kafka:29092",
     "0.0.0.0:29092"),
    ({"KAFKA_LISTENERS": "PLAINTEXT://:9092", "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:29092"},
     "PLAINTEXT://:9092", "PLAINTEXT://localhost:29092", "0.0.0.0:9092"),
    ({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://h:1,CONTROLLER://h:9093"}, "PLAINTEXT://:1",
     "PLAINTEXT://h:1,CONTROLLER://h:9093", "0.0.0.0:1"),
    ({"KAFKA_LISTENERS": "IN://:1,OUT://:2", "KAFKA_INTER_BROKER_LISTENER_NAME": "IN",
      "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "IN:PLAINTEXT,OUT:PLAINTEXT"}, "IN://:1,OUT://:2", None, "0.0.0.0:2"),
])  # fmt: skip
def test_listeners_are_where_the_variables_say(
    environ: dict[str, str], listeners: str, advertised: str | None, healthy_at: str
) -> None:
    found = listener_variables(environ)
    assert (found["KAFKA_LISTENERS"], found.get("KAFKA_ADVERTISED_LISTENERS")) == (listeners, advertised)
    assert started(environ).listen is None
    assert str(main_address(environ)) == healthy_at


def test_without_listeners_the_option_says_where() -> None:
    environ = {"KAFKA_LISTENERS": "", "KAFKA_ADVERTISED_LISTENERS": ""}
    assert (listener_variables(environ), str(main_address(environ))) == ({}, "0.0.0.0:9092")
    assert str(started(environ, "--advertise", "kafka").advertise) == "kafka:0"


@pytest.mark.parametrize(("options", "healthy_at"), [
    ("--brokers 0 --controller-listener 0.0.0.0:9093", "0.0.0.0:9093"),
    ("--brokers=0 --controller-listener=0.0.0.0:9094", "0.0.0.0:9094"),
    ("--brokers 1 --controller-listener 0.0.0.0:9093", "0.0.0.0:9092"),
    ("--brokers 0", "0.0.0.0:9092"),
    ("--brokers 0 --controller-listener", "0.0.0.0:9092"),
    ("--brokers 0 --controller-listener x:y:z", "0.0.0.0:9092"),
])  # fmt: skip
def test_without_simulated_brokers_the_controller_is_asked_for_its_health(options: str, healthy_at: str) -> None:
    assert str(main_address({"KLAMM_OPTIONS": options})) == healthy_at


@pytest.mark.parametrize(("environ", "said"), [
    ({"KAFKA_LISTENERS": "PLAINTEXT://:0"}, "NAME://HOST:PORT is expected"),
    ({"KAFKA_LISTENERS": ":9092"}, "KAFKA_LISTENERS: ':9092': NAME://HOST:PORT is expected"),
    ({"KAFKA_LISTENERS": "PLAINTEXT://:x"}, "'x' is no port"),
    ({"KAFKA_PROCESS_ROLES": "broker"}, "KAFKA_PROCESS_ROLES=broker: a container is a whole cluster"),
    ({"KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:9093,2@b:9093"}, "names 2 controllers: a container is a whole cluster"),
    ({"KLAMM_OPTIONS": "--racks 'a"}, "KLAMM_OPTIONS: No closing quotation"),
    ({"KLAMM_OPTIONS": "--listen=:9"}, "--listen: use KAFKA_LISTENERS in a container"),
    ({"KLAMM_OPTIONS": "--listener A://:9"}, "--listener: use KAFKA_LISTENERS in a container"),
])  # fmt: skip
def test_what_a_container_cannot_be_is_said(environ: dict[str, str], said: str) -> None:
    assert said in refusal(environ)


@pytest.mark.parametrize(("environ", "said"), [
    ({"KAFKA_LISTENERS": "PLAINTEXT://:3,A://:1,B://:2", "KAFKA_CONTROLLER_LISTENER_NAMES": "A,B"},
     "the controller can have only one listener, not 2: A, B"),
    ({"KAFKA_LISTENERS": "PLAINTEXT://:1", "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://a:1,SSL://b:1"},
     "advertised.listeners has listeners that listeners does not have: SSL"),
    ({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://:9092"}, "clients need a host to connect to"),
    ({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect to the address 0.0.0.0"),
    ({"KAFKA_LISTENERS": "SSL://:9092,PLAINTEXT://:9093"}, "listener SSL: ssl.keystore.location: is not set"),
    ({"KAFKA_LISTENERS": "CONTROLLER://:1",
      "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT"}, "CONTROLLER: ssl.keystore"),
    ({"KAFKA_LISTENERS": "OUT://:9092", "KAFKA_INTER_BROKER_LISTENER_NAME": "OUT",
      "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "out:sasl_ssl"}, "listener OUT: sasl.enabled.mechanisms: GSSAPI"),
    ({"KAFKA_LISTENERS": "OUT://:9092"}, "listeners: listener.security.protocol.map has no security protocol for "),
])  # fmt: skip
def test_listeners_that_cannot_be_had_are_refused_by_the_server(environ: dict[str, str], said: str) -> None:
    with pytest.raises(ContainerError) as refused:
        main_address(environ)
    assert said in str(refused.value)
    with run(environ, "--data-dir", "/dev/null/none") as process:
        _, stderr = process.communicate(timeout=SECONDS)
    assert (process.returncode, stderr) == (2, f"klamm serve: {refused.value}\n")


def test_options_come_from_the_variable_and_from_the_command() -> None:
    options = started({"KLAMM_OPTIONS": "--brokers 3 --racks 'a,b c'", "CLUSTER_ID": "x-_+/=.9"}, "--seed", "7")
    assert (options.brokers, options.racks, options.seed, options.cluster_id) == (3, ("a", "b c"), 7, "x-_+/=.9")
    assert started({}, "--data-dir=d").data_dir == Path("d")


@pytest.mark.parametrize(("environ", "data_dir"), [
    ({"KAFKA_LOG_DIRS": "/a, /b"}, "/a"),
    ({"KAFKA_LOG_DIR": "/c"}, "/c"),
    ({"KAFKA_LOG_DIRS": "/a", "KAFKA_METADATA_LOG_DIR": "/m"}, "/m"),
])  # fmt: skip
def test_the_metadata_is_where_kafka_would_keep_it(environ: dict[str, str], data_dir: str) -> None:
    assert started(environ).data_dir == Path(data_dir)


def test_a_mounted_file_is_read(tmp_path: Path) -> None:
    mounted = tmp_path / "server.properties"
    mounted.write_text("")
    assert decode_serve_options(serve_arguments([], {}, mounted)).config == mounted
    assert decode_serve_options(serve_arguments(["--config", "o"], {}, mounted)).config == Path("o")


def test_what_is_obeyed_is_hidden_from_the_server_and_no_more() -> None:
    environ = {"KAFKA_LISTENERS": "", "KAFKA_NODE_ID": "1", "KAFKA_BROKER_ID": "2", "KAFKA_NUM_PARTITIONS": "3"}
    assert obeyed_variables(environ, ["--brokers", "3"]) == ["KAFKA_NODE_ID"]
    assert obeyed_variables(environ, ["--broker-ids", "2"]) == ["KAFKA_BROKER_ID"]


def test_health_is_an_answer() -> None:
    with klamm.ServerProcess("--brokers", "1", warm=True) as server:
        host, _, port = server.bootstrap_servers.rpartition(":")
        assert is_healthy(Address(host, int(port)))
    assert not is_healthy(Address(host, int(port)))


def test_a_port_where_somebody_else_answers_is_not_healthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        somebody = Thread(target=answer)
        somebody.start()
        assert not is_healthy(Address(*listener.getsockname()))
        somebody.join()


def run(environ: dict[str, str], *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "klamm.container", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_it_serves_and_stops_as_klamm_serve_does(tmp_path: Path) -> None:
    port = free_ports_in_a_row(1)
    variables = {
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka.example:9092",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
        "CLUSTER_ID": "the-first",
    }
    with run(variables) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "bootstrap.servers=kafka.example:9092\n"
        assert is_healthy(main_address(variables))
        with run(variables, "healthcheck") as probe:
            assert probe.wait(SECONDS) == 0
        process.send_signal(signal.SIGTERM)
        assert (*process.communicate(timeout=SECONDS), process.returncode) == ("", "", 0)
    with run({**variables, "CLUSTER_ID": "the-second"}) as process:
        _, stderr = process.communicate(timeout=SECONDS)
    data_dir = tmp_path / "data"
    assert (process.returncode, stderr) == (2, f"klamm serve: {data_dir} is of cluster the-first, not of the-second\n")


ONE_NODE = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
}
"""The variables of a compose file for one node of Apache Kafka."""
IGNORED = "ignored environment variables that are no broker config: {}\n"
NO_CONFIGS = "KAFKA_HEAP_OPTS, KAFKA_JMX_PORT, KAFKA_LOG4J_ROOT_LOGLEVEL, KAFKA_OPTS, KAFKA_ZOOKEEPER_CONNECT"


@pytest.mark.parametrize(("more", "others", "told"), [
    # As in the example of Apache Kafka's image with one node.
    ({"KAFKA_LISTENERS": "CONTROLLER://:{1},HOST://:{0},PLAINTEXT://:{2}",
      "KAFKA_ADVERTISED_LISTENERS": "HOST://localhost:{0},PLAINTEXT://broker:{2}",
      "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,HOST:PLAINTEXT",
      "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT"}, ["listener.PLAINTEXT=broker:{2}\n"], []),
    # As Testcontainers sets it.
    ({"KAFKA_LISTENERS": "PLAINTEXT://:{0},BROKER://:{2},CONTROLLER://:{1}",
      "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:{0},BROKER://c0ffee:{2}",
      "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
      "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
      "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": str(2**63 - 1)}, ["listener.BROKER=c0ffee:{2}\n"], []),
    ({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:{0}", "KAFKA_HEAP_OPTS": "-Xmx512m", "KAFKA_OPTS": "-Dx",
      "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN", "KAFKA_JMX_PORT": "9101", "KAFKA_ZOOKEEPER_CONNECT": "z:2181"},
     [], [IGNORED.format(NO_CONFIGS)]),
])  # fmt: skip
def test_the_variables_of_usual_compose_files_start_it(
    more: dict[str, str], others: list[str], told: list[str], tmp_path: Path
) -> None:
    first = free_ports_in_a_row(3)
    ports = range(first, first + 3)
    variables = {name: value.format(*ports) if "LISTENERS" in name else value for name, value in more.items()}
    with run({**ONE_NODE, **variables, "KAFKA_LOG_DIRS": str(tmp_path / "data")}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"bootstrap.servers=localhost:{ports[0]}\n"
        assert [process.stdout.readline() for _ in others] == [line.format(*ports) for line in others]
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    lines = stderr.splitlines(keepends=True)
    assert [line.endswith(end) for line, end in zip(lines, told, strict=True)] == [True] * len(told), stderr


def test_a_shell_is_run_that_calls_it_again_and_then_it_says_what_testcontainers_waits_for(tmp_path: Path) -> None:
    """`KafkaContainer` puts a script into the running container, and the container's command waits for it."""
    script, port = tmp_path / "start.sh", free_ports_in_a_row(1)
    variables = {**ONE_NODE, "KAFKA_LISTENERS": f"PLAINTEXT://:{port}", "KAFKA_LOG_DIRS": str(tmp_path / "data")}
    with run(variables, "sh", "-c", f"while [ ! -x {script} ]; do sleep 0.1; done; exec {script}") as process:
        unfinished = tmp_path / "unfinished"
        unfinished.write_text(
            "#!/bin/sh\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:32768\n"
            f"exec {sys.executable} -P -m klamm.container run \n"
        )
        unfinished.chmod(0o755)
        unfinished.rename(script)
        assert process.stdout is not None
        assert process.stdout.readline() == "bootstrap.servers=localhost:32768\n"
        assert "Transitioning from RECOVERY to RUNNING" in process.stdout.readline()
        assert is_healthy(Address("127.0.0.1", port))
        process.send_signal(signal.SIGTERM)
        assert (*process.communicate(timeout=SECONDS), process.returncode) == ("", "", 0)


@pytest.mark.parametrize(("arguments", "exit_code", "said"), [
    (["--version"], 2, "unrecognized arguments: --version"),
    (["assign", "--bogus"], 2, "klamm assign: unrecognized arguments: --bogus"),
    (["serve", "--brokers", "-1"], 2, "klamm serve: argument --brokers: '-1'"),
    (["--listen", "127.0.0.1:0"], 2, "klamm container: --listen: use KAFKA_LISTENERS in a container"),
    (["run", "--brokers", "1001"], 2, "klamm serve: argument --brokers: '1001'"),
    (["healthcheck"], 1, ""),
])  # fmt: skip
def test_other_commands_and_refusals_are_one_line(arguments: list[str], exit_code: int, said: str) -> None:
    with run({"KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:1"}, *arguments) as process:
        stdout, stderr = process.communicate(timeout=SECONDS)
    assert (process.returncode, stdout) == (exit_code, "")
    assert said in stderr
    assert stderr.count("\n") <= 1


def test_the_builder_gets_every_file_that_the_image_is_made_of() -> None:
    """.dockerignore leaves out what it does not name."""
    root = Path(__file__).parents[2]
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", (root / "Dockerfile").read_text(), re.MULTILINE)
    named = {line[1:] for line in (root / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert {file for line in copied for file in line.split()} <= named
