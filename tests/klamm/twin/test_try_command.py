"""`klamm try` on the metadata of a cluster of three racks: reports in all forms, suggestions, exit codes."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

import klamm
from klamm.__main__ import main
from klamm.controller.log.data_dir import LOG_FOLDER
from klamm.twin.affected import Named, led_by
from klamm.twin.cluster_counts import ClusterCounts
from klamm.twin.trial import StepResult, Trial, as_json
from klamm.twin.trial_html import as_html
from klamm.twin.trial_text import changed_lines
from klamm.twin.try_command import FAILURES
from tests.klamm.serve.volumes import obey_permissions

RACKS = ("a", "b", "c", "a", "b", "c")
HOSTILE = "<b>x</b>"


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six brokers in three racks; the replicas of "crooked" are on brokers 1 and 4 of rack a alone."""
    data_dir = tmp_path_factory.mktemp("twin") / "data"

    async def make() -> None:
        async with (
            klamm.Cluster(brokers=6, racks=RACKS, data_dir=data_dir, seed=1) as cluster,
            klamm.AdminClient(cluster.bootstrap_servers) as admin,
        ):
            crooked = {index: [1, 4] for index in range(6)}
            even = klamm.NewTopic("even", 12, 3, {"min.insync.replicas": "3"})
            made = await admin.create_topics([even, klamm.NewTopic("crooked", replica_assignments=crooked)])
            assert [one.error for one in made] == [None, None]

    trio.run(make)
    return data_dir


def tried(
    twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], steps: list[Any], *options: str
) -> tuple[int, str, str]:
    """The exit code, and what was written."""
    (tmp_path / "changes.json").write_text(json.dumps({"steps": steps}))
    code = main(["try", "--twin", str(twin), str(tmp_path / "changes.json"), *options])
    out, err = capsys.readouterr()
    return code, out, err


def reported(*given: Any) -> Any:
    code, out, err = tried(*given, "--output", "json")
    assert (code, err) == (0, "")
    return json.loads(out)


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


