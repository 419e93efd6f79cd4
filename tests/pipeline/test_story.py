"""The notebook of docs/pipeline.md runs unchanged over the story that the page tells, and each number of the report is
the one counted by hand from the story."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from klamm.pipeline import schemas
from tests.pipeline.interpreted import interpreted

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
KEEP = "import json\nPath('summary.json').write_text(json.dumps(summary))\n"
SECONDS = 600.0
MIDDLE = range(6 + 4, 6 + 4 + 3 * 4, 4)
"""The number of partitions when each of the three brokers is stopped; four more are created meanwhile."""


def run(folder: Path, *arguments: str) -> str:
    """The output of Python in a process of its own, in this folder. Spark interprets queries: it compiles no Java."""
    done = subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **interpreted(folder)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("story")
    run(folder, "-m", "tools.story_of_report", str(folder))
    return folder


@pytest.fixture(scope="module")
def notebook(story: Path) -> str:
    """The output of the page's Python code, in the folder with the story's logs."""
    first, second = BLOCKS[:2]
    return run(story, "-c", first + KEEP + second)


@pytest.fixture(scope="module")
def chapter(story: Path, notebook: str) -> dict[str, Any]:
    assert notebook
    [only] = json.loads((story / "summary.json").read_text())["chapters"]
    assert isinstance(only, dict)
    return only


def test_the_notebook_prints_what_it_says_and_leaves_a_page(story: Path, notebook: str) -> None:
    assert "'cause': 'fenced'" in notebook
    assert "|cluster_id" in notebook.replace(" ", "")
    assert re.search(r"\| +PartitionRecord\| +36\|", notebook)
    assert "What happened in the cluster" in (story / "report.html").read_text()


def test_what_there_is_at_the_end(chapter: dict[str, Any]) -> None:
    """orders 6, payments 4, invoices 4, parcels 4, returns 2, clicks 12; refunds is deleted. Four replicas were moved
    to the fourth broker, all of them from the first one; two of them are preferred leaders, and none leads yet."""
    latest = chapter["placement"]["latest"]
    counts = {name: latest[name] for name in ("brokers", "racks", "partitions", "replicas", "placeholders")}
    assert counts == {"brokers": 4, "racks": 3, "partitions": 32, "replicas": 96, "placeholders": 0}
    assert latest["rack_violations"] == 0
    assert latest["rack_cv"] == 0
    assert latest["max_over_mean"] == pytest.approx(32 / 24)
    assert latest["min_over_mean"] == pytest.approx(4 / 24)
    assert latest["preferred_leader_share"] == pytest.approx(30 / 32)


def test_how_near_the_limit_was(chapter: dict[str, Any]) -> None:
    """24 partitions of three replicas on three brokers when the limit of 34 was met; 60 at the end."""
    holders = {row["broker_id"]: row for row in chapter["limits"]["holders"]["rows"] if row["scope"] == "broker"}
    assert {broker_id: row["used"] for broker_id, row in holders.items()} == {1: 28, 2: 32, 3: 32, 4: 4}
    assert {row["limit"] for row in holders.values()} == {60}
    assert [holders[broker_id]["least_headroom"] for broker_id in (1, 2, 3)] == [34 - 24] * 3
    refused = chapter["limits"]["refused"]
    assert [row["topic_name"] for row in refused["rows"]] == ["clicks"] * 3
    assert "room for 30 of 36 replicas" in refused["rows"][0]["error_message"]


def test_when_partitions_lacked_replicas(chapter: dict[str, Any]) -> None:
    """All partitions that exist while a broker is down, and the four that are created then: they wait for the broker as
    placeholders, and then for their replica to catch up."""
    causes = {row["cause"]: row for row in chapter["under_replication"]["by_cause"]}
    assert {cause: (row["count"], row["partitions"], row["open"]) for cause, row in causes.items()} == {
        "fenced": (sum(MIDDLE), MIDDLE[-1], 0),
        "placeholder": (12, 12, 0),
        "isr": (12, 12, 0),
    }
    assert causes["fenced"]["longest_ms"] >= 45_000
    assert causes["placeholder"]["longest_ms"] >= 25_000
    assert chapter["under_replication"]["windows"]["total"] == sum(MIDDLE) + 24


def test_how_the_moves_went(chapter: dict[str, Any]) -> None:
    moves = {(row["topic"], row["partition_index"]): row for row in chapter["reassignments"]["moves"]["rows"]}
    outcomes = {key: row["outcome"] for key, row in moves.items()}
    assert outcomes == {
        ("orders", 0): "done", ("orders", 1): "done", ("orders", 2): "cancelled", ("clicks", 0): "done",
        ("clicks", 1): "done",
    }  # fmt: skip
    assert moves["orders", 0]["duration_ms"] >= 6_000 / 200 * 1000 > moves["clicks", 0]["duration_ms"]
    assert moves["orders", 2]["duration_ms"] >= 8_000
    assert moves["orders", 2]["to_replicas"] == [3, 4, 2]


def test_what_clients_got_wrong(chapter: dict[str, Any], story: Path) -> None:
    reported = {row["error_name"]: (row["count"], row["client_software_name"]) for row in chapter["errors"]["rows"]}
    assert reported == {
        "POLICY_VIOLATION": (3, "klamm"),
        "INVALID_TOPIC_EXCEPTION": (1, "confluent-kafka-python"),
        "TOPIC_ALREADY_EXISTS": (1, "confluent-kafka-python"),
        "INVALID_REPLICATION_FACTOR": (1, "confluent-kafka-python"),
        "UNKNOWN_TOPIC_OR_PARTITION": (1, "klamm"),
    }
    lines = [json.loads(line) for line in (story / "requests.jsonl").read_text().splitlines()]
    for row in chapter["errors"]["rows"]:  # The number links to the line from which it comes.
        codes = [error["error_code"] for error in lines[row["sample_seq"]]["errors"]]
        assert row["error_code"] in codes
    assert chapter["extent"]["requests"] == len(lines)
    slowest = {row["slowest_seq"]: row["max_us"] for row in chapter["latency"]["rows"]}
    assert slowest == {seq: lines[seq]["microseconds"] for seq in slowest}
    assert sum(row["requests"] for row in chapter["latency"]["rows"]) == len(lines)
    assert sum(api["seen"] for api in chapter["coverage"]["apis"]) == len(lines)


def test_the_page_names_every_table_and_every_member_of_the_report(chapter: dict[str, Any]) -> None:
    layers = {"silver": schemas.SILVER, "gold": schemas.GOLD, "live": schemas.LIVE}
    for table in (f"{layer}.{name}" for layer, names in layers.items() for name in names):
        assert f"| {table} |" in PAGE, table
    described = PAGE.partition("## The report as JSON")[2].partition("\n## ")[0]
    members = {name for part in ("extent", "placement", "limits", "reassignments") for name in chapter[part]}
    coverage = chapter["coverage"]
    for name in {*chapter, *members, *chapter["under_replication"], *coverage, *coverage["apis"][0]}:
        assert re.search(rf"[`.]{name}(?:`|\[\]|\.)", described), name
