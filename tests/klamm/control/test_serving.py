"""The control interface of a real `klamm serve`, used by plain HTTP clients while a real Kafka client watches the
cluster."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import h2.config
import h2.connection
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from h2.events import ResponseReceived

import klamm
from klamm.cluster.server_process import ServerProcess
from klamm.control.limits import (
    IDLE_SECONDS,
    MAX_CONNECTIONS,
    MAX_REQUESTS,
    MAX_TURNED_AWAY,
    STOP_SECONDS,
    UNREAD_SECONDS,
)
from tests.klamm.serve.processes import FREE, HEAVY, SECONDS, addresses, environment, first_line, refused, serving

SESSION = ("--set", "broker.session.timeout.ms=2000", "--set", "broker.heartbeat.interval.ms=500")
NEVER_OVER = ("--set", "broker.session.timeout.ms=600000")


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("--racks", "a,b,c", *SESSION, control=True, warm=True) as running:
        yield running


def address(server: ServerProcess) -> tuple[str, int]:
    parts = urlsplit(server.control_url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def ask(server: ServerProcess, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
    """A request, as any program would send it."""
    with closing(http.client.HTTPConnection(*address(server), timeout=SECONDS)) as connection:
        connection.request(method, path, body)
        response = connection.getresponse()
        assert response.getheader("content-type") == "application/json"
        return response.status, json.loads(response.read())


def exchange(server: ServerProcess, sent: bytes) -> bytes:
    """All bytes until the server closes the connection."""
    with socket.create_connection(address(server), SECONDS) as sock:
        sock.sendall(sent)
        received = b""
        while chunk := sock.recv(65536):
            received += chunk
        return received


def test_the_url_is_the_last_ready_line_and_accepts_at_once() -> None:
    with serving(*FREE, "--controller-listener", "127.0.0.1:0", "--control", "127.0.0.1:0") as process:
        first_line(process)
        addresses(first_line(process), "controller.quorum.bootstrap.servers")
        line = first_line(process)
        assert line.startswith("control=http://127.0.0.1:")
        assert len(klamm.ControlClient(line.strip().removeprefix("control=")).brokers()) == 3
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=SECONDS)
        assert (process.returncode, stdout, stderr) == (0, "", "")


@pytest.mark.parametrize(("listen", "options", "shown"), [
    ("0.0.0.0:0", (), "http://127.0.0.1:"),
    ("0.0.0.0:0", ("--advertise", "klamm.internal"), "http://klamm.internal:"),
    ("127.0.0.1:0", ("--advertise", "klamm.internal"), "http://127.0.0.1:"),
    ("[::1]:0", (), "http://[::1]:"),
])  # fmt: skip
def test_the_url_is_one_that_can_be_reached(listen: str, options: tuple[str, ...], shown: str) -> None:
    with serving(*FREE, "--brokers", "1", "--control", listen, *options) as process:
        first_line(process)
        line = first_line(process)
        assert line.startswith(f"control={shown}")


def test_a_taken_control_port_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        reported = refused("serve", *FREE, "--control", f"127.0.0.1:{port}", "--data-dir", str(tmp_path / "data"))
    assert reported == (2, "", f"klamm serve: cannot listen on 127.0.0.1:{port}: Address already in use\n")
    assert not (tmp_path / "data").exists()


def test_its_libraries_are_those_that_a_start_without_it_does_not_import() -> None:
    program = "import sys, klamm.control.serving; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), check=True
    )
    assert {"starlette", "hypercorn", "h11", "asyncio", "http"} <= set(done.stdout.split()) & set(HEAVY)


def test_a_real_client_sees_a_rolling_restart(server: ServerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.create_topics([NewTopic("rolled", 6, 3)])["rolled"].result(SECONDS)

    def leaders() -> set[int]:
        topic = admin.list_topics("rolled", timeout=SECONDS).topics["rolled"]
        return {partition.leader for partition in topic.partitions.values()}

    for broker_id in (1, 2, 3):
        status, stopped = ask(server, "POST", f"/brokers/{broker_id}/stop")
        assert (status, stopped["state"], stopped["fenced"], stopped["replicas"]) == (200, "down", True, 6)
        # At once: after this answer the metadata shows the change.
        assert leaders() == {1, 2, 3} - {broker_id}
        assert sorted(admin.list_topics(timeout=SECONDS).brokers) == sorted({1, 2, 3} - {broker_id})
        status, started = ask(server, "POST", f"/brokers/{broker_id}/start", "{}")
        assert (status, started["state"], started["fenced"]) == (200, "up", False)
        assert sorted(admin.list_topics(timeout=SECONDS).brokers) == [1, 2, 3]
        in_sync_again(admin, "rolled")


def in_sync_again(admin: AdminClient, topic: str) -> None:
    """Wait, by polling, until every replica is in the ISR."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        described = admin.list_topics(topic, timeout=SECONDS).topics[topic]
        if all(sorted(partition.isrs) == [1, 2, 3] for partition in described.partitions.values()):
            return
    pytest.fail("the ISRs did not grow again")


