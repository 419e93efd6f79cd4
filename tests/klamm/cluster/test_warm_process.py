"""Servers that are forked from a warm process behave as those of a fresh interpreter do."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.cluster.server_process import ServerFailed, ServerProcess
from klamm.cluster.warm_process import NoWarmProcess, WarmProcess
from tests.klamm.serve.processes import ROOT, SECONDS

KLAMM = (sys.executable, "-P", "-m", "klamm")
POLICY = "import os\nassert os.environ['ONLY_HERE'] == '1'\ndef judge(topic): ...\n"


@pytest.fixture
def warm() -> Iterator[WarmProcess]:
    process = WarmProcess(KLAMM, {**os.environ, "PYTHONPATH": str(ROOT)})
    yield process
    process.close()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def await_end(pid: int) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_gone(pid):
        assert time.monotonic() < deadline, "it goes on"


def test_servers_are_processes_of_their_own_with_one_parent() -> None:
    with ServerProcess(control=True, warm=True) as one, ServerProcess(brokers=1, control=True, warm=True) as two:
        assert parent_of(one.process_id) == parent_of(two.process_id)
        assert parent_of(one.process_id) != os.getpid()
        assert [os.getsid(server.process_id) for server in (one, two)] == [one.process_id, two.process_id]
        one.stop_broker(1)
        assert [broker.state for broker in one.brokers()] == ["down", "up", "up"]
        assert [broker.state for broker in two.brokers()] == ["up"]
    assert is_gone(one.process_id)
    assert is_gone(two.process_id)
    assert (one.stderr_text(), two.stderr_text()) == ("", "")


def test_a_fork_has_the_environment_and_the_directory_of_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy_of_this_test.py").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    environment = {"ONLY_HERE": "1", "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    policy = "create.topic.policy.class.name=policy_of_this_test:judge"
    with ServerProcess("--set", policy, "--data-dir", "data", environment=environment, warm=True) as server:
        assert Path(f"/proc/{server.process_id}/cwd").resolve() == tmp_path
        assert (tmp_path / "data").is_dir()


def test_a_start_that_is_refused_says_why() -> None:
    with pytest.raises(ServerFailed, match=r"exit code 2 before it was ready\n.*no-such-option"):  # noqa: SIM117
        with ServerProcess("--no-such-option", warm=True):
            pass


def test_a_killed_server_is_a_failure_and_the_next_one_starts() -> None:
    killed = ServerProcess(warm=True).__enter__()
    os.kill(killed.process_id, signal.SIGKILL)
    with pytest.raises(ServerFailed, match="exit code -9"):
        killed.stop()
    with ServerProcess(warm=True) as server:
        assert server.bootstrap_servers


def test_it_has_one_thread_and_no_children_when_nothing_runs(warm: WarmProcess) -> None:
    """A fork of a process with threads lacks them, and whatever locks they held stay locked."""
    pid = warm.process_id
    assert len(list(Path(f"/proc/{pid}/task").iterdir())) == 1
    with Path(os.devnull).open("rb") as nothing:
        fork = warm.start(["--version"], dict(os.environ), nothing.fileno())
    assert fork.wait(SECONDS) == 0
    assert fork.stdout.read().startswith(b"klamm ")
    for pipe in (fork.stdin, fork.stdout):
        pipe.close()
    assert Path(f"/proc/{pid}/task/{pid}/children").read_text() == ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "term"])
def test_nothing_outlives_the_process_that_started_it(number: signal.Signals) -> None:
    program = (
        "import klamm, time\n"
        "server = klamm.ServerProcess(warm=True).__enter__()\n"
        "print(server.process_id, flush=True)\n"
        "time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        server = int(process.stdout.readline())
        warm = parent_of(server)
        process.send_signal(number)
        process.wait(SECONDS)
    await_end(server)
    await_end(warm)


def test_a_command_that_cannot_be_warm_is_run_for_each_server() -> None:
    """As one that runs a container."""
    shell = f'[ "$1" != warm ] || exit 1; exec {" ".join(KLAMM)} "$@"'
    command = ("/bin/sh", "-c", shell, "klamm")
    with pytest.raises(NoWarmProcess):
        WarmProcess(command, os.environ)
    for _ in range(2):
        with ServerProcess(brokers=1, command=command, warm=True) as server:
            assert parent_of(server.process_id) == os.getpid()


def test_a_variable_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_COMMAND", f"'{sys.executable}' -P -c 'import sys; sys.exit(7)'")
    with pytest.raises(ServerFailed, match="exit code 7"), ServerProcess(warm=True):
        pass


def test_without_a_socket_it_says_what_it_is_for() -> None:
    done = subprocess.run(
        [*KLAMM, "warm"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    expected = "klamm warm: stdin is no socket: only klamm.ServerProcess and the pytest fixtures use this\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", expected)


def test_a_test_waits_until_a_condition_is_true() -> None:
    with ServerProcess(brokers=1, warm=True) as server:
        values = iter([0, "", None, [7]])
        server.wait_until(lambda: next(values))
        assert list(values) == []
        with pytest.raises(TimeoutError, match=r"was not true within 0\.05 s"):
            server.wait_until(lambda: False, timeout_seconds=0.05)
