"""Round robin compared with recorded results of Apache Kafka's AdminUtils (tests/golden/placement/)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from klamm.assignment import CannotPlace, ClusterView, JavaRandom, place_round_robin, rack_alternated_order

GOLDEN = Path(__file__).parent.parent / "golden" / "placement"
REASON_OF = {
    "org.apache.kafka.common.errors.InvalidPartitionsException": "INVALID_PARTITIONS",
    "org.apache.kafka.common.errors.InvalidReplicationFactorException": "INVALID_REPLICATION_FACTOR",
    "org.apache.kafka.server.common.AdminOperationException": "MIXED_RACKS",
}


def cases(name: str) -> list[Any]:
    with (GOLDEN / name).open(encoding="utf-8") as lines:
        return [pytest.param(json.loads(line), id=f"line-{number}") for number, line in enumerate(lines, start=1)]


def view_of(case: dict[str, Any]) -> ClusterView:
    return ClusterView(
        np.array([broker_id for broker_id, _ in case["brokers"]], dtype=np.int32),
        tuple(rack for _, rack in case["brokers"]),
    )


def rows_of(case: dict[str, Any]) -> list[list[int]]:
    first = max(0, case["startPartitionId"])
    assert len(case["assignment"]) == case["partitions"]
    return [case["assignment"][str(first + row)] for row in range(case["partitions"])]


@pytest.mark.parametrize("case", cases("admin_utils.jsonl"))
def test_round_robin_places_and_refuses_as_admin_utils_did(case: dict[str, Any]) -> None:
    view, fixed = view_of(case), case["fixedStartIndex"]

    def place() -> np.ndarray[Any, Any]:
        return place_round_robin(view, case["partitions"], case["rf"], fixed, fixed, case["startPartitionId"])

    if "error" in case:
        with pytest.raises(CannotPlace) as refused:
            place()
        assert (refused.value.reason.name, refused.value.message) == (
            REASON_OF[case["error"]["class"]],
            case["error"]["message"],
        )
    else:
        placed = place()
        assert placed.dtype == np.int32
        assert placed.tolist() == rows_of(case)


def test_the_golden_file_has_all_cases_and_all_reasons() -> None:
    found = [case.values[0] for case in cases("admin_utils.jsonl")]
    assert len(found) == 400
    assert {REASON_OF[case["error"]["class"]] for case in found if "error" in case} == set(REASON_OF.values())
    assert sum("rackAlternated" in case for case in found) > 100


@pytest.mark.parametrize("case", [case for case in cases("admin_utils.jsonl") if "rackAlternated" in case.values[0]])
def test_brokers_alternate_racks_as_admin_utils_did(case: dict[str, Any]) -> None:
    view = view_of(case)
    order, _ = rack_alternated_order(view)
    assert view.broker_ids[order].tolist() == case["rackAlternated"]


@pytest.mark.parametrize("case", cases("admin_utils-seeded.jsonl"))
def test_javas_random_start_and_shift_place_as_admin_utils_did(case: dict[str, Any]) -> None:
    """Kafka draws exactly two numbers below n: the start, then the shift."""
    view, source = view_of(case), JavaRandom(case["seed"])
    start, shift = source.next_int(len(view)), source.next_int(len(view))
    placed = place_round_robin(view, case["partitions"], case["rf"], start, shift, case["startPartitionId"])
    assert placed.tolist() == rows_of(case)
