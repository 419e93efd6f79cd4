"""The result of a policy for a cluster shape: checked by hand, by the auditor, by flows, and by the controller's own
placer."""

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.assignment import NO_LIMIT, ViolationKind, audit
from klamm.controller.settings import Profile, Settings
from klamm.controller.transitions.placement import Placer, Wanted
from klamm.pipeline.whatif.kernel import POLICIES, Made, chance, cluster_of, try_policies
from klamm.pipeline.whatif.shapes import Shape
from klamm.protocol.errors import ApiError
from tests.assignment.oracles import placement_exists
from tests.controller.cluster_states import add_topic, apply, fence, live_cluster, registration, unfence
from tests.controller.test_enlargement import context

ALL: Final = tuple(POLICIES)
LIMITED: Final = ("limit-aware", "placeholders")
Row = dict[str, Any]


@st.composite
def small_shapes(draw: st.DrawFn) -> Shape:
    brokers = draw(st.integers(1, 8))
    return Shape(
        shape_id=draw(st.integers(0, 2**62)),
        brokers=brokers,
        racks=draw(st.integers(0, 4)),
        partitions=draw(st.integers(1, 20)),
        replication_factor=draw(st.integers(1, 4)),
        limit=draw(st.none() | st.integers(1, 25)),
        fenced=draw(st.integers(0, brokers)),
        held=draw(st.sampled_from((0, 7, 40))),
    )


def _rows(shape: Shape, policies: Sequence[str], seed: int) -> list[Row]:
    """The rows of a shape that is tried alone."""
    return list(try_policies([shape], policies, seed))


def _row(shape: Shape, policy: str, seed: int = 1) -> Row:
    (row,) = try_policies([shape], [policy], seed)
    return row


def _made(shape: Shape, policy: str, seed: int = 1) -> Made:
    (made,) = POLICIES[policy]([cluster_of(shape, seed)], [chance(seed, shape.shape_id, policy)])
    assert isinstance(made, Made)
    return made


@given(st.lists(small_shapes(), min_size=1, max_size=4), st.permutations(ALL), st.integers(0, 2**63 - 1), st.data())
def test_a_result_does_not_depend_on_what_else_is_asked(
    shapes: list[Shape], policies: list[str], seed: int, data: st.DataObject
) -> None:
    """Neither on other policies, nor on other shapes that are placed at the same time."""
    alone = {(shape, policy): _row(shape, policy, seed) for shape in shapes for policy in policies}
    some = data.draw(st.permutations(shapes))[: data.draw(st.integers(1, len(shapes)))]
    few = policies[: data.draw(st.integers(1, len(policies)))]
    together = list(try_policies(some, few, seed))
    assert len(together) == len(some) * len(few)
    for row in together:
        shape = Shape(*(row[name] for name in Shape._fields))
        assert row == alone[shape, row["policy"]]


SHAPES: Final = [
    Shape(number, 3 + number, number % 4, 40 + number, 3, limit=60, fenced=number % 2, held=30 * (number % 3))
    for number in range(8)
]
_PROGRAM: Final = """
import json, sys
from klamm.pipeline.whatif.kernel import try_policies
from klamm.pipeline.whatif.shapes import Shape
shapes, policies = json.load(sys.stdin)
print(json.dumps(list(try_policies([Shape(*shape) for shape in shapes], policies, 7))))
"""


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_another_process_gives_the_same(hash_seed: str) -> None:
    output = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        input=json.dumps([SHAPES, ALL]),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )
    assert json.loads(output.stdout) == list(try_policies(SHAPES, ALL, 7))


def test_the_same_results_as_ever() -> None:
    """A recorded result: other machines, versions of NumPy and releases of Klamm must place alike."""
    shape = Shape(42, 7, 3, 50, 3, limit=33, fenced=1, held=40)
    assert cluster_of(shape, 5).held.tolist() == HELD
    assert {row["policy"]: row["digest"] for row in _rows(shape, ALL, 5)} == DIGESTS


def test_many_shapes_give_the_same_results_as_ever() -> None:
    """Large and small shapes, with and without racks, limits and fenced brokers, recorded before placement became
    faster."""
    digest = hashlib.sha256()
    for number in range(240):
        size = 1 + number % 13
        limit = None if number % 3 == 0 else 1 + number * 7 % 90
        fenced, held = max(0, number % 5 - 2) % size, 20 * (number % 4)
        shape = Shape(number, size, number % 6, 1 + number * 11 % 120, 1 + number % 4, limit, fenced, held)
        digest.update(json.dumps(_rows(shape, ALL, 9), sort_keys=True).encode())
    for number in range(4):
        shape = Shape(number, 30 + number, 3 + number % 2, 1_000, 3, 110 + 10 * number, 0, 300)
        digest.update(json.dumps(_rows(shape, ALL, 9), sort_keys=True).encode())
    assert digest.hexdigest() == MANY