def test_the_partitions_that_a_step_affects_are_named(
    twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that were affected before the step are not."""
    steps = [{"lose-broker": 1}, {"lose-broker": 4}]
    crooked = [f"crooked-{index}" for index in range(6)]
    first, second = reported(twin, tmp_path, capsys, steps)["steps"]
    assert first["newly_affected"]["under_replicated"]["partitions"][:5] == crooked[:5]
    assert first["newly_affected"]["under_replicated"]["more"] == first["after"]["under_replicated"] - 5
    assert "offline" not in first["newly_affected"]
    assert second["newly_affected"]["offline"] == {"partitions": crooked[:5], "more": 1}
    new = second["after"]["under_replicated"] - first["after"]["under_replicated"]
    named = second["newly_affected"]["under_replicated"]
    assert len(named["partitions"]) + named["more"] == new
    assert all(name.startswith("even-") for name in named["partitions"])
    _, out, _ = tried(twin, tmp_path, capsys, steps)
    assert f"without a leader: 0 -> 6 ({', '.join(crooked[:5])} and 1 more)" in out


def test_the_partitions_whose_leader_is_lost_are_named(
    twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They have no leader until the controller fences the broker, whether another replica takes over then or not."""
    steps = [{"lose-broker": 3}, {"lose-rack": "a"}, {"return-broker": 3}]
    report = reported(twin, tmp_path, capsys, steps)
    lost, rack, returned = report["steps"]
    leaders = {one["broker_id"]: one["leaders"] for one in report["before"]["brokers"]}
    led = lost["leader_lost_meanwhile"]
    assert len(led["partitions"]) + led["more"] == leaders[3] > 0
    assert led["session_timeout_ms"] == 9_000
    assert led["partitions"] == sorted(led["partitions"])
    assert lost["after"]["offline"] == 0
    of_rack = rack["leader_lost_meanwhile"]
    after_3 = {one["broker_id"]: one["leaders"] for one in lost["after"]["brokers"]}
    assert len(of_rack["partitions"]) + of_rack["more"] == after_3[1] + after_3[4]
    assert of_rack["partitions"] == [f"crooked-{index}" for index in range(5)]
    assert returned["leader_lost_meanwhile"] is None
    names = f"{', '.join(of_rack['partitions'])} and {of_rack['more']} more"
    line = f"without a leader for up to 9 s: {after_3[1] + after_3[4]} partitions ({names})"
    for form in ("text", "html"):
        _, out, _ = tried(twin, tmp_path, capsys, steps, "--output", form)
        assert line in out
        assert out.count("without a leader for up to") == 2


async def test_partitions_that_were_added_are_named_by_their_indexes() -> None:
    """They have another range of rows, because another topic was made between."""
    async with klamm.Cluster(brokers=1) as cluster, klamm.AdminClient(cluster.bootstrap_servers) as admin:
        await admin.create_topics([klamm.NewTopic("t", 1), klamm.NewTopic("u", 1)])
        await admin.create_partitions([klamm.NewPartitions("t", 4)])
        assert led_by(cluster._up.image, [1]) == Named(("t-0", "t-1", "t-2", "t-3", "u-0"), 0)
        await admin.create_partitions([klamm.NewPartitions("u", 3)])
        assert led_by(cluster._up.image, [1, 7]) == Named(("t-0", "t-1", "t-2", "t-3", "u-0"), 2)
        assert led_by(cluster._up.image, [7]) == Named((), 0)


def test_the_session_timeout_of_the_report_is_that_of_the_twin(
    twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = tried(twin, tmp_path, capsys, [{"lose-broker": 3}], "--set", "broker.session.timeout.ms=2500")
    assert "without a leader for up to 2.5 s: " in out


def test_the_partitions_of_a_peak_during_a_step_are_named() -> None:
    """Those that are whole again at the end, beside those that are not."""

    def counts(under_replicated: int) -> ClusterCounts:
        return ClusterCounts((), 9, 0, 0, under_replicated, 0, 0)

    step = StepResult("a step")
    step.during, step.after = counts(7), counts(1)
    step.affected_meanwhile = {"under_replicated": Named(("t-1", "t-2\x1b"), 5)}
    step.newly_affected = {"under_replicated": Named(("u-0",), 0)}
    trial = Trial("c", counts(0), [step])
    assert list(changed_lines(trial, 1)) == [
        r"under-replicated: 0 -> 1 (u-0), and 7 meanwhile (t-1, t-2\x1b and 5 more)"
    ]
    named = as_json(trial, None)["steps"][0]["affected_meanwhile"]
    assert named == {"under_replicated": {"partitions": ["t-1", "t-2\x1b"], "more": 5}}
    assert "and 7 meanwhile (t-1, t-2\\x1b and 5 more)" in as_html(trial, None, None)
    step.during = counts(1)  # that is no peak
    assert list(changed_lines(trial, 1)) == ["under-replicated: 0 -> 1 (u-0)"]


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


def test_a_decommissioned_broker_holds_nothing_and_is_gone(
    twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (step,) = reported(twin, tmp_path, capsys, [{"decommission": 5}])["steps"]
    assert step["refused"] == 0
    assert step["copied_replicas"] > 0
    assert [one["broker_id"] for one in step["after"]["brokers"]] == [1, 2, 3, 4, 6]
    _, text, _ = tried(twin, tmp_path, capsys, [{"decommission": 5}])
    assert "up -> removed" in text
    assert (step["after"]["under_replicated"], step["after"]["offline"]) == (0, 0)


def test_limits_refuse_and_are_shown(twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [
        {"set-configs": {"configs": {"max.broker.partitions": 8}}},
        {"create-topic": {"name": "more", "partitions": 6, "replication-factor": 3}},
    ]
    code, out, err = tried(twin, tmp_path, capsys, steps, "--fail-on", "under-min-isr,limit,rack")
    assert code == 1
    assert "refused: topic 'more': POLICY_VIOLATION: " in out
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
    assert out.count("no change in leaders, ISRs or racks") == 4


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
    assert tried(twin, tmp_path, capsys, steps, "--set", "num.partitions=x")[0] == 1
    assert main(["try", "--twin", str(twin), "--suggest", "--set", "num.partitions=x"]) == 1
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


def test_impossible_steps_are_refusals(twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [{"lose-broker": 77}, {"lose-rack": "zz"}, {"decommission": 77}, {"return-broker": 1}]
    report = reported(twin, tmp_path, capsys, steps)
    assert [step["refused"] for step in report["steps"]] == [1, 1, 1, 1]


def test_sizes_and_a_rate_give_bytes_and_a_time(twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {"version": 1, "brokers": [{"broker": 1, "logDirs": [{"logDir": "/d", "partitions": []}]}]}
    sizes["brokers"][0]["logDirs"][0]["partitions"] = [  # type: ignore[index]
        {"partition": "crooked-0", "size": 3_000_000, "offsetLag": 0, "isFuture": False},
        {"partition": "crooked-1", "size": 5, "offsetLag": 0, "isFuture": False},
    ]
    (tmp_path / "sizes.txt").write_text(f"Querying brokers\nReceived\n{json.dumps(sizes)}\n")
    plan = {"version": 1, "partitions": [{"topic": "crooked", "partition": 0, "replicas": [1, 2]}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    given = ("--sizes", str(tmp_path / "sizes.txt"), "--rate", "1000000")
    code, out, _ = tried(twin, tmp_path, capsys, [{"reassign": "plan.json"}], *given)
    assert code == 0
    assert "to copy: 3.0 MB, at most 3.0 MB to one broker" in out
    assert "time: at least 3 s at 1.0 MB per second and broker" in out
    (tmp_path / "sizes.txt").write_text("nothing\n")
    assert tried(twin, tmp_path, capsys, [{"reassign": "plan.json"}], *given)[0] == 1


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
    assert main(["try", "--twin", str(twin), "--suggest", "--broker-list", "1,2,99"]) == 1
    assert "not in the cluster: 1 of 3 chosen brokers, 99" in capsys.readouterr().err
    assert main(["try", "--twin", str(twin), "--suggest", "--broker-list", "1,2"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_page_escapes_every_name(twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, page, _ = tried(twin, tmp_path, capsys, [{"create-topic": {"name": HOSTILE}}], "--output", "html")
    assert code == 0
    assert page.startswith("<!doctype html>")
    assert HOSTILE not in page
    assert "&lt;b&gt;x" in page
    assert '<li class="refused">' in page


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "--twin"),
        (["--twin", "x"], "either FILE with changes or --suggest is needed"),
        (["--twin", "x", "f", "--suggest"], "either FILE with changes or --suggest is needed"),
        (["--twin", "x", "f", "--broker-list", "1"], "--broker-list is for --suggest"),
        (["--twin", "x", "--suggest", "--fail-on", "rack"], "--fail-on cannot be given beside --suggest"),
        (["--twin", "x", "--suggest", "--sizes", "f"], "--sizes cannot be given beside --suggest"),
        (["--twin", "x", "--suggest", "--rate", "1"], "--rate cannot be given beside --suggest"),
        (["--twin", "x", "--suggest", "--profile", "kip"], "--profile cannot be given beside --suggest"),
        (["--twin", "x", "--suggest", "--output", "text"], "--output cannot be given beside --suggest"),
        (["--twin", "x", "--suggest", "--broker-list", "1,1"], "distinct broker ids"),
        (["--twin", "x", "f", "--rate", "0"], "--rate"),
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
    assert main(["try", "--twin", str(tmp_path / twin_path), str(tmp_path / "changes.json")]) == 1
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
