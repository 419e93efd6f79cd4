"""The table and the picture of a summary; the picture is the same for the same rows."""

from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from klamm.pipeline.whatif.picture import bucket_name, draw_summary, summary_table


def _row(policy: str, begin: float | None, end: float | None, placed: float = 1.0) -> dict[str, Any]:
    kept = {"within_limit": 0.25, "racks_kept": 1.0, "complete": 1.0, "replica_spread": 2.5, "leader_spread": 1.0}
    return {
        "headroom_from": begin,
        "headroom_to": end,
        "policy": policy,
        "shapes": 1_200,
        "placed": placed,
        **(kept if placed else dict.fromkeys(kept)),
        "moves": 1_234.56 if placed else None,
    }


ROWS = [_row("striped", None, 0.0, 0.0), _row("rebalance", None, 0.0), _row("striped", 0.05, 0.1)]


def test_buckets_have_names() -> None:
    edges = [(None, 0.0), (0.0, 0.05), (0.5, None), (None, None)]
    names = [bucket_name({"headroom_from": begin, "headroom_to": end}) for begin, end in edges]
    assert names == ["too little", "0% to 5%", "50% or more", "no limit"]


def test_the_table_has_a_line_for_each_row_and_nothing_where_nothing_was_placed() -> None:
    out = StringIO()
    Console(file=out, width=200).print(summary_table(ROWS))
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.getvalue().splitlines() if "│" in line]
    assert lines == [
        ["too little", "striped", "1,200", "0.0%", "", "", "", "", "", ""],
        ["too little", "rebalance", "1,200", "100.0%", "25.0%", "100.0%", "100.0%", "2.5", "1.0", "1,234.6"],
        ["5% to 10%", "striped", "1,200", "100.0%", "25.0%", "100.0%", "100.0%", "2.5", "1.0", "1,234.6"],
    ]


def test_the_picture_names_policies_and_buckets_and_is_the_same_again(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        draw_summary(ROWS, tmp_path / name)
    drawn = (tmp_path / "one.svg").read_text()
    assert (tmp_path / "two.svg").read_text() == drawn
    assert all(f"<!-- {text} -->" in drawn for text in ("striped", "rebalance", "too little", "within the limit"))
