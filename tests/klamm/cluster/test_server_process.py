"""`ServerProcess` distinguishes a server that works from one that does not, and leaves no process or file behind in
either case."""

import os
import re
import select
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import klamm
from klamm.cluster.server_process import MAX_STDERR_BYTES, ServerFailed, ServerProcess
from tests.klamm.serve.processes import ROOT, create

READY = "echo bootstrap.servers=somewhere:1"
LIVE = "while :; do sleep 0.01; done"


class Programs:
    """Shell programs in place of servers. All of their processes hold the same pipe open, so the end of the pipe means
    that all have ended."""

    def __init__(self, pipe: Path) -> None:
        os.mkfifo(pipe)
        self._pipe = pipe
        self._end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def start(self, program: str) -> ServerProcess:
        return ServerProcess(command=("sh", "-c", f"exec 3>'{self._pipe}'; {program}"), stop_seconds=0.2)

    def are_gone(self) -> bool:
        return bool(select.select([self._end], [], [], 10)[0]) and os.read(self._end, 1) == b""

    def close(self) -> None:
        os.close(self._end)


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    running = Programs(tmp_path / "alive")
    yield running
    running.close()


def test_a_server_is_reached_where_it_says_and_gone_afterwards() -> None:
    with ServerProcess("--brokers", "2", "--controller-listener", "127.0.0.1:0") as server:
        reported = [*server.bootstrap_servers.split(","), server.controller_bootstrap_servers]
        addresses = [(host, int(port)) for host, port in (address.split(":") for address in reported)]
        assert len(addresses) == 3
        for address in addresses:
            socket.create_connection(address).close()
    for address in addresses:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)


def test_the_fixture_of_the_documentation_serves_a_test_without_trio(tmp_path: Path) -> None:
    documented = re.search(r"^ +@pytest\.fixture.*?\n\n", klamm.ServerProcess.__doc__ or "", re.DOTALL | re.MULTILINE)
    assert documented is not None
    uses = textwrap.dedent("""
        def test_a_broker_is_there(bootstrap_servers):
            host, port = bootstrap_servers.split(",")[2].split(":")
            socket.create_connection((host, int(port))).close()
    """)
    (tmp_path / "test_it.py").write_text(f"import socket, klamm, pytest\n{textwrap.dedent(documented.group())}\n{uses}")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(klamm.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout.split()[-4:-2]) == (0, ["1", "passed"]), ended.stdout


def test_a_server_that_cannot_start_fails_with_what_it_said() -> None:
    server = ServerProcess("--brokers", "none")
    with pytest.raises(ServerFailed, match=r"exit code 2 before it was ready\n.*--brokers"), server:
        pass


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (f"echo hello; {LIVE}", "wrote to stdout: 'hello'"),
        (f"trap 'exit 3' TERM; {READY}; {LIVE}", "exit code 3"),
        (f"trap '' TERM; {READY}; {LIVE}", "did not end within 0.2 s of SIGTERM"),
        (f"(trap '' TERM; {LIVE}) & trap 'exit 0' TERM; {READY}; {LIVE}", "left a process behind"),
    ],
)
def test_a_server_that_misbehaves_is_told_and_ended(programs: Programs, program: str, reason: str) -> None:
    with pytest.raises(ServerFailed, match=reason), programs.start(program):
        pass
    assert programs.are_gone()


