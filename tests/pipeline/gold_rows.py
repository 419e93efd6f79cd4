"""Rows of gold for tests: one cluster with something in every table. Names chosen by clients contain hostile text."""

from datetime import UTC, datetime, timedelta
from typing import Any

from klamm.pipeline import schemas

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
HOSTILE = '<script>alert("1")</script>"><img src=x onerror=alert(2)> $\\frac{1}{2}$ &amp; {{ 7 * 7 }}'
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
BEGAN = datetime(2026, 11, 23, 9, tzinfo=UTC)
Row = tuple[Any, ...]
Rows = list[dict[str, Any]]


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def gold(cluster_id: str = CLUSTER, name: str = HOSTILE) -> dict[str, Rows]:
    """Tables of gold for one cluster, with one name in place of all names that clients choose."""
    partitions = ((TOPIC_ID, index, name) for index in range(1_000))
    tables: dict[str, list[Row]] = {
        "placement_quality": [
            (10 + i, at(i), 3, 3, 4 + i, 12, i % 2, 0.1 * i, 0.2, None, 1.2, 0.8, i, 0.75) for i in range(4)
        ],
        "limit_headroom": [
            (10 + i, at(i), scope, broker_id, used + i, 20, 20 - used - i)
            for i in range(3)
            for scope, broker_id, used in (("broker", 1, 5), ("broker", 2, 9), ("broker", 3, 2), ("cluster", None, 12))
        ],
        "under_replication": [
            (*next(partitions), 20 + i, 40, at(i), at(i + 60), "fenced", 60_000, 3, 2, [3]) for i in range(12)
        ]
        + [
            (*next(partitions), 32, 41, at(12), at(72), "isr", 60_000, 3, 2, [3]),
            (*next(partitions), 33, None, at(13), None, "placeholder", None, 3, 2, [-1]),
        ],
        "reassignment": [
            (TOPIC_ID, 0, name, 30, 50, at(1), at(5), "done", [1, 2], [3, 2], 2, 4_000),
            (TOPIC_ID, 1, name, 31, 51, at(1), at(5), "cancelled", [1, 2], [3, 2], 2, 4_000),
            (TOPIC_ID, 2, name, 32, None, at(1), None, "open", [1, 2], [3, 2], 1, None),
        ],
        "refused_request": [(7, at(3), 29, "CreateTopics", name, name, name, name, None, name)],
        "error_taxonomy": [
            ("CreateTopics", 7, name, name, "1.0", name, 44, "POLICY_VIOLATION", 3, at(3), at(4), 7, name)
        ],
        "client": [(name, name, "1.0", name, 12, 2, 3, 1, 4, 800.0, 1500.0, 2600, at(3), at(4), 6, 8)],
        "latency": [("CreateTopics", 7, name, name, name, 12, 800.0, 900.0, 1500.0, 2500.0, 2600, 8)],
        "coverage": [
            ("CreateTopics", 19, 5, None, 0, 0, 0, 0, None),
            ("CreateTopics", 19, 6, True, 2, 1, 2, 0, 6),
            ("CreateTopics", 19, 7, True, 3, 1, 2, 1, 6),
        ],
    }  # fmt: skip
    return {
        table: [dict(zip(schemas.GOLD[table].names, (cluster_id, *row), strict=True)) for row in rows]
        for table, rows in tables.items()
    }
