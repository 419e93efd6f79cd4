"""The reports of `klamm try`: what they are of, affected partitions, bytes and times, verdicts, moves of a broker."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import klamm
from klamm.controller.log.epoch import encode_leader_change
from klamm.controller.log.past import Past, read_past
from klamm.controller.log.quorum import Quorum
from klamm.protocol.record_batch import decode_batch, encode_batch
from klamm.protocol.records.control import SnapshotHeaderRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.twin.affected import Named, led_by
from klamm.twin.cluster_counts import ClusterCounts
from klamm.twin.report import FAILURES, Report
from klamm.twin.trial import CopyEnd, StepResult, Trial
from klamm.twin.trial_html import as_html
from klamm.twin.trial_json import as_json
from klamm.twin.trial_text import changed_lines, head_lines
from klamm.twin.try_command import decode_try_options
from tests.klamm.twin.tried import reported, tried

HOSTILE = "<b>x</b>"


def test_the_partitions_that_a_step_affects_are_named(
    twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that were affected before the step are not."""
    steps = [{"lose-broker": 1}, {"lose-broker": 4}]
    crooked = [f"crooked-{index}" for index in range(6)]
    first, second = reported(twin, tmp_path, capsys, steps)["steps"]
    of_first = first["newly_affected"]["under_replicated"]
    assert of_first["partitions"][:6] == crooked
    assert (len(of_first["partitions"]), of_first["more"]) == (first["after"]["under_replicated"], 0)
    assert "offline" not in first["newly_affected"]
    assert second["newly_affected"]["offline"] == {"partitions": crooked, "more": 0}
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
    assert of_rack["partitions"][:6] == [f"crooked-{index}" for index in range(6)]
    assert returned["leader_lost_meanwhile"] is None
    assert of_rack["more"] == 0
    names = f"{', '.join(of_rack['partitions'][:5])} and {len(of_rack['partitions']) - 5} more"
    line = f"without a leader for up to 9 s: {after_3[1] + after_3[4]} partitions ({names})"
    for form in ("text", "html"):
        _, out, _ = tried(twin, tmp_path, capsys, steps, "--output", form)
        assert line in out
        assert out.count("without a leader for up to") == 2


async def test_partitions_that_were_added_are_named_by_their_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have another range of rows, because another topic was made between."""
    async with klamm.Cluster(brokers=1) as cluster, klamm.AdminClient(cluster.bootstrap_servers) as admin:
        await admin.create_topics([klamm.NewTopic("t", 1), klamm.NewTopic("u", 1)])
        await admin.create_partitions([klamm.NewPartitions("t", 4)])
        monkeypatch.setattr("klamm.twin.affected.MOST_NAMES", 5)
        assert led_by(cluster._up.image, [1]) == Named(("t-0", "t-1", "t-2", "t-3", "u-0"), 0)
        await admin.create_partitions([klamm.NewPartitions("u", 3)])
        assert led_by(cluster._up.image, [1, 7]) == Named(("t-0", "t-1", "t-2", "t-3", "u-0"), 2)
        assert led_by(cluster._up.image, [7]) == Named((), 0)


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
    named = as_json(Report(trial))["steps"][0]["affected_meanwhile"]
    assert named == {"under_replicated": {"partitions": ["t-1", "t-2\x1b"], "more": 5}}
    assert "and 7 meanwhile (t-1, t-2\\x1b and 5 more)" in as_html(Report(trial))
    step.during = counts(1)  # that is no peak
    assert list(changed_lines(trial, 1)) == ["under-replicated: 0 -> 1 (u-0)"]


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


def test_impossible_steps_are_refusals(twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [{"return-broker": 1}, {"lose-rack": "a"}, {"lose-rack": "a"}, {"decommission": 5}, {"decommission": 5}]
    report = reported(twin, tmp_path, capsys, steps)
    assert [step["refused"] for step in report["steps"]] == [1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"lose-broker": 77}, "step 2: lose broker 77: there is no broker 77 (brokers: 1, 2, 3, 4, 5, 6)"),
        ({"return-broker": 0}, "step 2: return broker 0: there is no broker 0 (brokers: 1, 2, 3, 4, 5, 6)"),
        ({"decommission": 7}, "step 2: decommission broker 7: there is no broker 7 (brokers: 1, 2, 3, 4, 5, 6)"),
        ({"lose-rack": "A"}, "step 2: lose rack A: no broker is in rack 'A' (racks: a, b, c); did you mean 'a'?"),
    ],
)
def test_brokers_and_racks_that_the_copy_lacks_are_refused_before_any_step(
    twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], step: Any, reason: str
) -> None:
    steps = [{"lose-broker": 1}, step]
    assert tried(twin, tmp_path, capsys, steps, "--fail-on", "refused") == (2, "", f"klamm try: {reason}\n")


def test_the_report_says_what_it_is_of(twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same copy gives the same report."""
    steps = [{"lose-broker": 1}]
    report = reported(twin, tmp_path, capsys, steps, "--profile", "kafka")
    copy, snapshot = report["copy"], read_past(twin).snapshot
    assert snapshot is not None
    header = next(iter(decode_batch(snapshot.data, 0).contents))
    assert isinstance(header, SnapshotHeaderRecord)
    assert (copy["path"], copy["end_offset"], report["profile"]) == (str(twin), snapshot.id.end_offset, "kafka")
    assert datetime.fromisoformat(copy["last_record_time"]).timestamp() == header.last_contained_log_timestamp // 1000
    _, out, _ = tried(twin, tmp_path, capsys, steps)
    line = f"metadata in {twin}: up to offset {copy['end_offset']}, last record of {copy['last_record_time']}"
    assert out.splitlines()[1:3] == [line, "profile kip"]
    assert tried(twin, tmp_path, capsys, steps)[1] == out
    assert line in tried(twin, tmp_path, capsys, steps, "--output", "html")[1]


