"""Makes the chapter of one cluster in the summary, from rows of gold. Spark is not used here."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

Row = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]


def chapter(overview: Mapping[str, Any], found: Mapping[str, Rows]) -> dict[str, Any]:
    """A chapter of `klamm.pipeline.report.summary`. `rows` has the rows of one cluster, by the names in that module."""
    placement = _without(found["placement"])
    return {
        "cluster_id": overview["cluster_id"],
        "extent": dict(overview),
        "placement": {"latest": placement[-1] if placement else None, "series": placement},
        "limits": {
            "series": sorted(_without(found["headroom"]), key=lambda row: (row["scope"], row["record_offset"])),
            "holders": _listed(found["broker_limits"]),
            "refused": _listed(found["refused"]),
        },
        "under_replication": {"by_cause": _without(found["causes"]), "windows": _listed(found["windows"])},
        "reassignments": {"by_outcome": _without(found["outcomes"]), "moves": _listed(found["moves"])},
        "errors": _listed(found["errors"]),
        "latency": _listed(found["latency"]),
        "coverage": _coverage(found["coverage"]),
    }


def _listed(rows: Rows) -> Row:
    """The `total` number of rows, and the first rows."""
    return {"total": rows[0]["of"] if rows else 0, "rows": _without(rows)}


def _without(rows: Rows) -> list[Row]:
    return [{name: value for name, value in row.items() if name not in ("cluster_id", "of")} for row in rows]


def _coverage(rows: Rows) -> Row:
    """The coverage by API, with its versions in order. The totals are numbers of versions."""
    by_api = [
        _api(list(of_api))
        for _, of_api in groupby(sorted(rows, key=_in_order), key=lambda row: (row["api_key"], row["api"]))
    ]
    return {
        "versions": len(rows),
        "seen": sum(row["seen"] > 0 for row in rows),
        "failed": sum(row["failed"] > 0 for row in rows),
        "apis_seen": sum(api["seen"] > 0 for api in by_api),
        "apis": by_api,
    }


def _in_order(row: Mapping[str, Any]) -> tuple[int, str, int]:
    return row["api_key"], row["api"] or "", row["api_version"]


def _api(rows: list[Mapping[str, Any]]) -> Row:
    return {
        "api": rows[0]["api"],
        "api_key": rows[0]["api_key"],
        "seen": _sum(rows, "seen"),
        "succeeded": _sum(rows, "succeeded"),
        "failed": _sum(rows, "failed"),
        "first_seq": min((row["first_seq"] for row in rows if row["first_seq"] is not None), default=None),
        "versions": [
            {
                name: row[name]
                for name in ("api_version", "offered", "seen", "clients", "succeeded", "failed", "first_seq")
            }
            for row in rows
        ],
    }


def _sum(rows: Iterable[Mapping[str, Any]], name: str) -> int:
    return sum(row[name] or 0 for row in rows)
