"""Scenarios on a real cluster, while confluent-kafka and aiokafka write: the ones that come with Klamm, and reports."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

import klamm
from klamm.cluster.server_process import ServerProcess
from klamm.console.options import UsageError
from klamm.control.fault_verbs import Fault
from klamm.control.scenario_file import read_scenario
from klamm.control.scenario_run import Run, ScenarioFailed
from klamm.scenario.command import scenario_command
from tests.clients.test_faults import Aio, Confluent

SECONDS = 60
ROOT = Path(klamm.__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def cluster() -> Iterator[ServerProcess]:
    configs = {"broker.heartbeat.interval.ms": 200, "max.broker.partitions": 500}
    with ServerProcess(brokers=3, control=True, configs=configs, warm=True) as running:
        yield running


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    """With the options that docs/scenarios.md gives to the cluster, and a consumer as it describes."""
    page = (ROOT / "docs" / "scenarios.md").read_text()
    (example,) = re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (command,) = re.findall(r"^klamm serve (.* --set .*) --control \S+$", page, re.MULTILINE)
    (tmp_path / "away.json").write_text(example)
    with ServerProcess(*command.split(), control=True) as running:
        running.create_topic("orders")
        consumer = Consumer(
            {"bootstrap.servers": running.bootstrap_servers, "group.id": "billing", "client.id": "billing-1"}
        )
        consumer.subscribe(["orders"])
        ended = threading.Event()

        def poll() -> None:
            while not ended.is_set():
                consumer.poll(0.1)

        polling = threading.Thread(target=poll)
        polling.start()
        try:
            report = running.run_scenario(tmp_path / "away.json")
        finally:
            ended.set()
            polling.join()
            consumer.close()
    assert [step.outcome for step in report.steps] == ["done"] * 6
    assert [fault.hits for fault in report.faults] == [1]


@pytest.fixture
def topic(cluster: ServerProcess) -> str:
    name = f"topic-{uuid.uuid4().hex}"
    cluster.create_topic(name, 1, 3)
    return name


@contextmanager
def load(cluster: ServerProcess, topic: str, library: type[Confluent | Aio]) -> Iterator[list[bytes]]:
    """A client that writes one record after the other; the list has those that were acknowledged."""
    written: list[bytes] = []
    over = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            client = library(cluster.bootstrap_servers)
            while not over.wait(0.02):
                value = str(len(written)).encode()
                client.write(topic, value)
                written.append(value)
            client.close()
        except BaseException as error:  # noqa: BLE001 - raised below, in the test's own thread
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield written
    finally:
        over.set()
        thread.join(SECONDS)
    assert not failures, failures


@pytest.mark.parametrize("library", [Confluent, Aio], ids=["confluent", "aiokafka"])
@pytest.mark.parametrize("name", ["rolling-restart", "leader-loss", "full-disk", "split-client"])
def test_a_shipped_scenario_goes_on_while_a_client_writes(
    cluster: ServerProcess, topic: str, name: str, library: type[Confluent | Aio]
) -> None:
    parameters: dict[str, Any] = {"topic": topic}
    if name == "split-client":
        parameters = {"client": library.client_id, "broker": cluster.leader(topic, 0)}
    with load(cluster, topic, library) as written:
        cluster.wait_until(lambda: written, SECONDS)
        report = cluster.run_scenario(name, **parameters)
    assert {step.outcome for step in report.steps} == {"done"}
    assert written
    assert [record.value for record in cluster.records(topic)] == written
    assert cluster.faults() == ()
    assert all(broker.state == "up" for broker in cluster.brokers())
    hits = {fault.id: fault.hits for fault in report.faults}
    assert all(hits.values()), hits
    assert set(hits) == {
        "rolling-restart": set(), "leader-loss": {"load", "load-after-the-loss"}, "full-disk": set(),
        "split-client": {"split"},
    }[name]  # fmt: skip
    assert [step.at_seconds for step in report.steps] == sorted(step.at_seconds for step in report.steps)


def test_a_slow_controller_is_met_by_an_admin_client(cluster: ServerProcess) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    name = f"slow-{uuid.uuid4().hex}"
    running: list[Any] = []
    thread = threading.Thread(target=lambda: running.append(cluster.run_scenario("slow-controller", delay_ms=300)))
    thread.start()
    cluster.wait_until(lambda: len(cluster.faults()) == 1)
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(SECONDS)
    thread.join(SECONDS)
    ((report),) = running
    assert [(fault.id, fault.hits) for fault in report.faults] == [("slow-controller", 1)]


def test_the_partition_limit_is_reached(cluster: ServerProcess) -> None:
    prefix = f"limit-{uuid.uuid4().hex}"
    for _ in range(2):  # no topic remains, so that it can run again
        report = cluster.run_scenario("partition-limit", prefix=prefix)
        assert [step.outcome for step in report.steps] == ["done", "done", "done", "refused", "done"]
        assert (report.steps[0].step, report.steps[0].result) == ("partition_limit", "500")
        assert "POLICY_VIOLATION" in report.steps[3].result
        assert "num_partitions=10000" in report.steps[3].step  # a server without a limit can bear as many
        assert report.steps[4].step == f"delete_topic name={prefix}-within"


def test_a_misspelt_topic_is_refused_before_the_scenario_waits(cluster: ServerProcess) -> None:
    with pytest.raises(ScenarioFailed, match="misspelt") as raised:
        cluster.run_scenario("leader-loss", topic="misspelt")
    (step,) = raised.value.report.steps
    assert (step.step, step.outcome) == ("leader topic=misspelt partition=0", "failed")
    assert step.seconds < SECONDS / 4


def test_values_are_filled_saved_and_counted(cluster: ServerProcess, topic: str) -> None:
    steps = [
        {"leader": {"topic": "${topic}", "partition": "${partition}"}, "save": "found"},
        {"shrink_isr": {"topic": topic, "partition": 0, "broker_id": "${found}"}, "refused": "is the leader"},
        {"each_broker": {"steps": [{"move_leader": {"topic": topic, "partition": 0, "broker_id": "${broker}"}}]}},
        {"repeat": {"times": 2, "steps": [{"create_topic": f"{topic}-${{number}}"}]}},
        {"isr": {"topic": topic, "partition": 0}, "at": 0.2},
    ]
    report = cluster.run_scenario({"parameters": {"topic": topic, "partition": 5}, "steps": steps}, partition=0)
    shown = [step.step for step in report.steps]
    assert shown[0] == f"leader topic={topic} partition=0"
    assert [text[-1] for text in shown[2:5]] == ["1", "2", "3"]
    assert shown[5:7] == [f"create_topic name={topic}-1", f"create_topic name={topic}-2"]
    assert report.steps[-1].at_seconds >= 0.2
    assert [step.outcome for step in report.steps] == ["done", "refused", *["done"] * 6]
    with pytest.raises(ValueError, match=r"has no parameter 'topc' .known: topic.*; did you mean 'topic'"):
        cluster.run_scenario("rolling-restart", topc=topic)


@pytest.mark.parametrize(
    ("steps", "reason", "outcomes"),
    [
        (
            [{"remove_faults": {}}, {"stop_broker": 9}, {"remove_faults": {}}],
            "no simulated broker 9",
            ["done", "failed"],
        ),
        ([{"remove_faults": {}, "refused": "x"}], "it was expected to be refused with 'x'", ["failed"]),
        ([{"stop_broker": 9, "refused": "another reason"}], "no simulated broker 9", ["failed"]),
        ([{"stop_broker": "${none}"}], "there is no parameter 'none'", []),
        ([{"pause": 30}], r"it did not end within 0\.2 s", []),
        ([{"repeat": {"times": 9_000, "steps": [{"pause": 0.01}]}}], "it did not end within", None),
        ([{"remove_faults": {}, "at": 30}], "it did not end within", []),
        ([{"wait_for_topic": {"topic": "none", "timeout_seconds": 0.05}}], "topic 'none' does not exist", ["failed"]),
    ],
)
def test_a_scenario_fails_with_the_step_and_its_reason(
    cluster: ServerProcess, steps: list[Any], reason: str, outcomes: list[str] | None
) -> None:
    with pytest.raises(klamm.ScenarioFailed, match=reason) as failed:
        cluster.run_scenario({"timeout_seconds": 0.2, "steps": [{"add_fault": {"api": "Fetch"}}, *steps]})
    assert isinstance(failed.value, ScenarioFailed)
    if outcomes is not None:
        assert [step.outcome for step in failed.value.report.steps] == ["done", *outcomes]
    assert cluster.faults() == ()


def test_the_command_reports_line_by_line_and_as_json(
    cluster: ServerProcess, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Producer({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(topic)
    words = ["run", "rolling-restart", "--control", cluster.control_url, "--set", f"topic={topic}"]
    assert scenario_command(words, {}) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert lines[1].split()[4:] == ["done", "stop_broker", "broker_id=1"]
    assert scenario_command([*words, "--json"], {}) == 0
    assert len(json.loads(capsys.readouterr().out)["steps"]) == 10
    file = tmp_path / "awaits.json"
    file.write_text(
        '{"parameters": {"topic": "t"}, "steps": [{"wait_for_topic": {"topic": "${topic}", "timeout_seconds": 0.1}}]}'
    )
    missing = ["run", str(file), "--control", cluster.control_url, "--set", "topic=none\x1b", "--json"]
    assert scenario_command(missing, {}) == 1
    assert "\x1b" not in capsys.readouterr().err
    assert scenario_command(["list"], {}) == 0
    assert "leader-loss: The leader of a partition crashes" in capsys.readouterr().out


def test_the_command_s_exit_codes(cluster: ServerProcess, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"steps": [{"stop_broker": 9}]}')

    def ended(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "klamm", "scenario", *words], cwd=ROOT, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT), "KLAMM_CONTROL_URL": cluster.control_url},
        )  # fmt: skip
        return done.returncode, done.stderr

    assert ended("run", str(file)) == (
        1, "klamm scenario: stop_broker broker_id=9: there is no simulated broker 9\n",
    )  # fmt: skip
    code, reason = ended("run", "roling-restart")
    assert (code, "did you mean 'rolling-restart'" in reason, reason.count("\n")) == (2, True, 1)
    assert ended("run")[0] == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_in_one_line_and_removes_its_rules(
    cluster: ServerProcess, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    file = tmp_path / "mine.json"
    steps = [{"add_fault": {"id": "mine", "api": "Fetch"}}, {"wait_for_fault": {"fault": "mine", "hits": 1}}]
    file.write_text(json.dumps({"steps": steps}))
    with subprocess.Popen(
        [sys.executable, "-m", "klamm", "scenario", "run", str(file), "--url", cluster.control_url],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as running:  # fmt: skip
        assert running.stdout is not None
        assert "done" in running.stdout.readline()
        # The step that waits is printed while it waits.
        assert running.stdout.readline().split(maxsplit=2)[2] == "wait_for_fault fault=mine hits=1 …\n"
        running.send_signal(number)
        out, err = running.communicate(timeout=SECONDS)
    assert (running.returncode, out) == (code, "fault mine: hits 0, matches 0\n")
    assert err == f"klamm scenario: stopped by {number.name}; its steps with undo are undone, its rules removed\n"
    assert cluster.faults() == ()


class _Client:
    """The verbs of one test; `add_fault` is interrupted when the server has added the rule."""

    def __init__(self, interrupted: int) -> None:
        self.rules: dict[str, Fault] = {}
        self._interrupted = interrupted
        self.run: Run

    def add_fault(self, **_: Any) -> Fault:
        fault = Fault(id="mine", hits=0, matches=0, state="active", requests=(), rule={})
        self.rules["mine"] = fault
        for _number in range(self._interrupted):
            self.run.interrupt(KeyboardInterrupt())
        return fault

    def faults(self) -> tuple[Fault, ...]:
        return tuple(self.rules.values())

    def remove_fault(self, fault: str) -> Fault:
        return self.rules.pop(fault)


def test_a_rule_is_removed_if_the_run_is_interrupted_while_it_is_added() -> None:
    scenario = read_scenario({"steps": [{"add_fault": {"api": "Fetch"}}] * 2}, klamm.ControlClient)
    client = _Client(1)
    client.run = Run(scenario, {})
    with pytest.raises(KeyboardInterrupt):
        client.run.run(client)
    assert (client.rules, len(client.run.report.steps)) == ({}, 1)
    client = _Client(2)  # the second one does not wait
    client.run = Run(scenario, {})
    with pytest.raises(KeyboardInterrupt):
        client.run.run(client)
    assert list(client.rules) == ["mine"]


def test_a_partition_without_a_leader_is_named(cluster: ServerProcess) -> None:
    name = f"lost-{uuid.uuid4().hex}"
    cluster.create_topic(name, 1, 1)
    leader = cluster.leader(name, 0)
    cluster.kill_broker(leader)
    cluster.expire_session(leader)
    try:
        with pytest.raises(klamm.ScenarioFailed, match=f"{name}-0 has no leader"):
            cluster.run_scenario("full-disk", topic=name)
        found = cluster.run_scenario({"steps": [{"leader": {"topic": name, "partition": 0}}]})
        assert found.steps[0].result == "-1"
    finally:
        cluster.start_broker(leader)


def test_the_steps_of_a_scenario_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"steps": [{"stop_broker": 9}]}')
    assert scenario_command(["show", str(file)], {}) == 0
    assert capsys.readouterr().out == file.read_text()
    assert scenario_command(["show", "full-disk"], {}) == 0
    assert "take_disk" in json.loads(capsys.readouterr().out)["steps"][1]
    with pytest.raises(UsageError, match="did you mean 'full-disk'"):
        scenario_command(["show", "fulldisk"], {})
    for command in (["list"], ["show", "full-disk"]):
        with pytest.raises(UsageError, match="argument --url: this command asks no cluster"):
            scenario_command([*command, "--url", "http://127.0.0.1:1"], {})
    with pytest.raises(UsageError, match="split-client: parameter broker 'two': a number is expected, such as 1"):
        scenario_command(["run", "split-client", "--url", "http://127.0.0.1:1", "--set", "broker=two"], {})


def test_an_address_without_a_server_is_refused_before_the_first_step(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"^{url} cannot be reached: Connection refused$"):
            scenario_command(["run", "rolling-restart", "--url", url], {})
    assert capsys.readouterr() == ("", "")


def test_a_misspelt_name_is_refused_before_a_missing_address() -> None:
    with pytest.raises(UsageError, match="did you mean 'rolling-restart'"):
        scenario_command(["run", "rolling-restat"], {})
    with pytest.raises(UsageError, match="the cluster has no address"):
        scenario_command(["run", "rolling-restart"], {})