def test_the_end_of_a_copy_is_that_of_its_last_batch() -> None:
    batches = [encode_leader_change(0, 1, 5_000), encode_batch(1, 1, 7_000, [TopicRecord(name="t")] * 3)]
    past = Past(None, batches, 1, Quorum(), None)
    assert (past.end_offset, past.last_timestamp_ms) == (4, 7_000)
    trial = Trial("c", ClusterCounts((), 0, 0, 0, 0, 0, 0), [], CopyEnd("x", 4, 7_000))
    assert list(head_lines(trial))[1] == "metadata in x: up to offset 4, last record of 1970-01-01T00:00:07Z"
    empty = Past(None, [], 1, Quorum(), None)
    assert (empty.end_offset, empty.last_timestamp_ms) == (0, None)


def test_the_verdict_is_in_every_report(twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*options: str) -> str:
        return tried(twin, tmp_path, capsys, [{"lose-rack": "a"}], "--fail-on", "under-min-isr,rack", *options)[1]

    line = f"failed: under-min-isr: {FAILURES['under-min-isr'][0]}"
    assert said().splitlines()[-1] == line
    assert line in said("--output", "html")
    assert json.loads(said("--output", "json"))["verdict"] == {
        "fail_on": ["under-min-isr", "rack"],
        "failed": [{"condition": "under-min-isr", "reason": FAILURES["under-min-isr"][0]}],
        "note": None,
    }
    assert reported(twin, tmp_path, capsys, [{"lose-rack": "a"}])["verdict"]["failed"] == []
    _, out, _ = tried(twin, tmp_path, capsys, [{"lose-rack": "a"}], "--fail-on", "limit")
    assert out.splitlines()[-2] == "passed: none of limit"
    assert out.splitlines()[-1].startswith("warning: limit: the twin has neither")


