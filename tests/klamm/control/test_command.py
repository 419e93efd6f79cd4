"""`klamm control` for shells, and `ServerProcess` for synchronous programs: two clients of the control interface."""

import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Producer

import klamm
from klamm.cluster.server_process import ServerProcess
from klamm.console.options import UsageError
from klamm.control.command import decode_control_options
from tests.klamm.serve.processes import HEAVY, SECONDS, command, environment, refused

URL = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("--racks", "a,b", control=True, warm=True) as running:
        yield running


def run(*arguments: str, more: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `klamm control`."""
    return refused("control", *arguments, more={"KLAMM_CONTROL_URL": "", **(more or {})})


def test_a_shell_stops_starts_adds_and_removes_brokers(server: ServerProcess) -> None:
    at = ("--url", server.control_url)
    code, table, _ = run(*at, "brokers")
    assert code == 0
    heading, *rows = [line.split() for line in table.splitlines()]
    assert heading == ["id", "rack", "host", "port", "state", "fenced", "broker_epoch", "replicas"]
    assert [[*row[:3], *row[4:6]] for row in rows] == [
        ["1", "a", "127.0.0.1", "up", "no"],
        ["2", "b", "127.0.0.1", "up", "no"],
        ["3", "a", "127.0.0.1", "up", "no"],
    ]
    assert run(*at, "stop", "2")[1].splitlines()[1].split()[4:6] == ["down", "yes"]
    assert run(*at, "stop", "2") == (1, "", "klamm control: broker 2 is down already\n")
    assert run(*at, "start", "2")[1].splitlines()[1].split()[4:6] == ["up", "no"]
    assert run(*at, "add", "--rack", "z")[1].splitlines()[1].split()[:2] == ["4", "z"]
    assert run(*at, "remove", "4") == (0, "id  state\n 4  removed\n", "")
    assert run(*at, "kill", "3")[1].splitlines()[1].split()[4:6] == ["down", "no"]
    assert run(*at, "start", "3")[1].splitlines()[1].split()[4:6] == ["up", "no"]
    assert run(*at, "start", "4") == (1, "", "klamm control: there is no simulated broker 4\n")


def test_json_is_what_the_server_says_and_the_environment_may_say_where(server: ServerProcess) -> None:
    more = {"KLAMM_CONTROL_URL": server.control_url}
    before, behind = run("--json", "brokers", more=more), run("brokers", "--json", more=more)
    assert before == behind
    assert [broker["id"] for broker in json.loads(before[1])] == [1, 2, 3]
    code, stdout, _ = run("stop", "3", "--crash", "--json", more=more)
    assert (code, json.loads(stdout)["fenced"]) == (0, False)
    assert json.loads(run("remove", "3", "--json", more=more)[1]) == {"id": 3, "state": "removed"}
    server.add_broker()


def test_who_cannot_be_reached_is_exit_code_2() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        assert run("--url", url, "brokers") == (2, "", f"klamm control: {url} cannot be reached: Connection refused\n")


@pytest.mark.parametrize(("answer", "said"), [
    (b"", "ended the connection without an answer (an address with TLS begins with https)"),
    (b"SSH-2.0-nothing\r\n", "ended the connection without an answer"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n<a/>", "is not a control interface (status 200)"),
    (b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n[]", "is not a control interface (status 404)"),
    (b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n[]", "ended the connection without an answer"),
])  # fmt: skip
def test_somebody_else_on_the_port_is_told(answer: bytes, said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def serve_one() -> None:
            connection, _ = other.accept()
            connection.recv(1000)
            connection.sendall(answer)
            connection.close()

        thread = threading.Thread(target=serve_one)
        thread.start()
        client = klamm.ControlClient(f"http://127.0.0.1:{other.getsockname()[1]}")
        with pytest.raises(klamm.ControlUnreachable, match=said.replace("(", r"\(").replace(")", r"\)")):
            client.brokers()
        thread.join(SECONDS)


@pytest.mark.parametrize(("arguments", "said"), [
    ([], "the following arguments are required: COMMAND; see klamm control --help"),
    (["halt", "2"], "invalid choice: 'halt'"),
    (["stop"], "the following arguments are required: ID"),
    (["stop", "two"], "argument ID: 'two' is no broker id"),
    (["stop", "-1"], "-1"),
    (["stop", "٣"], "is no broker id"),
    (["stop", "9" * 20], "is no broker id"),
    (["stop", "2", "3"], "unrecognized arguments: 3"),
    (["start", "2", "--crash"], "unrecognized arguments: --crash"),
    (["add", "--rac", "r"], "unrecognized arguments: --rac r"),
    (["--url", "", "brokers"], "give --url http://HOST:PORT or set KLAMM_CONTROL_URL"),
    (["--url", "127.0.0.1:80", "brokers"], "expected; did you mean 'http://127.0.0.1:80'?"),
    (["--url", "ftp://127.0.0.1:80", "brokers"], "is no URL"),
    (["--url", "http://127.0.0.1", "brokers"], "is no URL"),
    (["--url", "http://127.0.0.1:x", "brokers"], "is no URL"),
    (["--url", "http://[::1:80", "brokers"], "is no URL"),
    (["--url", "http://u@127.0.0.1:80", "brokers"], "is no URL"),
    (["--url", "http://127.0.0.1:80/brokers", "brokers"], "is no URL"),
    (["--url", "http://127.0.0.1:80\n", "brokers"], "is no URL"),
])  # fmt: skip
def test_a_wrong_call_is_named(arguments: list[str], said: str) -> None:
    given = arguments if "--url" in arguments else ["--url", URL, *arguments]
    with pytest.raises(UsageError) as raised:
        decode_control_options(given, {})
    assert said in str(raised.value)


def test_a_wrong_call_is_one_line_and_exit_code_2() -> None:
    code, stdout, stderr = run("brokers")
    assert (code, stdout) == (2, "")
    assert (
        stderr
        == "klamm control: the control interface has no address: give --url http://HOST:PORT or set KLAMM_CONTROL_URL\n"
    )


def test_a_call_imports_only_the_standard_library_and_klamm() -> None:
    done = subprocess.run(
        command("control", "--url", URL, "brokers", flags=("-X", "importtime")),
        capture_output=True,
        text=True,
        env=environment(),
        timeout=SECONDS,
        check=False,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    imported = {line.rsplit("|", 1)[1].strip().partition(".")[0] for line in lines}
    assert imported & {*HEAVY, "trio", "numpy", "structlog"} == {"http"}


def test_a_synchronous_suite_controls_its_server() -> None:
    with ServerProcess("--brokers", "2", control=True, environment={"LANG": "C"}, warm=True) as server:
        server.stop_broker(2)
        assert [(broker.id, broker.state, broker.fenced) for broker in server.brokers()] == [
            (1, "up", False),
            (2, "down", True),
        ]
        with pytest.raises(klamm.ControlRefused, match="broker 2 is down already") as refused:
            server.stop_broker(2)
        assert refused.value.status == 409
        server.start_broker(2)
        assert server.add_broker(rack="z") == 3
        assert server.brokers()[2].rack == "z"
        server.remove_broker(3)
        assert [broker.state for broker in server.brokers()] == ["up", "up"]


def test_without_the_interface_the_methods_say_how_to_have_it() -> None:
    with ServerProcess("--brokers", "1", warm=True) as server, pytest.raises(klamm.ControlError, match="control=True"):
        server.stop_broker(1)


@pytest.mark.parametrize("broker_id", ["2", 2.0, True, None, "2/stop?"])
def test_a_broker_id_is_a_whole_number(server: ServerProcess, broker_id: Any) -> None:
    client = klamm.ControlClient(server.control_url)
    for change in (client.stop_broker, client.start_broker, client.remove_broker):
        with pytest.raises(klamm.ControlError, match=f"^broker id {re.escape(repr(broker_id))}: a whole number is exp"):
            change(broker_id)
    with pytest.raises(klamm.ControlRefused, match="no simulated broker '-1'"):
        client.stop_broker(-1)


def test_the_option_may_be_given_as_an_argument_instead() -> None:
    with ServerProcess("--brokers", "1", "--control=127.0.0.1:0", control=True, warm=True) as server:
        assert len(server.brokers()) == 1
    assert "KLAMM_CONTROL_URL" not in os.environ


def test_a_shell_creates_a_topic_and_reads_records_and_requests(server: ServerProcess) -> None:
    at = ("--url", server.control_url)
    given = ("--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=-1")
    assert run(*at, "create-topic", "orders", *given) == (0, "topic orders is created\n", "")
    assert run(*at, "create-topic", "orders")[::2] == (
        1, "klamm control: TOPIC_ALREADY_EXISTS: Topic 'orders' already exists.\n",
    )  # fmt: skip
    assert run(*at, "create-topic", "short-lived")[0] == 0
    assert run(*at, "delete-topic", "short-lived") == (0, "topic short-lived is deleted\n", "")
    assert run(*at, "delete-topic", "a?b")[::2] == (1, "klamm control: there is no topic 'a?b'\n")
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "client.id": "service", "linger.ms": 0})
    producer.produce("orders", b"two\x1b[31m", b"\xff", partition=1, headers=[("trace", b"7")])
    producer.produce("orders", None, b"one", partition=0)
    assert producer.flush(SECONDS) == 0
    assert run(*at, "records", "orders")[1] == "0  0  one  -\n1  0  \\xff  two\\x1b[31m  trace=7\n"
    assert run(*at, "records", "orders", "--partition", "0", "--isolation-level", "read_committed")[1] == (
        "0  0  one  -\n"
    )
    assert [one["offset"] for one in json.loads(run(*at, "--json", "records", "orders")[1])["records"]] == [0, 0]
    lines = run(*at, "requests", "--api", "Produce")[1].splitlines()
    assert len(lines) == len(server.requests("Produce"))
    assert all(" Produce  v" in line and "  service  broker " in line for line in lines)
    assert run(*at, "records", "nothing") == (1, "", "klamm control: there is no topic 'nothing'\n")


@pytest.mark.parametrize(("arguments", "said"), [
    (["create-topic", "t", "--partitions", "0"], "argument --partitions: '0'"),
    (["create-topic", "t", "--config", "a"], "argument --config: 'a': KEY=VALUE is expected"),
    (["records"], "the following arguments are required: TOPIC"),
    (["records", "t", "--isolation-level", "none"], "invalid choice: 'none'"),
])  # fmt: skip
def test_a_wrong_call_about_topics_is_named(arguments: list[str], said: str) -> None:
    with pytest.raises(UsageError) as raised:
        decode_control_options(["--url", URL, *arguments], {})
    assert said in str(raised.value)
