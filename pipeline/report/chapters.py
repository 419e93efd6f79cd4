"""Makes the chapter of one cluster in the summary, from rows of gold. Spark is not used here."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

Row = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]
_FIRST_OFFSET = 1
"""A log that has its beginning begins at 0 or, because the first record has no state, at 1."""


def chapter(overview: Mapping[str, Any], found: Mapping[str, Rows]) -> dict[str, Any]:
    """A chapter of `klamm.pipeline.report.summary`. `rows` has the rows of one cluster, by the names in that module."""
    placement = _without(found["placement"])
    return {
        "cluster_id": overview["cluster_id"],
        "extent": dict(overview),
        "left_out": left_out(overview),
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
        "clients": _listed(found["clients"]),
        "coverage": _coverage(found["coverage"]),
    }


def left_out(overview: Mapping[str, Any]) -> list[str]:
    """What the logs of a cluster do not have, so that the report does not have it either: one sentence for each."""
    first, snapshot_end, first_seq = (overview[name] for name in ("first_offset", "snapshot_end", "first_seq"))
    told = []
    if first is None:
        told.append("No metadata log was read: there are no partitions, brokers and reassignments.")
    elif snapshot_end is not None:
        told.append(f"The log begins with a snapshot. It has nothing of what happened before offset {snapshot_end}.")
    elif first > _FIRST_OFFSET:
        told.append(f"The log begins at offset {first}. It does not have the records before it.")
    if not overview["requests"]:
        told.append("No request log was read: there are no errors, refusals, latencies and clients.")
    elif first_seq:
        told.append(f"The request log begins at line {first_seq}. It does not have the lines before it.")
    if overview["missing_requests"]:
        told.append(f"{overview['missing_requests']:,} later lines are missing in the request log.")
    return told


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