def test_a_server_ends_with_the_process_that_started_it() -> None:
    """A killed process cannot stop the servers that it started."""
    program = (
        "import klamm, signal\n"
        "with klamm.ServerProcess('--brokers', '1') as server:\n"
        "    print(server.process_id, server.bootstrap_servers, flush=True)\n"
        "    signal.pause()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(klamm.__file__).parents[1])}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        process_id, address = parent.stdout.readline().decode().split()
        server = os.pidfd_open(int(process_id))
        host, port = address.split(":")
        socket.create_connection((host, int(port))).close()
        parent.kill()
    try:
        assert select.select([server], [], [], 10)[0], "the server is still there"
    except BaseException:
        os.kill(int(process_id), signal.SIGKILL)
        raise
    finally:
        os.close(server)


def test_what_the_server_writes_to_stderr_can_be_read_while_it_runs_and_afterwards(tmp_path: Path) -> None:
    (tmp_path / "printing.py").write_text("print('at import')\ndef check(topic): print(topic.topic_name)\n")
    policy = "create.topic.policy.class.name=printing:check"
    more = {"PYTHONPATH": f"{ROOT}:{tmp_path}", "PYTHONUNBUFFERED": ""}  # the default
    server = ServerProcess("--set", policy, environment=more)
    assert server.stderr_text() == ""
    with server:
        assert server.stderr_text() == "at import\n"
        host, port = server.bootstrap_servers.split(",")[0].split(":")
        # Read in between and written later: neither replaces the other.
        for reported, name in (("at import\n", "first"), ("at import\nfirst\n", "second")):
            assert server.stderr_text() == reported
            assert create((host, int(port)), name) == 0
        assert server.stderr_text() == "at import\nfirst\nsecond\n"
    assert server.stderr_text() == "at import\nfirst\nsecond\n"


@pytest.mark.parametrize("warm", [False, True])
def test_garbage_is_collected_once_the_server_is_ready(tmp_path: Path, warm: bool) -> None:
    (tmp_path / "collecting.py").write_text(
        "import gc\ndef check(topic): print(gc.isenabled(), gc.get_threshold()[0])\n"
    )
    policy = "create.topic.policy.class.name=collecting:check"
    with ServerProcess("--set", policy, environment={"PYTHONPATH": f"{ROOT}:{tmp_path}"}, warm=warm) as server:
        host, port = server.bootstrap_servers.split(",")[0].split(":")
        assert create((host, int(port)), "orders") == 0
        assert server.stderr_text() == "True 50000\n"


def test_a_failure_shows_the_end_of_stderr_and_all_of_it_is_there_up_to_a_limit(programs: Programs) -> None:
    filler = f"head -c {MAX_STDERR_BYTES} /dev/zero | tr '\\0' x >&2"
    server = programs.start(f"echo begin >&2; {filler}; echo end >&2; exit 3")
    with pytest.raises(ServerFailed, match=r"before it was ready\nx{3900,4000}\s*end$"), server:
        pass
    text = server.stderr_text()
    assert (len(text), text[:2], text[-5:]) == (MAX_STDERR_BYTES, "xx", "xend\n")


def test_brokers_are_controlled_inside_the_block_only() -> None:
    server = ServerProcess("--brokers", "1", control=True)
    with pytest.raises(klamm.ControlError, match="inside the with block"):
        server.stop_broker(1)
    with server:
        assert len(server.brokers()) == 1
    with pytest.raises(klamm.ControlError):
        server.brokers()


def test_an_error_of_the_block_comes_out_and_the_server_is_ended(programs: Programs) -> None:
    with pytest.raises(ZeroDivisionError), programs.start(f"trap '' TERM; {READY}; {LIVE}"):
        raise ZeroDivisionError
    assert programs.are_gone()


def test_a_python_without_trio_is_named_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KLAMM_COMMAND", raising=False)
    (tmp_path / "trio.py").write_text("raise ModuleNotFoundError(\"No module named 'trio'\", name='trio')\n")
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    server = ServerProcess(brokers=1, environment={"PYTHONPATH": path})
    with pytest.raises(ServerFailed, match=r"^klamm serve needs trio, .*: KLAMM_COMMAND can name .* klamm$"), server:
        pass


def test_a_command_that_cannot_be_run_is_named_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "the command cannot be run: /none: No such file"
    with pytest.raises(ServerFailed, match=said), ServerProcess(command=["/none"]):
        pass
    monkeypatch.setenv("KLAMM_COMMAND", "/nowhere/klamm --x")
    said = "^klamm serve was not started: the variable KLAMM_COMMAND names a command that cannot be run: /nowhere/klamm"
    with pytest.raises(ServerFailed, match=said), ServerProcess():
        pass


def test_a_missing_dependency_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "trio.py").write_text("raise ModuleNotFoundError(\"No module named 'trio'\", name='trio')\n")
    ended = subprocess.run(
        [sys.executable, "-m", "klamm", "serve"], capture_output=True, text=True, check=False, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
    )  # fmt: skip
    said = "klamm: the package 'trio' is missing in this Python: install Klamm with its dependencies\n"
    assert (ended.returncode, ended.stderr) == (2, said)