MANY: Final = "9ef73fa798f701682aeb8a9b836bd826e65505bb8063f75b2bc1a6daa1baa37c"
HELD: Final = [5, 4, 9, 10, 3, 2, 7]
DIGESTS: Final = {
    "round-robin": "c0dff3682141f56e",
    "striped": "1babf8eaf6174964",
    "limit-aware": "8a9cb218e04f349b",
    "placeholders": "062f84855ae10d85",
    "rebalance": "a6f6e5b030049958",
}


def test_seed_shape_and_policy_are_chance() -> None:
    shape = Shape(1, 9, 3, 60, 3)
    digests = {
        _row(one, policy, seed)["digest"]
        for one in (shape, shape._replace(shape_id=2))
        for seed in (1, 2)
        for policy in ("round-robin", "limit-aware")
    }
    assert len(digests) == 8


@given(small_shapes(), st.integers(0, 99))
def test_what_brokers_hold_beforehand_adds_up(shape: Shape, seed: int) -> None:
    cluster = cluster_of(shape, seed)
    assert cluster.held.sum() == shape.held
    assert (cluster.held >= 0).all()


@given(small_shapes(), st.sampled_from(ALL))
def test_the_row_says_what_the_placement_is(shape: Shape, policy: str) -> None:
    _compare(shape, policy)


@pytest.mark.parametrize("policy", ALL)
def test_rack_violations_are_counted_with_more_racks_than_replicas_and_fewer(policy: str) -> None:
    """Also where limits exclude brokers of a rack from some rows: some of those rows violate and others do not."""
    for racks in range(1, 5):
        for replication_factor in range(1, 5):
            for held, limit in ((0, None), (12, 13), (30, 20)):
                _compare(Shape(racks, 5, racks, 12, replication_factor, limit, 0, held), policy)


def test_full_brokers_keep_rows_off_racks() -> None:
    rows = [_row(Shape(number, 6, 3, 30, 3, 21, 0, 30), "limit-aware") for number in range(20)]
    assert any(row["placed"] and 0 < row["rack_violations"] < 30 for row in rows)
    assert any(row["placed"] and row["rack_violations"] == 0 for row in rows)


def _compare(shape: Shape, policy: str) -> None:
    row = _row(shape, policy)
    if not row["placed"]:
        assert row["reason"]
        assert row["digest"] is None
        return
    made = _made(shape, policy)
    live = shape.brokers - shape.fenced if policy != "placeholders" else shape.brokers
    rows, held = made.placement.tolist(), cluster_of(shape, 1).held.tolist()
    own = Counter(broker for members in rows for broker in members if broker > 0)
    loads = [held[broker - 1] + own[broker] for broker in range(1, live + 1)]
    leads = [sum(members[0] == broker for members in rows) for broker in range(1, live + 1)]
    assert row["replica_spread"] == max(loads) - min(loads)
    assert row["leader_spread"] == max(leads) - min(leads)
    assert row["placeholders"] == sum(broker < 0 for members in rows for broker in members)
    assert row["over_limit"] == sum(
        shape.limit is not None and held[broker - 1] + own[broker] > shape.limit for broker in own
    )
    assert row["rack_violations"] == sum(_violates(shape, members) for members in rows)
    assert row["moves"] == made.moves


def _violates(shape: Shape, members: list[int]) -> bool:
    if not shape.racks:
        return False
    racks = [(broker - 1) % shape.racks for broker in members if broker > 0]
    return len(set(racks)) < min(len(racks), shape.racks, shape.brokers)


@given(small_shapes(), st.sampled_from(ALL))
def test_the_auditor_finds_what_the_row_says(shape: Shape, policy: str) -> None:
    row = _row(shape, policy)
    if not row["placed"]:
        return
    made, cluster = _made(shape, policy), cluster_of(shape, 1)
    limited = NO_LIMIT if shape.limit is None else shape.limit
    view = replace(cluster.view(live=made.live), replica_limit=limited)
    found = audit(view, made.placement, fenced_allowed=policy == "striped")
    over = [violation for violation in found if violation.kind is ViolationKind.BROKER_LIMIT]
    others = {violation.kind for violation in found} - {ViolationKind.BROKER_LIMIT}
    if policy == "placeholders":
        others -= {ViolationKind.PLACEHOLDER_NUMBER}  # Its first ones are filled.
    assert not others
    assert len(over) == row["over_limit"]
    if policy in LIMITED:
        assert not over


