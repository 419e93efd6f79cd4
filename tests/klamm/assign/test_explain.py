"""`klamm assign --explain`: its tables and sentences are correct for any input line, terminal and encoding."""

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from klamm.assign.explain import MOST_SHOWN, WIDTH_WITHOUT_TERMINAL, Explainer
from klamm.assign.verdict import distinct_per_row
from tests.klamm.assign.test_lines import LINES, ask, asked
from tests.klamm.assign.test_process import LINE, run

BARE = [[1, None], [2, None], [3, None]]
KIP_578 = {"brokers": BARE, "counts": {"1": 8, "2": 6, "3": 9}, "maxBrokerPartitions": 10, "rf": 3}
"""The first example of KIP-578."""


def explained(line: object, encoding: str = "utf-8") -> str:
    """The explanation of a line, without colours."""
    return "".join(Explainer(terminal=False, encoding=encoding).explain(1, json.dumps(line).encode()))


def in_one_line(text: str) -> str:
    return " ".join(text.split())


def rows_of(text: str) -> list[list[str]]:
    """Broker, rack, live, before, placed, after, … of each row of the first table."""
    return [line.split() for line in text.partition("• ")[0].splitlines() if re.match(r" *\d", line)]


def test_a_placement_is_a_table_and_a_verdict() -> None:
    assert (
        explained({**KIP_578, "partitions": 1, "fixedStartIndex": 0})
        == """\
Line 1: 1 partition with replication factor 3, round-robin, on 3 brokers without racks
broker  rack  live  before  placed  after    limit  ░ before █ placed, of 10  leads
───────────────────────────────────────────────────────────────────────────────────
     1  -     yes        8       1      9       10  ░░░░░░░░░░░░░░░░░░░███        1
     2  -     yes        6       1      7       10  ░░░░░░░░░░░░░░███             0
     3  -     yes        9       1     10  full 10  ░░░░░░░░░░░░░░░░░░░░░░██      0

• Kafka's round robin, unchanged: no broker exceeds its limit of 10.
• Replicas on a live broker: 7 to 10; 7 to 9 on brokers below the limit.
• Partitions led by a live broker: 0 to 1.
"""
    )


@pytest.mark.parametrize(("line", "said"), [
    (asked(), "Kafka's round robin, unchanged: brokers have no limit."),
    (asked(algorithm="striped"), "Kafka's striped placement, unchanged: brokers have no limit."),
    (asked(algorithm="striped", maxBrokerPartitions=9),
     "Kafka's striped placement, unchanged: no broker exceeds its limit of 9"),
    (asked(rf=1, partitions=3, counts={"2": 9}, maxBrokerPartitions=9),
     "The limit of 9 replicas changed the placement: Kafka's round robin would exceed it on broker 2."),
    (asked(rf=1, partitions=18, counts={"1": 4, "2": 7}, maxBrokerPartitions=10),
     "would exceed it on broker 2. • Replicas on a live broker: 9 to 10; 9 on brokers below the limit."),
    (asked(rf=1, partitions=9, counts={"1": 4, "2": 7}, maxBrokerPartitions=10, live=[1, 2]),
     "Replicas on a live broker: 10; all are at the limit."),
    (asked(clusterPartitions=3, maxPartitions=9), "Partitions in the cluster: 7 of at most 9."),
    (asked(rf=3, live=[1, 2], underReplicated=True),
     "Placeholders: with 2 brokers for replication factor 3, 1 replica of each partition waits for a broker."),
    (asked(rf=3, live=[2], underReplicated=True), "with 1 broker for replication factor 3, 2 replicas of each"),
    (asked(rf=4), "Refused, INVALID_REPLICATION_FACTOR: Replication factor: 4 larger than available brokers: 3."),
    (asked(partitions=0), "Refused, INVALID_PARTITIONS: Number of partitions must be larger than 0."),
    (asked(brokers=[[1, "a"], [2, None]]), "Refused, MIXED_RACKS: Not all brokers"),
    ({**KIP_578, "partitions": 2}, "At most 1 partition with replication factor 3 would fit."),
    (asked(clusterPartitions=7, maxPartitions=9), "At most 2 partitions with replication factor 2 would fit."),
    (asked(clusterPartitions=9, maxPartitions=8), "At most 0 partitions with replication factor 2 would fit."),
    (asked(brokers=[[1, "a"], [2, "a"], [3, "b"]], rf=3), "Sum of the racks of each partition: 8 of at most 8."),
    (asked(brokers=[[1, "a"], [2, "a"], [3, "b"]], rf=2), "Sum of the racks of each partition: 8 of at most 8."),
    (asked(brokers=[[1, "a"], [2, "a"], [3, "b"]], counts={"3": 8}, maxBrokerPartitions=9),
     "Sum of the racks of each partition: 5 of at most 5."),
    (asked(brokers=[[1, "a"], [2, "b"], [3, "c", True]], partitions=7, rf=3, algorithm="striped"),
     "Sum of the racks of each partition: 21 of at most 21."),
    (asked(brokers=[]), "on 0 brokers without racks"),
    (asked(partitions="4"), 'Line 1: INVALID_REQUEST: partitions is "4"; a whole number'),
])  # fmt: skip
def test_the_verdict_says_what_decided(line: object, said: str) -> None:
    assert said in in_one_line(explained(line))


