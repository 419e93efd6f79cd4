"""`klamm serve --twin --follow`: the twin begins again when it is told to, and goes on if its source cannot be read."""

import json
import signal
import urllib.request
from pathlib import Path

import pytest

from klamm import ControlRefused, ServerProcess
from klamm.controller.log.data_dir import LOG_FOLDER
from klamm.controller.log.segment_files import list_segments
from tests.klamm.control.test_command import run
from tests.klamm.serve.processes import FREE, addresses, create, first_line, serving, topics


def brokers_of(control: str) -> int:
    with urllib.request.urlopen(f"{control}/brokers", timeout=30) as answer:
        return len(json.load(answer))


def topics_at(bootstrap_servers: str) -> set[str | None]:
    return set(topics(addresses(f"bootstrap.servers={bootstrap_servers}\n")[0]))


def test_a_twin_begins_again_with_what_its_source_has_then(tmp_path: Path) -> None:
    with serving(*FREE, "--brokers", "2", "--data-dir", str(tmp_path)) as original:
        theirs = addresses(first_line(original))
        assert create(theirs[0], "before") == 0
        with serving(*FREE, "--twin", str(tmp_path), "--follow", "--control", "127.0.0.1:0") as twin:
            ours, control = addresses(first_line(twin)), first_line(twin)
            assert create(ours[0], "of-the-twin") == 0
            assert create(theirs[0], "behind") == 0
            assert set(topics(ours[0])) == {"before", "of-the-twin"}
            for _ in range(2):
                twin.send_signal(signal.SIGHUP)
                ours = addresses(first_line(twin))
                assert set(topics(ours[0])) == {"before", "behind"}
                assert first_line(twin) == control
            assert brokers_of(control.strip().removeprefix("control=")) == 2
            assert set(topics(theirs[0])) == {"before", "behind"}


def test_a_source_that_cannot_be_read_leaves_the_twin_as_it_is(tmp_path: Path) -> None:
    with serving(*FREE, "--brokers", "1", "--data-dir", str(tmp_path)) as original:
        assert create(addresses(first_line(original))[0], "before") == 0
    with serving(*FREE, "--twin", str(tmp_path), "--follow") as twin:
        (ours,) = addresses(first_line(twin))
        for segment in list_segments(tmp_path / LOG_FOLDER):
            segment.path.unlink()
        for snapshot in (tmp_path / LOG_FOLDER).glob("*.checkpoint"):
            snapshot.unlink()
        twin.send_signal(signal.SIGHUP)
        assert twin.stderr is not None
        assert "the twin cannot begin again, and goes on as it is" in twin.stderr.readline()
        assert set(topics(ours)) == {"before"}


def test_a_twin_restarts_by_the_control_interface(tmp_path: Path) -> None:
    with serving(*FREE, "--brokers", "2", "--data-dir", str(tmp_path)) as original:
        theirs = addresses(first_line(original))[0]
        assert create(theirs, "before") == 0
        with ServerProcess("--follow", twin=tmp_path, control=True, warm=True) as twin:
            twin.create_topic("of-the-twin")
            assert create(theirs, "behind") == 0
            for restarts in (1, 2):
                servers = twin.restart_twin()
                assert servers == twin.bootstrap_servers
                assert topics_at(servers) == {"before", "behind"}
                assert len(twin.brokers()) == 2, "the URL of the control interface is the same"
                assert twin.ask("GET", "/twin") == {
                    "twin": str(tmp_path), "restarts": restarts, "bootstrap_servers": servers
                }  # fmt: skip
            assert create(theirs, "later") == 0
            shown = run("--url", twin.control_url, "twin", "restart")
            again = twin.ask("GET", "/twin")
            assert shown == (0, f"{tmp_path}  3 restarts  {again['bootstrap_servers']}\n", "")
            assert run("--url", twin.control_url, "twin") == shown
            assert "later" in topics_at(again["bootstrap_servers"])


def test_a_restart_of_a_source_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with serving(*FREE, "--brokers", "1", "--data-dir", str(tmp_path)) as original:
        assert create(addresses(first_line(original))[0], "before") == 0
    with ServerProcess("--follow", twin=tmp_path, control=True, warm=True) as twin:
        for path in (tmp_path / LOG_FOLDER).iterdir():
            path.unlink()
        with pytest.raises(ControlRefused, match="the twin cannot begin again, and goes on as it is: ") as refused:
            twin.restart_twin()
        assert refused.value.status == 409
        assert twin.ask("GET", "/twin")["restarts"] == 0
        assert topics_at(twin.bootstrap_servers) == {"before"}


def test_a_cluster_that_is_no_twin_cannot_restart_as_one() -> None:
    with ServerProcess(brokers=1, control=True, warm=True) as server:
        with pytest.raises(ControlRefused, match="is not a twin that can begin again") as refused:
            server.restart_twin()
        assert refused.value.status == 409
        with pytest.raises(ControlRefused, match="is not a twin"):
            server.ask("GET", "/twin")
