"""`klamm follow` as a process: beside `klamm serve`, ended by signals, and wrong calls."""

import math
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from klamm.__main__ import main
from klamm.cluster.server_process import ServerProcess
from klamm.twin.follow_command import decode_follow_options

ROOT = Path(__file__).parents[3]
FOLLOW = [sys.executable, "-P", "-m", "klamm", "follow"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def follow(*options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*FOLLOW, *options], capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT)


def test_a_copy_is_made_ended_by_a_signal_and_goes_on(tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    with ServerProcess(brokers=1, controller_listener="127.0.0.1:0", data_dir=tmp_path / "data") as server:
        controller = ["--bootstrap-controller", server.controller_bootstrap_servers, "--data-dir", copy]
        first = follow(*controller, "--once")
        assert (first.returncode, first.stdout) == (0, "")
        (segment,) = Path(copy).glob("*/*.log")
        content = bytearray(segment.read_bytes())
        content[len(content) // 2] ^= 1
        segment.write_bytes(content)
        going = subprocess.Popen([*FOLLOW, *controller], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        try:
            assert going.stderr is not None
            damaged = going.stderr.readline()
            assert damaged.startswith(f"klamm follow: {segment} is damaged at byte ")
            assert ". The copy is whole up to offset " in damaged
            assert damaged.endswith(", and the records from there on are fetched again\n")
            assert "following controller" in going.stderr.readline()
            in_use = follow(*controller)
            going.send_signal(signal.SIGTERM)
            rest = going.communicate(timeout=30)[1]
        finally:
            going.kill()
        assert going.returncode == 0
        assert "the copy ends at offset" in rest
        assert in_use.returncode == 1
        assert "is in use by another Klamm" in in_use.stderr
        assert len(in_use.stderr.splitlines()) == 1
    written = (tmp_path / "data" / "__cluster_metadata-0" / f"{0:020}.log").read_bytes()
    copied = (tmp_path / "copy" / "__cluster_metadata-0" / f"{0:020}.log").read_bytes()
    assert copied
    assert written.startswith(copied)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--data-dir", "x"], "required: --bootstrap-controller"),
        (["--bootstrap-controller", "h:1"], "required: --data-dir"),
        (["--bootstrap-controller", "h", "--data-dir", "x"], "port"),
        (["--bootstrap-controller", "0.0.0.0:1", "--data-dir", "x"], "is not an address to connect to"),
        (["--bootstrap-controller", "h:0", "--data-dir", "x"], "is not an address to connect to"),
        (["--bootstrap-controller", "h:1", "--data-dir", "x", "--cluster-id", "no id"], "--cluster-id"),
        (["--bootstrap-controller", "h:1", "--data-dir", "x", "--timeout", "0"], "--timeout"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["follow", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("klamm follow: ")
    assert reason in line
    assert not list(tmp_path.iterdir())


def test_wrong_properties_are_refused_before_the_directory_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "client.properties").write_text("security.protocol=SECRET\n")
    call = ["--bootstrap-controller", "h:1", "--data-dir", str(tmp_path / "copy")]
    assert main(["follow", *call, "--command-config", str(tmp_path / "client.properties")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "client.properties: security.protocol: SECRET" in line
    assert not (tmp_path / "copy").exists()


def test_what_cannot_be_followed_is_said_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ServerProcess(brokers=1, controller_listener="127.0.0.1:0") as server:
        controller, broker = server.controller_bootstrap_servers, server.bootstrap_servers
        fresh, copy = ["--data-dir", str(tmp_path / "fresh")], ["--data-dir", str(tmp_path / "copy")]
        other_id = follow("--bootstrap-controller", controller, *fresh, "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAA")
        of_a_broker = follow("--bootstrap-controller", broker, *fresh)
        assert not (tmp_path / "fresh").exists()
        assert follow("--bootstrap-controller", controller, *copy, "--once").returncode == 0
        assert main(["clone", "--bootstrap-server", controller, "--out", str(tmp_path / "fresh")]) == 1
        assert not (tmp_path / "fresh").exists()
    (cloned,) = capsys.readouterr().err.splitlines()
    assert cloned == (
        f"klamm clone: {controller} is the address of a controller, not of a broker: klamm follow copies from "
        "controllers"
    )
    with ServerProcess(brokers=1, controller_listener="127.0.0.1:0") as server:
        other_cluster = follow("--bootstrap-controller", server.controller_bootstrap_servers, *copy)
    for done, reason in (
        (other_id, f"{controller} is of cluster "),
        (of_a_broker, f"{broker} is a broker, not a controller: klamm clone copies from brokers"),
        (other_cluster, f"{tmp_path / 'copy'} is a copy of cluster "),
    ):
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"klamm follow: {reason}")
        assert done.returncode == 1


def test_a_broker_that_knows_no_kind_of_end_points_is_recognized_by_its_answer_to_fetch(tmp_path: Path) -> None:
    with ServerProcess(brokers=1, max_version="DescribeCluster=0") as server:
        broker = server.bootstrap_servers
        call = ["--bootstrap-controller", broker, "--data-dir", str(tmp_path / "copy"), "--timeout", "20"]
        done = follow(*call, "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAA")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line == f"klamm follow: {broker} is a broker, not a controller: klamm clone copies from brokers"


def test_once_gives_up_where_no_controller_listens(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        call = ["--bootstrap-controller", f"127.0.0.1:{held.getsockname()[1]}", "--data-dir", str(tmp_path / "copy")]
        done = follow(*call, "--once", "--timeout", "1")
        going = subprocess.Popen([*FOLLOW, *call], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        try:
            assert going.stderr is not None
            assert "trying again" in going.stderr.readline()
            going.send_signal(signal.SIGTERM)
            rest = going.communicate(timeout=30)[1]
        finally:
            going.kill()
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "klamm follow: gave up after 1 s without progress"
    assert "the copy ends" not in done.stderr
    assert rest == "klamm follow: the copy has nothing yet\n"
    assert not (tmp_path / "copy").exists()


def test_once_has_a_timeout_and_a_call_without_it_has_none() -> None:
    call = ["--bootstrap-controller", "h:1", "--data-dir", "x"]
    assert decode_follow_options(call).timeout_seconds == math.inf
    assert decode_follow_options([*call, "--once"]).timeout_seconds == 30
    assert decode_follow_options([*call, "--timeout", "7"]).timeout_seconds == 7
