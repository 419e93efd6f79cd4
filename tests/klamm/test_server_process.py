"""`ServerProcess` tells a server that is well from one that is not, and leaves nothing behind in any case."""

import os
import re
import select
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import klamm
from klamm.server_process import ServerFailed, ServerProcess

READY = "echo bootstrap.servers=somewhere:1"
LIVE = "while :; do sleep 0.01; done"


class Programs:
    """Shell programs in the place of servers; all of their processes hold one pipe open, whose end tells their end."""

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
        told = [*server.bootstrap_servers.split(","), server.controller_bootstrap_servers]
        addresses = [(host, int(port)) for host, port in (address.split(":") for address in told)]
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


def test_an_error_of_the_block_comes_out_and_the_server_is_ended(programs: Programs) -> None:
    with pytest.raises(ZeroDivisionError), programs.start(f"trap '' TERM; {READY}; {LIVE}"):
        raise ZeroDivisionError
    assert programs.are_gone()