@given(small_shapes())
def test_limits_refuse_exactly_what_cannot_be(shape: Shape) -> None:
    row = _row(shape, "limit-aware")
    cluster = cluster_of(shape, 1)
    room = [shape.partitions if shape.limit is None else shape.limit - held for held in cluster.held.tolist()]
    possible = placement_exists(shape.partitions, shape.replication_factor, room[: cluster.unfenced])
    assert row["placed"] is possible
    if row["headroom"] is not None and row["headroom"] < 0:
        assert not possible
    if shape.limit is not None and cluster.unfenced:
        left = sum(max(0, one) for one in room[: cluster.unfenced]) - shape.partitions * shape.replication_factor
        assert row["headroom"] == pytest.approx(left / (shape.limit * cluster.unfenced))


def test_policies_differ_where_a_limit_is_in_the_way() -> None:
    """Round robin distributes evenly, but brokers start with different numbers of replicas: some are full long before
    the cluster is."""
    rows = {row["policy"]: row for row in _rows(Shape(3, 12, 3, 100, 3, limit=80, held=500), ALL, 1)}
    assert all(row["placed"] for row in rows.values())
    assert {policy: row["over_limit"] > 0 for policy, row in rows.items()} == {
        "round-robin": True,
        "striped": True,
        "limit-aware": False,
        "placeholders": False,
        "rebalance": False,
    }


def test_placeholders_are_put_down_and_filled() -> None:
    shape = Shape(3, 3, 0, 10, 3, fenced=2)
    rows = {row["policy"]: row for row in _rows(shape, ALL, 1)}
    assert {policy for policy, row in rows.items() if row["placed"]} == {"placeholders", "striped"}
    assert (rows["placeholders"]["placeholders"], rows["placeholders"]["moves"]) == (0, 20)
    held = cluster_of(shape._replace(held=6), 1).held.tolist()
    tight = shape._replace(held=6, limit=held[0] + 10)
    left = sum(max(0, 10 - (held[0] + 10 - there)) for there in held[1:])
    assert _row(tight, "placeholders")["placeholders"] == left > 0


def test_rebalance_brings_replicas_to_the_other_half() -> None:
    row = _row(Shape(1, 10, 2, 100, 2), "rebalance")
    assert row["moves"] == 100
    assert row["replica_spread"] == 0


@pytest.mark.parametrize(
    ("policy", "profile"),
    [("round-robin", "kip"), ("striped", "kafka"), ("limit-aware", "kip"), ("placeholders", "kip")],
)
@pytest.mark.parametrize("number", range(12))
def test_the_controller_places_alike(policy: str, profile: Profile, number: int) -> None:
    """With the same brokers, existing replicas and random numbers: the same ids, or a refusal by both."""
    shape = Shape(
        number, 3 + number % 4, number % 4, 9 + number, 2 + number % 3, limit=14 + number, fenced=number % 3, held=20
    )
    configs = {"enable.under.replicated.topic.creation": "true" if policy == "placeholders" else "false"}
    if policy in LIMITED:
        configs["max.broker.partitions"] = str(shape.limit)
    cluster = cluster_of(shape, 3)
    image = live_cluster(0)
    for broker_id, rack in enumerate(cluster.racks, start=1):
        apply(image, registration(broker_id, rack), unfence(broker_id))
    add_topic(image, 1, [[at + 1] for at, held in enumerate(cluster.held.tolist()) for _ in range(held)])
    for broker_id in range(cluster.unfenced + 1, shape.brokers + 1):
        apply(image, fence(broker_id))
    ours = replace(
        context(0), settings=Settings(profile=profile, static_configs=configs), rng=chance(3, shape.shape_id, policy)
    )
    placed = Placer(image, ours).place(Wanted("orders", shape.partitions, shape.replication_factor))
    row = _row(shape, policy, 3)
    assert row["placed"] is not isinstance(placed, ApiError)
    if not isinstance(placed, ApiError):
        made = _made(shape, policy, 3).placement
        # The kernel has filled the placeholders since.
        real = int((placed[0] > 0).sum())
        assert np.array_equal(made[:, :real], placed[:, :real])
        assert real == shape.replication_factor or policy == "placeholders"
