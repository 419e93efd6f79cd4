"""The report: its statements about gold, its limits of length, and that its page is safe and has no external parts."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from klamm.pipeline import schemas
from klamm.pipeline.errors import PipelineError
from klamm.pipeline.report import render_html, summarize, write_page
from klamm.pipeline.report import summary as summary_module
from klamm.pipeline.report.chapters import left_out
from klamm.pipeline.report.page import duration
from klamm.pipeline.store import Store
from tests.pipeline.gold_rows import CLUSTER, HOSTILE, Rows, gold

VOID = frozenset({"meta", "br", "img", "link", "hr", "input"})


UNREAD: dict[str, Rows] = {
    "metadata_record": [
        {"cluster_id": CLUSTER, "record_offset": 40, "snapshot_position": 3},
        {"cluster_id": CLUSTER, "record_offset": 61, "file": "0.log", "raw": b"?", "problem": f"damaged {HOSTILE}"},
        {"cluster_id": CLUSTER, "record_offset": 62, "type": "unknown:99", "raw": b"new"},
    ],
    "request": [{"file": "r.jsonl", "line": line, "raw": "{", "problem": "half a line"} for line in (90, 7)],
}


class _Page(HTMLParser):
    """Whether every element is closed, and the values of attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attributes]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        self.text += text


def stored(spark: SparkSession, folder: Path, clusters: dict[str, dict[str, Rows]]) -> Store:
    """An output directory with these rows of gold, and one record and one request per cluster."""
    store = Store.create(folder, {})
    for name, schema in schemas.GOLD.items():
        rows = [row for tables in clusters.values() for row in tables.get(name, [])]
        store.write("gold", name, spark.createDataFrame([_row(schema, row) for row in rows], schema))
    for name, schema in schemas.BRONZE.items():
        more = UNREAD[name] if CLUSTER in clusters else []
        given = [*({"cluster_id": one, "record_offset": 60, "seq": 9} for one in clusters), *more]
        filled = [_row(schema, row) for row in given]
        spark.createDataFrame(filled, schema).write.parquet(store.path("bronze", name))
        damaged = [_row(schemas.QUARANTINE[name], row) for row in more if "problem" in row]
        store.write("quarantine", name, spark.createDataFrame(damaged, schemas.QUARANTINE[name]))
    lives = ((1, True, None), (2, True, 9), (2, True, None), (3, True, 50), (3, False, None))
    brokers = [
        {"cluster_id": CLUSTER, "broker_id": broker_id, "registered": is_registered, "valid_to_offset": end}
        for broker_id, is_registered, end in lives
    ]
    versions = schemas.BROKER_VERSION
    store.write("silver", "broker_version", spark.createDataFrame([_row(versions, row) for row in brokers], versions))
    return store


def _row(schema: Any, row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in schema.names)