def test_a_misspelt_config_of_brokers_is_named(twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configs = {"max.broker.partitons": 40, "listener.name.x.y": 1, "max.broker.partitions": 99}
    code, out, _ = tried(twin, tmp_path, capsys, [{"set-configs": {"configs": configs}}])
    meant = "did you mean 'max.broker.partitions'?"
    assert code == 0
    assert out.count("warning: ") == 1
    assert f"  warning: max.broker.partitons is no config of brokers and has no effect; {meant}\n" in out


def test_a_decommissioned_broker_moves_its_own_replicas_alone(
    twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also while others are down, whose replicas stay; the new replicas are in racks that their partitions lack."""
    steps = [{"lose-rack": "b"}, {"decommission": 3}]
    report = reported(twin, tmp_path, capsys, steps)
    held = {one["broker_id"]: one["replicas"] for one in report["before"]["brokers"]}
    lost, step = report["steps"]
    assert (step["refused"], step["unfinished_reassignments"], step["copied_replicas"]) == (0, 0, held[3])
    left = {one["broker_id"]: one["replicas"] for one in step["after"]["brokers"]}
    assert (left[2], left[5]) == (held[2], held[5])
    assert 3 not in left
    assert lost["done"] == ["crashed: brokers 2, 5"]
    assert step["done"] == ["removed: broker 3"]
    (step,) = reported(twin, tmp_path, capsys, [{"decommission": 3}])["steps"]
    assert step["after"]["few_racks"] == report["before"]["few_racks"]
    assert step["copied_replicas"] == held[3]


def test_a_broker_whose_replicas_fit_nowhere_stays(
    twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [{"decommission": 5}]
    (step,) = reported(twin, tmp_path, capsys, steps, "--set", "max.broker.partitions=1")["steps"]
    assert (step["refusals"][0]["code"], step["copied_replicas"]) == ("CANNOT_PLACE", 0)
    assert [one["broker_id"] for one in step["after"]["brokers"]] == [1, 2, 3, 4, 5, 6]


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
    assert "unknown" not in out
    assert "between racks: 3.0 MB" in out
    plan["partitions"].append({"topic": "crooked", "partition": 2, "replicas": [2, 3]})  # type: ignore[attr-defined]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    for form in ("text", "html"):
        _, out, _ = tried(twin, tmp_path, capsys, [{"reassign": "plan.json"}], *given, "--output", form)
        assert "warning: sizes of 2 of 3 replicas are unknown, and count as 0 B" in out
    report = reported(twin, tmp_path, capsys, [{"reassign": "plan.json"}], "--sizes", given[1], "--rate", "2MB/s")
    assert report["to_copy"] == {
        "replicas": 3,
        "replicas_of_unknown_size": 2,
        "bytes": 3_000_000,
        "bytes_between_racks": 3_000_000,
        "most_bytes_to_one_broker": 3_000_000,
        "bytes_per_second": 2_000_000,
        "least_seconds": 1.5,
    }
    assert report["received_bytes"] == {"2": 3_000_000, "3": 0}
    assert sum(report["sent_bytes"].values()) == 3_000_000
    assert set(report["sent_bytes"]) <= {"1", "4"}
    (tmp_path / "sizes.txt").write_text("nothing\n")
    assert tried(twin, tmp_path, capsys, [{"reassign": "plan.json"}], *given)[0] == 2


def test_a_rate_without_sizes_gives_no_time_and_says_why(
    twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "time: unknown, because the copy has no sizes of replicas: give them with --sizes FILE"
    for form in ("text", "html"):
        assert line in tried(twin, tmp_path, capsys, [{"decommission": 5}], "--rate", "1M", "--output", form)[1]
    assert line not in tried(twin, tmp_path, capsys, [{"decommission": 5}])[1]
    found = reported(twin, tmp_path, capsys, [{"decommission": 5}], "--rate", "1M")["to_copy"]
    assert (found["bytes"], found["replicas_of_unknown_size"], found["least_seconds"]) == (None, None, None)
    assert found["replicas"] > 0


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1", 1),
        ("50MB", 50_000_000),
        ("1.5k", 1_500),
        ("2GB/s", 2 * 10**9),
        ("7B/s", 7),
        ("1T", 10**12),
        ("3kB", 3_000),
    ],
)
def test_rates_have_units(text: str, rate: int) -> None:
    assert decode_try_options(["--twin", "x", "f", "--rate", text]).rate == rate


def test_the_page_escapes_every_name(twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, page, _ = tried(twin, tmp_path, capsys, [{"create-topic": {"name": HOSTILE}}], "--output", "html")
    assert code == 0
    assert page.startswith("<!doctype html>")
    assert HOSTILE not in page
    assert "&lt;b&gt;x" in page
    assert '<li class="refused">' in page