def test_after_a_crash_a_start_waits_for_the_session(server: ServerProcess) -> None:
    began = time.monotonic()
    assert ask(server, "POST", "/brokers/2/stop", '{"mode": "crash"}')[1]["fenced"] is False
    status, started = ask(server, "POST", "/brokers/2/start")
    assert (status, started["state"], started["fenced"]) == (200, "up", False)
    assert time.monotonic() - began > 1.4  # the last heartbeat was up to half a second before the crash


def test_one_connection_serves_many_requests(server: ServerProcess) -> None:
    with closing(http.client.HTTPConnection(*address(server), timeout=SECONDS)) as connection:
        for _ in range(3):
            connection.request("GET", "/brokers")
            assert len(json.loads(connection.getresponse().read())) == 3
            assert connection.sock is not None


def test_a_connection_is_over_when_its_client_hangs_up(server: ServerProcess) -> None:
    """Otherwise many short connections in a row would count as open until their idle time has passed."""
    began = time.monotonic()
    for _ in range(MAX_CONNECTIONS + 1):
        socket.create_connection(address(server), SECONDS).close()
    while ask(server, "GET", "/brokers/1")[0] != 200:
        assert time.monotonic() - began < IDLE_SECONDS - 1


@pytest.mark.parametrize(("request_head", "status"), [
    (b"GET /brokers HTTP/1.0\r\n\r\n", b"200"),
    (b"GET /brokers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"200"),
    (b"GET ?x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"400"),
    (b"GET http://localhost/brokers/9 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"404"),
    (b"POST /brokers HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n", b"413"),
    (b"POST /brokers HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", b"400"),
    (b"GET /brokers HTTP/1.1\r\nHost: localhost\r\nX: %s" % (b"x" * 100_000), b"431"),
    ((b"GET /brokers HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
     b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"), b"403"),
    (b"\x16\x03\x01\x02\x00", b"400"),
    (b"GET /brokers HTTP/1.1\r\nHost: localhost\r\n\r\n", b"200"),
], ids=range(10))  # fmt: skip
def test_a_connection_is_answered_and_closed(server: ServerProcess, request_head: bytes, status: bytes) -> None:
    """At once, or after five seconds in which the client has sent nothing."""
    assert exchange(server, request_head).startswith(b"HTTP/1.1 " + status)
    assert len(server.brokers()) == 3


@pytest.mark.parametrize(
    "request_head",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        (
            b"GET /brokers HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
            b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        ),
    ],
    ids=["preface", "upgrade"],
)
def test_http_2_is_not_spoken(server: ServerProcess, request_head: bytes) -> None:
    config = h2.config.H2Configuration(client_side=True)
    client = h2.connection.H2Connection(config)
    if request_head.startswith(b"PRI"):
        client.initiate_connection()
        client.send_headers(
            1, [(":method", "GET"), (":path", "/brokers"), (":scheme", "http"), (":authority", "x")], end_stream=True
        )
        request_head = client.data_to_send()
    else:
        client.initiate_upgrade_connection()
        client.clear_outbound_data_buffer()
    statuses: list[str] = []
    with socket.create_connection(address(server), SECONDS) as sock:
        sock.sendall(request_head)
        data = b""
        if not request_head.startswith(b"PRI"):
            while b"\r\n\r\n" not in data:
                data += sock.recv(65_536)
            _, _, data = data.partition(b"\r\n\r\n")
        while not statuses:
            events = client.receive_data(data)
            statuses = [dict(one.headers)[b":status"].decode() for one in events if isinstance(one, ResponseReceived)]
            data = b"" if statuses else sock.recv(65_536)
            assert statuses or data, "the connection is closed"
    assert statuses == ["505"]


def test_requests_beyond_the_limit_are_turned_away_and_the_rest_is_done() -> None:
    with ServerProcess("--brokers", "2", *NEVER_OVER, control=True, warm=True) as server:
        waiting = []
        for _ in range(MAX_REQUESTS):
            sock = socket.create_connection(address(server), SECONDS)
            sock.sendall(b"POST /brokers HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n")
            sock.sendall(b"Expect: 100-continue\r\n\r\n{")
            waiting.append(sock)
        # A later request may begin earlier. This answer shows that the request has begun.
        assert [sock.recv(1000).split()[1] for sock in waiting] == [b"100"] * MAX_REQUESTS
        reported = {"error": f"{MAX_REQUESTS} requests are under way, and no more are taken"}
        assert ask(server, "GET", "/brokers") == (503, reported)
        waiting[0].sendall(b"]")
        assert waiting[0].recv(100).startswith(b"HTTP/1.1 400")
        for sock in waiting:
            sock.close()
        deadline = time.monotonic() + SECONDS
        while ask(server, "GET", "/brokers")[0] != 200:
            assert time.monotonic() < deadline


def test_connections_beyond_the_limit_are_turned_away_until_others_end() -> None:
    with ServerProcess("--brokers", "1", control=True, warm=True) as server:
        # Connections are accepted in their order: after the next one all of these are open.
        idle = [socket.create_connection(address(server), SECONDS) for _ in range(MAX_CONNECTIONS)]
        reported = (503, {"error": f"{MAX_CONNECTIONS} connections are open, and further ones are refused"})
        bodies = (None, "{}", " " * 60_000)
        assert [ask(server, "POST", "/brokers", body) for body in bodies] == [reported] * 3
        began = time.monotonic()
        # The server waits for clients that do not close their connections, up to a limit.
        staying = [socket.create_connection(address(server), SECONDS) for _ in range(MAX_TURNED_AWAY)]
        assert exchange(server, b"") == b""
        assert time.monotonic() - began < UNREAD_SECONDS
        assert staying[-1].recv(100).startswith(b"HTTP/1.1 503 ")
        for sock in staying:
            sock.close()
        idle.pop().close()
        deadline = time.monotonic() + SECONDS
        while ask(server, "GET", "/brokers")[0] != 200:
            assert time.monotonic() < deadline
        for sock in idle:
            sock.close()


def test_who_waits_when_the_server_stops_is_told_so() -> None:
    with (
        ServerProcess("--brokers", "2", *NEVER_OVER, control=True, warm=True) as server,
        ThreadPoolExecutor() as threads,
    ):
        server.stop_broker(2, mode="crash")
        start = threads.submit(ask, server, "POST", "/brokers/2/start")
        deadline = time.monotonic() + SECONDS
        # Refused while the broker is down; at its start the other request has arrived.
        while "being started" not in ask(server, "POST", "/brokers/2/stop")[1]["error"]:
            assert time.monotonic() < deadline
        server.stop()
        assert start.result(SECONDS) == (503, {"error": "the server is stopping"})


def kernel_view(server: ServerProcess, port: int) -> tuple[str, str]:
    """State and timer of the server's side of the connection from `port`, as Linux lists them; 01 is established."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, _, timer, *_ = line.split()
        if (int(local.rpartition(":")[2], 16), int(remote.rpartition(":")[2], 16)) == (address(server)[1], port):
            return state, timer.partition(":")[0]
    return "", ""


def ask_without_reading(server: ServerProcess) -> socket.socket:
    """A client that requests much and reads nothing. On return the server is blocked on it."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(SECONDS)
    sock.connect(address(server))
    # Each answer has 10 kB: together more than the system buffers for a connection.
    sock.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
    deadline = time.monotonic() + SECONDS
    while kernel_view(server, sock.getsockname()[1]) != ("01", "04"):  # 04: the probe of a closed window
        assert time.monotonic() < deadline
    return sock


def test_a_client_that_reads_nothing_is_cut_off(server: ServerProcess) -> None:
    with ask_without_reading(server) as sock:
        deadline = time.monotonic() + SECONDS
        while kernel_view(server, sock.getsockname()[1])[0] == "01":
            assert time.monotonic() < deadline
        assert len(server.brokers()) == 3


def test_a_client_that_reads_nothing_does_not_keep_the_server_from_stopping() -> None:
    with ServerProcess("--brokers", "1", control=True, warm=True) as server, ask_without_reading(server):
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < STOP_SECONDS + UNREAD_SECONDS + 5
