"""`klamm try` on the metadata of a cluster of three racks: reports in all forms, suggestions, exit codes."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from klamm.__main__ import main
from klamm.controller.log.data_dir import LOG_FOLDER
from klamm.twin.report import FAILURES
from tests.klamm.serve.volumes import obey_permissions
from tests.klamm.twin.tried import reported, tried


def test_a_lost_rack_is_counted(twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = reported(twin, tmp_path, capsys, [{"lose-rack": "a"}])
    before, (step,) = report["before"], report["steps"]
    assert (before["partitions"], before["offline"], before["under_min_isr"], before["few_racks"]) == (18, 0, 0, 6)
    after = step["after"]
    assert (after["offline"], after["under_min_isr"], after["under_replicated"]) == (6, 18, 18)
    assert [one["is_up"] for one in after["brokers"]] == [False, True, True, False, True, True]
    assert after["racks"]["a"]["leaders"] == 0
    assert before["racks"]["a"]["replicas"] == after["racks"]["a"]["replicas"] == 24
    assert sum(one["leaders"] for one in after["brokers"]) == 12


def test_the_session_timeout_of_the_report_is_that_of_the_twin(
    twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = tried(twin, tmp_path, capsys, [{"lose-broker": 3}], "--set", "broker.session.timeout.ms=2500")
    assert "without a leader for up to 2.5 s: " in out


def test_brokers_that_return_are_in_sync_again(twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = reported(twin, tmp_path, capsys, [{"lose-broker": 2}, {"return-broker": 2}])
    lost, returned = (step["after"] for step in report["steps"])
    assert lost["under_min_isr"] == lost["under_replicated"] > 0
    assert returned["under_min_isr"] == returned["under_replicated"] == 0


def test_a_plan_moves_replicas_and_says_what_is_refused(
    twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moves = [("crooked", 0, [1, 2]), ("crooked", 1, [4, 1]), ("missing", 0, [1]), ("crooked", 2, [1, 9])]
    plan = {
        "version": 1,
        "partitions": [{"topic": t, "partition": p, "replicas": replicas} for t, p, replicas in moves],
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    (step,) = reported(twin, tmp_path, capsys, [{"reassign": "plan.json"}])["steps"]
    assert step["copied_replicas"] == 1
    assert step["done"] == ["reassigned without a copy: 1 partition"]
    assert step["unfinished_reassignments"] == 0
    assert {(one["subject"], one["code"]) for one in step["refusals"]} == {
        ("partition missing-0", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("partition crooked-2", "INVALID_REPLICA_ASSIGNMENT"),
    }
    assert step["after"]["few_racks"] == 5
    assert step["during"]["partitions"] == 18


def test_a_move_to_a_broker_that_is_down_does_not_end(
    twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = {"version": 1, "partitions": [{"topic": "crooked", "partition": 0, "replicas": [1, 2]}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    steps = [{"lose-broker": 2}, {"reassign": "plan.json"}]
    code, out, err = tried(twin, tmp_path, capsys, steps, "--fail-on", "unfinished")
    assert code == 1
    assert "not finished: 1 reassignment, because a broker is down" in out
    assert err == "klamm try: unfinished: a reassignment cannot end\n"


def test_limits_refuse_and_are_shown(twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [
        {"set-configs": {"configs": {"max.broker.partitions": 8}}},
        {"create-topic": {"name": "more", "partitions": 6, "replication-factor": 3}},
    ]
    code, out, err = tried(twin, tmp_path, capsys, steps, "--fail-on", "under-min-isr,limit,rack")
    assert code == 1
    assert "refused: topic 'more': POLICY_VIOLATION: " in out
    assert "max.broker.partitions=8, max.partitions=unlimited" in out
    assert "8, exceeded" in out
    assert err.startswith("klamm try: limit: ")


def test_without_trouble_every_kind_of_failure_passes(
    twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [
        {"create-topic": {"name": "more", "partitions": 6, "replication-factor": 3}},
        {"add-partitions": {"topic": "more", "to": 7}},
        {"set-configs": {"configs": {"retention.ms": "1"}, "topic": "more"}},
        {"elect-preferred-leaders": "all"},
    ]
    kinds = "under-min-isr,limit,rack,refused,unfinished"
    limit = ("--set", "max.partitions=1000")
    code, out, err = tried(twin, tmp_path, capsys, steps, "--fail-on", kinds, *limit)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].endswith(": 18 partitions on 6 brokers")
    assert out.count("no other change in leaders, ISRs or racks") == 4
    assert out.splitlines()[-1] == f"passed: none of {kinds.replace(',', ', ')}"
    for line in ("created: 6 partitions, 18 replicas", "added: 1 partition, 3 replicas", "elected: 0 leaders"):
        assert f"  {line}\n" in out
    assert "  done: 1 config set for topic more\n" in out


def test_static_configs_are_those_of_the_call(twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [{"create-topic": {"name": "a"}}, {"create-topic": {"name": "b", "partitions": 100}}]
    static = ("num.partitions=2", "default.replication.factor=3", "max.broker.partitions=20")
    sets = [word for one in static for word in ("--set", one)]
    code, out, err = tried(twin, tmp_path, capsys, steps, *sets, "--fail-on", "limit", "--output", "json")
    assert (code, err) == (1, f"klamm try: limit: {FAILURES['limit'][0]}\n")
    first, second = json.loads(out)["steps"]
    assert [one["limit"] for one in first["after"]["brokers"]] == [20] * 6
    held = [sum(one["replicas"] for one in step["after"]["brokers"]) for step in (first, second)]
    assert held == [36 + 12 + 2 * 3] * 2
    assert [one["code"] for one in second["refusals"]] == ["POLICY_VIOLATION"]
    assert tried(twin, tmp_path, capsys, steps, "--set", "num.partitions=x")[0] == 2
    assert main(["try", "--twin", str(twin), "--suggest", "--set", "num.partitions=x"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "num.partitions" in line


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "the twin has neither max.broker.partitions nor max.partitions"),
        (("--profile", "kafka"), "the twin has neither max.broker.partitions nor max.partitions"),
        (("--set", "max.partitions=100"), None),
        (("--set", "max.broker.partitions=100"), None),
    ],
)
def test_a_check_of_limits_without_a_limit_is_named(
    twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], reason: str | None
) -> None:
    code, _, err = tried(twin, tmp_path, capsys, [{"create-topic": {"name": "a"}}], "--fail-on", "limit", *options)
    assert code == 0
    assert [line.startswith(f"klamm try: limit: {reason}") for line in err.splitlines()] == ([True] if reason else [])
    assert ("finds nothing; the copy has no static configs. Give a limit with --set" in err) == (reason is not None)


def test_changes_are_read_from_stdin(
    twin: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ('{"steps": [{"lose-rack": "a"}]}', "steps:\n  - lose-rack: a\n"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert main(["try", "--twin", str(twin), "-"]) == 0
        assert "step 1: lose rack a" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"{")))
    assert main(["try", "--twin", str(twin), "-"]) == 2
    assert capsys.readouterr().err.startswith("klamm try: the changes -:1:2: no JSON: ")


def test_an_interrupt_while_the_twin_is_read_ends_in_one_line(twin: Path, tmp_path: Path) -> None:
    """trio raises it in a group."""
    copy = tmp_path / "copy"
    shutil.copytree(twin, copy)
    (copy / "meta.properties").unlink()
    os.mkfifo(copy / "meta.properties")
    (tmp_path / "changes.json").write_text('{"steps": [{"lose-broker": 1}]}')
    command = [sys.executable, "-m", "klamm", "try", "--twin", str(copy), str(tmp_path / "changes.json")]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
        (copy / "meta.properties").open("wb"),  # waits until it is opened for reading
    ):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "klamm try: interrupted\n")


def test_a_suggestion_is_a_file_that_makes_it_even(
    twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["try", "--twin", str(twin), "--suggest"]) == 0
    (tmp_path / "suggested.json").write_text(capsys.readouterr().out)
    (step,) = reported(twin, tmp_path, capsys, [{"reassign": "suggested.json"}])["steps"]
    assert step["refused"] == 0
    assert step["after"]["few_racks"] == 0
    assert {one["replicas"] for one in step["after"]["brokers"]} == {8}
    assert main(["try", "--twin", str(twin), "--suggest", "--broker-list", "1,2,3"]) == 0
    suggested = json.loads(capsys.readouterr().out)["partitions"]
    assert {broker for one in suggested for broker in one["replicas"]} == {1, 2, 3}
    assert main(["try", "--twin", str(twin), "--suggest", "--broker-list", "1,2,99"]) == 2
    assert "not in the cluster: 1 of 3 chosen brokers, 99" in capsys.readouterr().err
    assert main(["try", "--twin", str(twin), "--suggest", "--broker-list", "1,2"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "--twin"),
        (["--twin", "x"], "either FILE with changes or --suggest is needed"),
        (["--twin", "x", "f", "--suggest"], "give FILE or --suggest, not both"),
        (["--twin", "x", "f", "--broker-list", "1"], "--broker-list is for --suggest"),
        (["--twin", "x", "--suggest", "--fail-on", "rack"], "--fail-on cannot be given beside --suggest"),
        (["--twin", "x", "--suggest", "--sizes", "f"], "--sizes cannot be given beside --suggest"),
        (["--twin", "x", "--suggest", "--rate", "1"], "--rate cannot be given beside --suggest"),
        (["--twin", "x", "--suggest", "--profile", "kip"], "--profile cannot be given beside --suggest"),
        (["--twin", "x", "--suggest", "--output", "text"], "--output cannot be given beside --suggest"),
        (["--twin", "x", "--suggest", "--broker-list", "1,1"], "distinct broker ids"),
        (["--twin", "x", "f", "--rate", "0"], "--rate"),
        (["--twin", "x", "f", "--rate", "2T"], "bytes per second from 1 to 1000000000000 are expected"),
        (["--twin", "x", "f", "--rate", "50MiB"], "bytes per second from 1 to 1000000000000 are expected"),
        (["--twin", "x", "f", "--set", "num.partitions"], "NAME=VALUE is expected"),
        (["--twin", "x", "f", "--set", "=1"], "NAME=VALUE is expected"),
        (["--twin", "x", "f", "--set", "a=1", "--set", "a=2"], "a is given twice"),
        (["--twin", "x", "f", "--fail-on", "racks"], "is none of under-min-isr, limit, rack"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], options: list[str], reason: str
) -> None:
    assert main(["try", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line


@pytest.mark.parametrize(("twin_path", "changes"), [("missing", '{"steps": [{"lose-broker": 1}]}'), ("missing", "{")])
def test_what_cannot_be_read_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], twin_path: str, changes: str
) -> None:
    (tmp_path / "changes.json").write_text(changes)
    assert main(["try", "--twin", str(tmp_path / twin_path), str(tmp_path / "changes.json")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("klamm try: ")


def test_a_copy_that_may_not_be_read_is_named(twin: Path, tmp_path: Path) -> None:
    shutil.copytree(twin, tmp_path / "copy")
    (tmp_path / "copy" / LOG_FOLDER).chmod(0)
    (tmp_path / "changes.json").write_text('{"steps": [{"lose-broker": 1}]}')
    command = [sys.executable, "-m", "klamm", "try", "--twin", str(tmp_path / "copy"), str(tmp_path / "changes.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=obey_permissions())
    assert done.stderr == f"klamm try: cannot read {tmp_path / 'copy'}: Permission denied\n"
    assert done.returncode != 0