@pytest.fixture(scope="module")
def summary(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report of a cluster with much content, and of twelve with little."""
    quiet: dict[str, dict[str, Rows]] = {f"quiet-{number:02}": {} for number in range(12)}
    folder = tmp_path_factory.mktemp("report")
    return summarize(spark, stored(spark, folder / "out", {**quiet, CLUSTER: gold()}))


@pytest.fixture(scope="module")
def page(summary: dict[str, Any]) -> str:
    return render_html(summary)


def test_the_summary_is_json_and_tells_most_of_who_has_most_to_tell(summary: dict[str, Any]) -> None:
    assert json.loads(json.dumps(summary)) == summary
    assert summary["clusters"]["total"] == 13
    assert len(summary["chapters"]) == summary_module.MAX_CHAPTERS
    assert [row["cluster_id"] for row in summary["clusters"]["rows"]][:2] == [CLUSTER, "quiet-00"]
    chapter = summary["chapters"][0]
    reported = {
        name: chapter["extent"][name] for name in ("records", "refused_requests", "under_replications", "errors")
    }
    assert reported == {"records": 3, "refused_requests": 1, "under_replications": 14, "errors": 3}
    assert chapter["extent"]["open_under_replications"] == 1
    assert chapter["placement"]["latest"]["record_offset"] == 13
    assert [row["record_offset"] for row in chapter["placement"]["series"]] == [10, 11, 12, 13]


def test_brokers_that_are_gone_are_not_counted(summary: dict[str, Any]) -> None:
    chapter = summary["chapters"][0]
    assert chapter["extent"]["brokers"] == 2
    assert {row["broker_id"] for row in chapter["limits"]["holders"]["rows"]} == {None, 1, 2}


def test_a_log_that_begins_with_a_snapshot_says_so(summary: dict[str, Any], page: str) -> None:
    first, second = summary["chapters"][:2]
    assert (first["extent"]["snapshot_end"], second["extent"]["snapshot_end"]) == (41, None)
    assert page.count("The log begins with a snapshot. It has nothing of what happened before offset") == 1
    assert first["left_out"][0].endswith("what happened before offset 41.")
    assert second["left_out"][0] == "The log begins at offset 60. It does not have the records before it."


@pytest.mark.parametrize(("overview", "told"), [
    ({}, []),
    ({"first_offset": 1}, []),
    ({"first_offset": 2}, ["The log begins at offset 2."]),
    ({"first_offset": 40, "snapshot_end": 41}, ["The log begins with a snapshot."]),
    ({"first_offset": None}, ["No metadata log was read:"]),
    ({"requests": 0, "first_seq": None}, ["No request log was read:"]),
    ({"first_seq": 1}, ["The request log begins at line 1."]),
    ({"missing_requests": 1234}, ["1,234 later lines are missing"]),
])  # fmt: skip
def test_a_chapter_says_what_its_logs_do_not_have(overview: dict[str, Any], told: list[str]) -> None:
    whole = {"first_offset": 0, "snapshot_end": None, "requests": 5, "first_seq": 0, "missing_requests": 0}
    sentences = left_out({**whole, **overview})
    assert len(sentences) == len(told)
    assert all(sentence.startswith(start) for sentence, start in zip(sentences, told, strict=True))


def test_the_clients_are_told_with_their_principals(summary: dict[str, Any], page: str) -> None:
    clients = summary["chapters"][0]["clients"]
    assert clients["total"] == 1
    assert {name: clients["rows"][0][name] for name in ("errors", "refused", "throttled", "first_seq")} == {
        "errors": 3, "refused": 1, "throttled": 4, "first_seq": 6,
    }  # fmt: skip
    assert summary["chapters"][1]["clients"] == {"total": 0, "rows": []}
    assert 'id="c1-clients"' in page


def test_a_watched_page_loads_itself_again(summary: dict[str, Any], page: str) -> None:
    assert "http-equiv" not in page
    assert '<meta http-equiv="refresh" content="7">' in render_html(summary, reload_seconds=7)


def test_long_lists_are_cut_within_each_cause_and_say_how_long_they_are(summary: dict[str, Any]) -> None:
    listed = summary["chapters"][0]["under_replication"]
    assert {row["cause"]: row["count"] for row in listed["by_cause"]} == {"fenced": 12, "isr": 1, "placeholder": 1}
    assert listed["windows"]["total"] == 14
    assert [row["cause"] for row in listed["windows"]["rows"]] == ["fenced"] * 10 + ["isr", "placeholder"]


def test_limits_are_told_of_the_fullest_with_the_least_headroom_there_was(summary: dict[str, Any]) -> None:
    limits = summary["chapters"][0]["limits"]
    names = ("scope", "broker_id", "used", "headroom", "least_headroom", "least_offset")
    holders = [tuple(row[name] for name in names) for row in limits["holders"]["rows"]]
    assert holders == [("cluster", None, 14, 6, 6, 12), ("broker", 2, 11, 9, 9, 12), ("broker", 1, 7, 13, 13, 12)]
    assert {row["broker_id"] for row in limits["series"] if row["scope"] == "broker"} == {2}


def test_the_page_links_numbers_to_what_they_came_from(page: str) -> None:
    reported = _Page(page).text
    for place in ("@13", "@20–40", "@33–…", "@30–50", "#7", "#8", "@32–…", "@29"):
        assert place in reported, place
    assert "and 2 more" in reported  # rows of under-replication
    assert "and 1 more" not in reported


def test_hostile_names_are_text(page: str) -> None:
    read = _Page(page)
    assert read.open == []
    assert "script" not in read.tags
    assert "img" not in read.tags
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    assert "49" not in re.findall(r"amp; (\S+)", page)
    assert HOSTILE in read.text


def test_the_page_needs_nothing_from_elsewhere(page: str) -> None:
    read = _Page(page)
    assert not {"link", "iframe", "object", "embed"} & read.tags
    links = [value for name, value in read.attributes if name in ("src", "href", "xlink:href", "srcset", "data")]
    assert links
    assert [value for value in links if not value.startswith("#")] == []
    assert not re.search(r"url\((?!#)", page)
    assert not re.search(r"@import", page)


def test_a_summary_gives_one_page(summary: dict[str, Any], page: str) -> None:
    assert render_html(summary) == page
    assert len(page) < 400_000


def test_no_cluster_at_all_is_a_page_too() -> None:
    nothing: dict[str, Any] = {"total": 0, "rows": []}
    unread = {"metadata_record": nothing, "request": nothing}
    page = render_html({"v": 1, "clusters": nothing, "quarantine": unread, "chapters": []})
    assert "What happened in 0 clusters" in page
    assert "could not be read" not in page


def test_what_could_not_be_read_is_told_with_its_place(summary: dict[str, Any], page: str) -> None:
    unread = summary["quarantine"]
    assert (unread["metadata_record"]["total"], unread["request"]["total"]) == (1, 2)
    assert [row["line"] for row in unread["request"]["rows"]] == [7, 90]
    extent = summary["chapters"][0]["extent"]
    assert (extent["records"], extent["unknown_records"], extent["quarantined_records"]) == (3, 1, 1)
    reported = _Page(page).text
    for text in ("1 record of a type or version", "1 place that could not be read", "@61", "damaged", "byte 90"):
        assert text in reported, text


@pytest.mark.parametrize(
    ("milliseconds", "told"),
    [
        (None, "–"), (0, "0 ms"), (999, "999 ms"), (1000, "1.0 s"), (59_900, "59.9 s"), (60_000, "1 min 0 s"),
        (3_599_999, "59 min 59 s"), (3_600_000, "1 h 0 min"),
        (86_400_000 * 3 + 3_600_000, "3 d 1 h"), (-1500, "-1.5 s"),
    ],
)  # fmt: skip
def test_durations_have_two_units_at_most(milliseconds: int | None, told: str) -> None:
    assert duration(milliseconds) == told


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_page(tmp_path / "new" / "page.html", "whole")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["page.html"]
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match=r"cannot write .*page\.html: (Not a directory|File exists)"):
        write_page(tmp_path / "file" / "page.html", "whole")