def test_a_refusal_has_a_table_only_if_brokers_hold_replicas_or_have_a_limit() -> None:
    refused = asked(brokers=[[1, "a"], [2, "b"]], rf=3)
    assert rows_of(explained(refused)) == []
    assert rows_of(explained({**refused, "counts": {"1": 5}})) == [
        ["1", "a", "yes", "5", "-"],
        ["2", "b", "yes", "0", "-"],
    ]
    assert len(rows_of(explained({**refused, "maxBrokerPartitions": 9}))) == 2


@pytest.mark.parametrize("algorithm", ["round-robin", "striped"])
def test_what_fits_is_told_to_fit_also_where_it_was_drawn(algorithm: str) -> None:
    line = asked(brokers=[[broker_id, None] for broker_id in range(100)], algorithm=algorithm, partitions=30)
    assert ", unchanged: no broker exceeds its limit of 29." in explained({**line, "maxBrokerPartitions": 29})


def test_calls_are_explained_one_by_one_each_from_where_the_one_before_ended() -> None:
    call = {"numPartitions": 2, "numReplicas": 3}
    explainer = Explainer(terminal=False, encoding="utf-8")
    line = json.dumps({"brokers": BARE, "calls": [call, call]}).encode()
    first, second = explainer.explain(7, line)
    assert first.startswith("Line 7, call 1: 2 partitions with replication factor 3, striped, on 3 brokers")
    assert second.startswith("Line 7, call 2: ")
    assert [row[3:6] for row in rows_of(first)] == [["0", "2", "2"]] * 3
    assert [row[3:6] for row in rows_of(second)] == [["2", "2", "4"]] * 3


def test_placeholders_are_on_no_broker() -> None:
    text = explained({"brokers": [*BARE, [4, None, True]], "underReplicated": True, "partitions": 6, "rf": 5})
    assert [row[4] for row in rows_of(text)] == ["6", "6", "6", "0"]


def test_of_many_brokers_the_most_and_the_least_loaded_are_shown() -> None:
    brokers = [[broker_id, None] for broker_id in range(MOST_SHOWN + 1)]
    counts = {str(broker_id): 100 * broker_id for broker_id in range(MOST_SHOWN + 1)}
    text = explained({"brokers": brokers, "counts": counts, "partitions": 1, "rf": 1})
    shown = [int(row[0]) for row in rows_of(text)]
    assert shown == [*range(40, 10, -1), *range(9, -1, -1)]
    assert "Left out: 1 broker in between." in text
    every = explained({"brokers": brokers[1:], "partitions": 1, "rf": 1})
    assert [int(row[0]) for row in rows_of(every)] == list(range(1, MOST_SHOWN + 1))
    assert "Left out" not in every


def test_what_was_placed_is_seen_however_little_it_is() -> None:
    text = explained({"brokers": BARE, "counts": {"1": 10**6, "2": 10**6, "3": 10**6}, "partitions": 1, "rf": 3})
    assert text.count("█") == 3 + 1  # also in the heading


def test_a_limit_far_away_does_not_flatten_the_bars() -> None:
    assert "placed, of 4 " in explained({"brokers": BARE, "maxBrokerPartitions": 10**9, "partitions": 4, "rf": 3})
    assert "placed, of 16 " in explained({"brokers": BARE, "maxBrokerPartitions": 16, "partitions": 4, "rf": 3})


def test_racks_are_shown_and_never_interpreted() -> None:
    text = explained({"brokers": [[1, "[red]x"], [2, "\x1b[2J\ud800\n"], [3, "r" * 300]], "partitions": 1, "rf": 1})
    assert "[red]x" in text
    assert "\\x1b[2J\\ud800\\n" in text
    assert "\x1b" not in text
    assert "r" * 24 + " " in text


