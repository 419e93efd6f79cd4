"""`klamm serve` as a process: its ready line, exit codes, empty stdout, and start time."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from klamm.protocol.messages.brokers import broker_registration
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.topics import metadata
from tests.klamm.serve.processes import (
    FREE,
    ROOT,
    SECONDS,
    addresses,
    ask,
    command,
    create,
    create_if_served,
    environment,
    first_line,
    refused,
    serving,
    topics,
)
from tests.server.test_listener import can_connect, free_ports_in_a_row


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_where_it_listens_serves_and_stops_on_a_signal(number: int) -> None:
    with serving(*FREE, "--brokers", "3", cold=True) as process:
        brokers = addresses(first_line(process))
        assert [host for host, _ in brokers] == ["127.0.0.1"] * 3
        assert create(brokers[0], "made") == 0
        assert topics(brokers[2]) == {"made": 1}
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=SECONDS)
        assert (process.returncode, stdout, stderr) == (0, "", "")


def test_the_controller_listener_has_the_second_line() -> None:
    with serving(*FREE, "--brokers", "1", "--controller-listener", "127.0.0.1:0") as process:
        first_line(process)
        (controller,) = addresses(first_line(process), "controller.quorum.bootstrap.servers")
        response = ask(controller, api_versions.API, 0, api_versions.ApiVersionsRequest())
        assert isinstance(response, api_versions.ApiVersionsResponse)
        assert broker_registration.API.key in {key.api_key for key in response.api_keys}


@pytest.mark.parametrize(("listen", "advertise", "shown"), [
    ("127.0.0.1:0", "kafka.example.org", "kafka.example.org"),
    ("0.0.0.0:0", None, "127.0.0.1"),
    ("localhost:0", None, "localhost"),
])  # fmt: skip
def test_clients_are_told_a_host_that_they_can_connect_to(listen: str, advertise: str | None, shown: str) -> None:
    extra = () if advertise is None else ("--advertise", advertise)
    with serving("--listen", listen, "--brokers", "1", *extra) as process:
        ((host, port),) = addresses(first_line(process))
        assert host == shown
        response = ask(("127.0.0.1", port), metadata.API, 1, metadata.MetadataRequest(topics=()))
        assert isinstance(response, metadata.MetadataResponse)
        assert [(broker.host, broker.port) for broker in response.brokers] == [(shown, port)]


def test_ipv6_is_served_in_brackets() -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").read_text():
        pytest.fail("this machine has no IPv6 loopback to try it on")
    with serving("--listen", "[::1]:0", "--brokers", "2") as process:
        line = first_line(process)
        assert re.fullmatch(r"bootstrap\.servers=\[::1\]:\d+,\[::1\]:\d+\n", line)
        assert topics(addresses(line)[1]) == {}


def test_every_ipv6_interface_is_reached_where_clients_are_told() -> None:
    with serving("--listen", "[::]:0", "--brokers", "1", "--controller-listener", "[::]:0") as process:
        (broker,) = addresses(first_line(process))
        (controller,) = addresses(first_line(process), "controller.quorum.bootstrap.servers")
        assert (broker[0], controller[0]) == ("::1", "::1")
        assert create(controller, "made") == 0
        response = ask(broker, metadata.API, 1, metadata.MetadataRequest(topics=()))
        assert isinstance(response, metadata.MetadataResponse)
        assert [(reported.host, reported.port) for reported in response.brokers] == [broker]


def test_configs_of_brokers_that_are_not_started_are_one_warning() -> None:
    sets = (f"--broker-set={broker_id}:num.partitions=4" for broker_id in (9, 3, 4, 0))
    with serving(*FREE, "--brokers", "3", "--log-format", "json", *sets) as process:
        first_line(process)
        process.terminate()
        _, stderr = process.communicate(timeout=SECONDS)
    (warning,) = [json.loads(line) for line in stderr.splitlines()]
    assert warning["level"] == "warning"
    assert warning["event"] == "--broker-set names brokers that are not started: 0, 4, 9; started are 1, 2, 3"


def test_a_taken_port_is_one_line_and_exit_code_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        reported = refused("serve", "--listen", f"127.0.0.1:{port}", "--brokers", "1", cold=True)
    assert reported == (2, "", f"klamm serve: cannot listen on 127.0.0.1:{port}: Address already in use\n")


@pytest.mark.parametrize(("arguments", "said"), [
    (["--brokers", "0"], "brokers 0: a cluster without simulated brokers needs --controller-listener"),
    (["--bogus"], "--bogus"),
    (["--set", "num.partition=3"], "num.partition"),
    (["--set", "num.partitions=many"], "num.partitions"),
    (["--config", "no-such.properties"], "no-such.properties"),
    (["--data-dir", "/dev/null"], "/dev/null"),
    (["--data-dir", "/proc"], "/proc is no data directory"),
    (["--request-log", "/no/such/folder/log"], "/no/such/folder/log"),
    (["--listen", "127.0.0.1:65535", "--brokers", "2"], "65535"),
    (["--listen", "no-such-host.invalid:0"], "no-such-host.invalid"),
])  # fmt: skip
def test_what_cannot_be_used_is_one_line_that_names_it_and_exit_code_2(arguments: list[str], said: str) -> None:
    given = arguments if "--listen" in arguments else [*FREE, *arguments]
    code, stdout, stderr = refused("serve", *given)
    assert (code, stdout, stderr.count("\n")) == (2, "", 1)
    assert stderr.startswith("klamm serve: ")
    assert said in stderr


@pytest.mark.parametrize(("arguments", "said"), [(["sevre"], "no command 'sevre'"), (["-x"], "no command '-x'")])
def test_an_unknown_command_is_exit_code_2(arguments: list[str], said: str) -> None:
    code, stdout, stderr = refused(*arguments)
    assert (code, stdout) == (2, "")
    assert said in stderr


def test_help_and_version_go_to_stdout() -> None:
    help_text = refused("--help")
    assert help_text[0] == 0
    assert "serve" in help_text[1]
    assert help_text == refused("-h") == refused()
    code, stdout, _ = refused("--version")
    assert (code, stdout) == refused("-V")[:2]
    assert code == 0
    assert re.fullmatch(r"klamm \d+\.\d+\.\d+ \(Apache Kafka 4\.3\)\n", stdout)


def test_what_it_has_to_say_goes_to_stderr_as_json_if_wanted() -> None:
    more = {"KAFKA_OPTS": "-Xmx1g", "KAFKA_NUM_PARTITIONS": "3"}
    with serving(*FREE, "--env", "--log-format", "json", more=more) as process:
        brokers = addresses(first_line(process))
        assert create(brokers[0], "wide") == 0
        assert topics(brokers[0]) == {"wide": 3}
        process.terminate()
        stdout, stderr = process.communicate(timeout=SECONDS)
    assert stdout == ""
    (warning,) = [json.loads(line) for line in stderr.splitlines()]
    assert warning["level"] == "warning"
    assert "KAFKA_OPTS" in warning["event"]


def test_acknowledged_topics_survive_kill_9_and_the_request_log_goes_on(tmp_path: Path) -> None:
    arguments = (*FREE, "--data-dir", str(tmp_path / "data"), "--request-log", str(tmp_path / "requests.jsonl"))
    for number in range(3):
        with serving(*arguments) as process:
            brokers = addresses(first_line(process))
            assert topics(brokers[0]) == {f"topic-{earlier}": 1 for earlier in range(number)}
            assert create(brokers[1], f"topic-{number}") == 0
            if number == 1:
                process.terminate()
                assert process.wait(SECONDS) == 0
            else:
                process.kill()
    seqs = [json.loads(line)["seq"] for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    assert seqs[:2] == [0, 1] or seqs[0] == 0
    assert seqs == list(range(len(seqs)))


def test_a_data_dir_in_use_is_refused(tmp_path: Path) -> None:
    with serving(*FREE, "--data-dir", str(tmp_path)) as process:
        first_line(process)
        code, stdout, stderr = refused("serve", *FREE, "--data-dir", str(tmp_path))
    assert (code, stdout, stderr.count("\n")) == (2, "", 1)
    assert "in use by another Klamm" in stderr


def test_a_full_disk_ends_the_server_with_one_line_and_exit_code_1(tmp_path: Path) -> None:
    """The limit on file sizes has the effect of a full disk. The next start finds everything that was acknowledged."""

    def limit_files_to_16_kib() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, 16_384))

    acknowledged: list[str] = []
    with serving(*FREE, "--data-dir", str(tmp_path), before=limit_files_to_16_kib) as process:
        (broker, *_) = addresses(first_line(process))
        while create_if_served(broker, f"topic-{len(acknowledged)}"):
            acknowledged.append(f"topic-{len(acknowledged)}")
        stdout, stderr = process.communicate(timeout=SECONDS)
    assert (process.returncode, stdout, stderr.count("\n")) == (1, "", 1)
    assert re.fullmatch(r"klamm serve: cannot write \S+\.log: File too large\n", stderr)
    with serving(*FREE, "--data-dir", str(tmp_path)) as process:
        assert sorted(name or "" for name in topics(addresses(first_line(process))[0])) == sorted(acknowledged)


def test_what_policies_print_is_no_ready_line(tmp_path: Path) -> None:
    """Output at import and in a call, of Python code and of C code. The test does not read stdout after the ready
    line."""
    (tmp_path / "printing.py").write_text(
        "import os\n"
        "print('bootstrap.servers=nowhere:1')\n"
        "os.write(1, b'beneath\\n')\n"
        "def check(topic): print('x' * 1_000_000)\n"
    )
    policy = "create.topic.policy.class.name=printing:check"
    said = tmp_path / "stderr"
    with said.open("w") as stderr:
        process = subprocess.Popen(
            command("serve", *FREE, "--set", policy),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=environment({"PYTHONPATH": f"{ROOT}:{tmp_path}"}),
        )
    try:
        brokers = addresses(first_line(process))
        assert [create(brokers[0], name) for name in ("a", "b")] == [0, 0]
        process.terminate()
        stdout, _ = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, stdout) == (0, "")
    assert sorted(said.read_text().splitlines()) == ["beneath", "bootstrap.servers=nowhere:1", *["x" * 1_000_000] * 2]


@pytest.mark.parametrize("stops", [True, False])
def test_it_reads_stdin_to_its_end_and_stops_if_asked_to(stops: bool) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"nobody's affair")
    process = subprocess.Popen(
        command("serve", *FREE, *(["--stop-with-stdin"] if stops else [])),
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        brokers = addresses(first_line(process))
        assert create(brokers[0], "made") == 0
        os.close(writing)
        if not stops:
            process.terminate()
        stdout, stderr = process.communicate(timeout=SECONDS)
        assert (process.returncode, stdout, stderr) == (0, "", "")
        assert os.read(reading, 100) == (b"" if stops else b"nobody's affair")
    finally:
        process.kill()
        process.wait()
        os.close(reading)


def test_who_closes_stdout_gets_no_ready_line_in_a_file_of_the_server(tmp_path: Path) -> None:
    port = free_ports_in_a_row(1)
    with serving(
        "--listen", f"127.0.0.1:{port}", "--brokers", "1", "--data-dir", str(tmp_path), before=lambda: os.close(1)
    ) as process:
        while process.poll() is None and not can_connect(port):
            pass  # The answer is on its way, or the connection ends.
        assert Path(f"/proc/{process.pid}/fd/1").readlink() == Path(os.devnull)
        process.terminate()
        assert process.wait(SECONDS) == 0


def test_nobody_has_to_read_the_ready_line() -> None:
    port = free_ports_in_a_row(1)
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen(
        command("serve", "--listen", f"127.0.0.1:{port}", "--brokers", "1"),
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    os.close(writing)
    while process.poll() is None and not can_connect(port):
        pass  # The answer is on its way, or the connection ends.
    assert create(("127.0.0.1", port), "unnoticed") == 0
    process.terminate()
    _, stderr = process.communicate(timeout=SECONDS)
    assert (process.returncode, stderr) == (0, "")