def test_an_encoding_without_blocks_gets_plain_characters() -> None:
    text = explained(asked(brokers=[[1, "ü"], [2, "b"]]), encoding="ascii")
    assert "- Kafka's round robin, unchanged" in text
    assert "####" in text
    assert text.replace("ü", "u").isascii()


@pytest.mark.parametrize(("variables", "coloured"), [
    ({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False),
])  # fmt: skip
def test_a_terminal_has_colours_unless_they_are_not_wanted(
    variables: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", "COLUMNS": "100", **variables}.items():
        monkeypatch.setenv(name, value)
    text = "".join(Explainer(terminal=True, encoding="utf-8").explain(1, json.dumps(asked()).encode()))
    assert bool(re.search(r"\x1b\[3\dm", text)) is coloured


def test_a_narrow_terminal_keeps_every_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "64")
    monkeypatch.setenv("TERM", "xterm")
    line = asked(brokers=[[123456, "a long name"], [2, "b"]], counts={"123456": 87654}, maxBrokerPartitions=987654321)
    coloured = "".join(Explainer(terminal=True, encoding="utf-8").explain(1, json.dumps(line).encode()))
    text = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert max(map(cell_len, text.splitlines())) <= 64
    for number in ("123456", "87654", "87658", "987654321"):
        assert number in text


@given(LINES)
@example(asked(counts={"1": 2**63 - 1})).via("counts at the end of what 64 bits hold")
@example(asked(brokers=[], partitions=0, algorithm="striped"))
@example({"brokers": [[1, "a"]], "calls": [{"numPartitions": 0, "numReplicas": 1}]}).via(
    "nothing placed, no row to look at"
)
def test_any_request_is_explained_in_lines_that_fit(line: dict[str, Any]) -> None:
    text = explained(line)
    assert text.startswith("Line 1") or line.get("calls") == []
    assert all(cell_len(shown) <= WIDTH_WITHOUT_TERMINAL and shown.isprintable() for shown in text.splitlines())
    assert all(not shown.endswith(" ") for shown in text.splitlines())


@given(
    st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=4),
    st.integers(1, 10),
    st.integers(1, 5),
    st.integers(0, 30),
    st.sampled_from(["round-robin", "striped"]),
)
def test_what_fits_is_placed_and_one_more_is_not(
    others: list[tuple[int, bool]], limit: int, rf: int, cluster_partitions: int, algorithm: str
) -> None:
    brokers = [(0, False), *others]  # at least one broker is live
    # In stripes, fenced brokers come after the live ones.
    usable = sum(algorithm == "striped" or not fenced for _, fenced in brokers)
    line = {
        "brokers": [[broker_id, None, fenced] for broker_id, (_, fenced) in enumerate(brokers)],
        "counts": {str(broker_id): count for broker_id, (count, _) in enumerate(brokers)},
        "maxBrokerPartitions": limit,
        "rf": min(rf, usable),
        "algorithm": algorithm,
        "clusterPartitions": cluster_partitions,
        "maxPartitions": 35,
    }
    reported = explained({**line, "partitions": 100})
    (fitting,) = map(int, re.findall(r"At most (\d+) partitions? with replication factor \d+ would fit\.", reported))
    assert fitting == 0 or "assignment" in ask({**line, "partitions": fitting})
    assert ask({**line, "partitions": fitting + 1})["error"]["reason"] == "POLICY_VIOLATION"


@given(st.integers(1, 5).flatmap(lambda width: st.lists(st.lists(st.integers(0, 4), min_size=width, max_size=width))))
def test_distinct_numbers_of_a_row_are_those_of_a_set(rows: list[list[int]]) -> None:
    numbers = np.array(rows, dtype=np.int64).reshape(len(rows), -1) if rows else np.empty((0, 1), dtype=np.int64)
    assert distinct_per_row(numbers).tolist() == [len(set(row)) for row in rows]


def test_the_process_explains_its_lines_and_goes_on_after_a_wrong_one() -> None:
    code, stdout, stderr = run("--explain", text=f"{LINE}[]\n{LINE}")
    assert (code, stderr) == (0, "")
    first, wrong, third = stdout.replace("\n\nLine", "\n\0Line").split("\0")
    assert first.startswith("Line 1: 1 partition with replication factor 2, round-robin, on 3 brokers in 3 racks\n")
    assert wrong.startswith("Line 2: INVALID_REQUEST: the line is a list of 0; a JSON object")
    assert wrong.count("\n") == 1
    assert third.rstrip() == first.replace("Line 1", "Line 3").rstrip()
