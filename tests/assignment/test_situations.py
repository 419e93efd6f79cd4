"""The generated cases cover each rule: for some of them, an oracle without the rule gives another result.

Other situations are counted, too: brokers at, below and above their limits, fenced or unknown, without racks, and rows
of unequal width.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from klamm.assignment.cluster_view import NO_LIMIT, ClusterView
from klamm.assignment.kafka.round_robin import FEW_REPLICAS
from klamm.assignment.kafka.stripes_in_bulk import is_regular
from klamm.assignment.place import PlacementSpec
from klamm.assignment.rebalance import Rebalanced
from tests.assignment import test_audit, test_round_robin, test_striped
from tests.assignment.existing_rows import LIMIT, Growth, Shrinking, growths, shrinkings
from tests.assignment.growth_oracle import SHRINKING_RULES, Growing, Worth, best_growth, shrink_one_by_one
from tests.assignment.oracles import FILLING_RULES, fill_one_by_one, led_placement_exists, placement_exists
from tests.assignment.rebalancing import STRANGER, Situation, anything, least_above_limits
from tests.assignment.strategies import Seed, asked, tight
from tests.assignment.test_augment import growings
from tests.assignment.test_place_limits import must_leave_kafkas, room_of
from tests.assignment.test_place_placeholders import Filling, fillings
from tests.assignment.test_place_with_fenced import must_leave_kafkas as must_leave_stripes
from tests.assignment.test_place_with_fenced import shared_with_fenced
from tests.situations import LEAST, rare_situations

Situations = dict[str, Callable[[Any], bool]]
FEW = 4
"""Of a hundred cases, for situations in which several things must come together."""


# -- placing -----------------------------------------------------------------------------------------------------------

Case = tuple[ClusterView, PlacementSpec]


def capacity(room: list[int], spec: PlacementSpec) -> int:
    return sum(min(space, spec.partitions) for space in room)


def wanted(spec: PlacementSpec) -> int:
    return spec.partitions * spec.replication_factor


def live_room(case: Case) -> list[int]:
    return room_of(case[0], case[0].live)


def room_of_all(case: Case) -> list[int]:
    return room_of(case[0], case[0].live | case[0].fenced)


@cache
def exists(partitions: int, replication_factor: int, *room: int) -> bool:
    return placement_exists(partitions, replication_factor, room)


def fits(case: Case) -> bool:
    """Whether live brokers can hold all rows, as far as their own limits go."""
    return exists(case[1].partitions, case[1].replication_factor, *live_room(case))


def enough_live(case: Case) -> bool:
    return case[1].replication_factor <= len(live_room(case))


def partitions_left(case: Case) -> int:
    """How many partitions the cluster can still have when these are placed."""
    return case[0].partition_limit - case[0].partition_count - case[1].partitions


PLACING: Situations = {
    "a placement exists": fits,
    "too few brokers, with the fenced ones, too": lambda case: case[1].replication_factor > len(case[0]),
    "too few brokers are live": lambda case: not enough_live(case) and case[1].replication_factor <= len(case[0]),
    "too little room": lambda case: enough_live(case) and not fits(case),
    "enough room, but on too few brokers": lambda case: (
        enough_live(case) and not fits(case) and sum(live_room(case)) >= wanted(case[1])
    ),
    "just enough room": lambda case: fits(case) and capacity(live_room(case), case[1]) == wanted(case[1]),
    "a fenced broker would have the room": lambda case: (
        enough_live(case) and not fits(case) and capacity(room_of_all(case), case[1]) >= wanted(case[1])
    ),
    "the cluster is at its limit then": lambda case: fits(case) and partitions_left(case) == 0,
    "the cluster would be one over its limit": lambda case: fits(case) and partitions_left(case) == -1,
    "the limit forces away from Kafka's placement": lambda case: (
        fits(case) and must_leave_kafkas(case[0], case[1], Seed(1))
    ),
    "a live broker is over its limit": lambda case: bool(
        (case[0].live & (case[0].replica_counts > case[0].replica_limit)).any()
    ),
    "nobody has a rack": lambda case: set(case[0].racks) == {None},
    "several brokers share a rack": lambda case: len(set(case[0].racks) - {None}) < len(case[0].racks) - 1,
}


def led(case: Case) -> bool:
    room, fenced_room = live_room(case), room_of(case[0], case[0].fenced)
    return led_placement_exists(case[1].partitions, case[1].replication_factor, room, fenced_room)


def leaves_stripes(case: Case) -> bool:
    return led(case) and must_leave_stripes(case[0], case[1], Seed(1))


STRIPING: Situations = {
    "live brokers have more room than needed": lambda case: (
        leaves_stripes(case) and capacity(live_room(case), case[1]) > wanted(case[1])
    ),
    "live brokers have just enough room": lambda case: (
        leaves_stripes(case) and bool(case[0].fenced.any()) and capacity(live_room(case), case[1]) == wanted(case[1])
    ),
    "fenced brokers must help": lambda case: (
        leaves_stripes(case) and capacity(live_room(case), case[1]) < wanted(case[1])
    ),
    "live brokers have room for the leaders alone": lambda case: (
        led(case) and capacity(live_room(case), case[1]) == case[1].partitions
    ),
    "there is room, but not for all leaders": lambda case: (
        not led(case) and placement_exists(case[1].partitions, case[1].replication_factor, room_of_all(case))
    ),
    "some brokers have no rack": lambda case: (
        leaves_stripes(case) and len({None} & set(case[0].racks)) < len(set(case[0].racks)) and None in case[0].racks
    ),
}


# -- rows that exist ---------------------------------------------------------------------------------------------------


def shrinking_rule(rule: str) -> Callable[[Shrinking], bool]:
    def decides(case: Shrinking) -> bool:
        given = case.rows.placement.tolist(), case.replication_factor, case.leading(), case.rows.known()
        return shrink_one_by_one(*given) != shrink_one_by_one(*given, without=rule)

    return decides


_known: dict[str, Worth] = {}


def best(growing: Growing) -> Worth:
    """What the oracle says, which is slow, once for each question."""
    key = repr(growing)
    if key not in _known:
        _known[key] = best_growth(growing)
    return _known[key]


def enough_brokers(growth: Growth) -> bool:
    live = growth.rows.live_ids()
    return all(len({*live, *row}) >= growth.replication_factor for row in growth.rows.real())


def grows(growth: Growth) -> bool:
    return enough_brokers(growth) and not best(growth.rows.growing(growth.replication_factor)).missing


def differs(change: Callable[[Growth, Growing], Growing]) -> Callable[[Growth], bool]:
    """Whether rows that can grow would grow otherwise if the oracle were asked for something else."""

    def decides(growth: Growth) -> bool:
        growing = growth.rows.growing(growth.replication_factor)
        return grows(growth) and best(change(growth, growing)) != best(growing)

    return decides


def fenced_with_room(growth: Growth, growing: Growing) -> Growing:
    return growing._replace(room=[max(LIMIT - count, 0) for count in growth.rows.view.replica_counts.tolist()])


def fenced_without_rack(growth: Growth, growing: Growing) -> Growing:
    fenced = set(np.flatnonzero(growth.rows.view.fenced).tolist())
    return growing._replace(own=[[NO_LIMIT - at if at in fenced else at for at in own] for own in growing.own])


GROWING: Situations = {
    "there are brokers and room": grows,
    "there are too few brokers": lambda growth: not enough_brokers(growth),
    "there are brokers, but no room": lambda growth: enough_brokers(growth) and not grows(growth),
    "a fenced broker would be of use": differs(fenced_with_room),
    "the limit is in the way": differs(
        lambda _, growing: growing._replace(room=[room and LIMIT for room in growing.room])
    ),
    "the rack of a fenced broker is in the way": differs(fenced_without_rack),
    "racks are in the way": differs(lambda _, growing: growing._replace(racks=list(range(len(growing.racks))))),
    "no rack must not count as a rack": differs(
        lambda growth, growing: growing._replace(racks=list(map(str, growth.rows.view.racks)))
    ),
    "rows lack different numbers": lambda growth: grows(growth) and len(set(map(len, growth.rows.real()))) > 1,
    "nothing is lacking": lambda growth: {len(row) for row in growth.rows.real()} == {growth.replication_factor},
    "a live broker is over its limit": lambda growth: (
        grows(growth) and bool((growth.rows.view.live & (growth.rows.view.replica_counts > LIMIT)).any())
    ),
}

FLOWS: Situations = {
    "all is given": lambda growing: sum(growing.lacking) > 0 == best(growing).missing,
    "some is missing": lambda growing: best(growing).missing > 0,
    "racks decide": lambda growing: best(growing) != best(growing._replace(racks=list(range(len(growing.racks))))),
    "room decides": lambda growing: (
        not best(growing).missing
        and best(growing) != best(growing._replace(room=[room and 9 for room in growing.room]))
    ),
    "a row has a broker that nobody knows": lambda growing: any(len(growing.room) in own for own in growing.own),
    "rows lack different numbers": lambda growing: len(set(growing.lacking)) > 1,
    "a row must take a rack that it has": lambda growing: (
        not best(growing).missing and best(growing).racks_gained < sum(growing.lacking)
    ),
}


def filling_rule(rule: str) -> Callable[[Filling], bool]:
    return lambda case: fill_one_by_one(*case) != fill_one_by_one(*case, without=rule)


FILLING: Situations = {
    **{rule: filling_rule(rule) for rule in FILLING_RULES},
    "the broker is over its limit": lambda case: case.room < 0,
    "there is just room for all": lambda case: (
        case.room > 0
        and fill_one_by_one(*case)
        == fill_one_by_one(*case._replace(room=99))
        != fill_one_by_one(*case._replace(room=case.room - 1))
    ),
}


# -- auditing and rebalancing ------------------------------------------------------------------------------------------

K = test_audit.K


def faults(case: test_audit.Audited) -> set[Any]:
    return {kind for kind, _, _ in test_audit.read_plainly(*case)}


def is_change(case: test_audit.Audited) -> bool:
    return case[2] is not None


def stays(case: test_audit.Audited, brokers: set[int]) -> bool:
    """Whether one of these was in a row before and still is."""
    placed, before = case[1:3]
    return before is not None and any(
        brokers & {*row} & {*old} for row, old in zip(placed.tolist(), before.tolist(), strict=True)
    )


def strangers(case: test_audit.Audited) -> set[int]:
    return {broker for broker in case[1].ravel().tolist() if broker >= 0} - {*case[0].broker_ids.tolist()}


def makes_room(case: test_audit.Audited) -> bool:
    """Whether a broker gains a replica for which there is room only because it gives up another."""
    view, placed, before, _ = case
    if before is None:
        return False
    rows = [({*row}, {*old}) for row, old in zip(placed.tolist(), before.tolist(), strict=True)]
    for broker, count in zip(view.broker_ids.tolist(), view.replica_counts.tolist(), strict=True):
        gained, lost = (sum(broker in one - other for one, other in pairs) for pairs in (rows, [r[::-1] for r in rows]))
        if gained and count + gained - lost <= view.replica_limit < count + gained:
            return True
    return False


def has_fault(kind: Any, change: bool) -> Callable[[test_audit.Audited], bool]:
    return lambda case: kind in faults(case) and is_change(case) == change


FAULTS = (
    *(K.UNKNOWN_BROKER, K.FENCED_BROKER, K.REPEATED_BROKER, K.BROKER_LIMIT),
    *(K.PLACEHOLDER_NOT_LAST, K.PLACEHOLDER_NUMBER, K.NO_LEADER),
)
AUDITING: Situations = {
    **{f"{kind.value}, in new rows": has_fault(kind, change=False) for kind in FAULTS},
    **{f"{kind.value}, in a change": has_fault(kind, change=True) for kind in FAULTS},
    "cluster limit": lambda case: K.CLUSTER_LIMIT in faults(case),
    "new rows without a fault": lambda case: not faults(case) and not is_change(case) and len(case[1]) > 0,
    "a change without a fault": lambda case: not faults(case) and is_change(case) and len(case[1]) > 0,
    "fenced brokers are allowed": lambda case: case[3] and K.FENCED_BROKER in faults((*case[:3], False)),
    "a fenced broker stays": lambda case: stays(case, set(case[0].broker_ids[case[0].fenced].tolist())),
    "an unknown broker stays": lambda case: stays(case, strangers(case)),
    "a placeholder stays": lambda case: stays(case, set(range(-20, 0))),
    "a replica that leaves makes room": makes_room,
    "rows become wider": lambda case: is_change(case) and case[1].shape[1] > case[2].shape[1],
}


def best_is_there(case: Situation) -> bool:
    outcome = case.outcome(Seed(1))
    return isinstance(outcome, Rebalanced) and not outcome.moves


BALANCING: Situations = {
    "a fenced broker has replicas": lambda case: case.fenced >= 0 and case.own[case.fenced] > 0,
    "a broker that is gone has replicas": lambda case: any(STRANGER in row for row in case.rows),
    "some brokers are not chosen": lambda case: case.chosen is not None and len(case.usable) < len(case.racks),
    "some brokers in use have no rack": lambda case: (
        len({None} & {case.racks[b] for b in case.usable}) < len({case.racks[b] for b in case.usable})
        and None in {case.racks[b] for b in case.usable}
    ),
    "a row has a rack twice": lambda case: any(
        len({case.rack_of[b] for b in row if b in case.usable}) < len([b for b in row if b in case.usable])
        for row in case.real
    ),
    "a broker is at its limit": lambda case: any(case.own[b] == case.room[b] > 0 for b in case.usable),
    "limits can be met, and are not": lambda case: case.above_limit > 0 == least_above_limits(case),
    "limits cannot be met": lambda case: (least_above_limits(case) or 0) > 0,
    "replicas have nowhere to go": lambda case: least_above_limits(case) is None,
    "rows of unequal width": lambda case: len(set(map(len, case.real))) > 1,
    "all is well already": best_is_there,
    "other topics are uneven": lambda case: len(set(case.held)) > 1,
}


# -- Kafka's own placements --------------------------------------------------------------------------------------------


def rack_sizes(case: Any) -> list[int]:
    racks = [broker[1] for broker in case.brokers]
    return [racks.count(rack) for rack in dict.fromkeys(racks)]


def regular(case: test_striped.Asked) -> bool:
    racks = dict.fromkeys(rack for _, rack, _ in case.brokers)
    unfenced = [sum(other == rack and not fenced for _, other, fenced in case.brokers) for rack in racks]
    return is_regular(unfenced, case.replication_factor)


ROUND_ROBIN: Situations = {
    "with racks, more than one": lambda case: case.brokers[0][1] is not None and len(rack_sizes(case)) > 1,
    "without racks": lambda case: case.brokers[0][1] is None,
    "racks of unequal size": lambda case: len(set(rack_sizes(case))) > 1,
    "more replicas than racks": lambda case: len(rack_sizes(case)) < case.rf and case.brokers[0][1] is not None,
    "many rows, with racks": lambda case: case.partitions * case.rf > FEW_REPLICAS and case.brokers[0][1] is not None,
    "many rows, without racks": lambda case: case.partitions * case.rf > FEW_REPLICAS and case.brokers[0][1] is None,
    "few rows": lambda case: case.partitions * case.rf <= FEW_REPLICAS,
    "one broker": lambda case: len(case.brokers) == 1,
    "a replica on every broker": lambda case: case.rf == len(case.brokers) > 1,
    "leaders go round again": lambda case: case.partitions > len(case.brokers) > 1,
    "the first partition is one at which the shift grows": lambda case: (
        case.first_partition > 0 and case.first_partition % len(case.brokers) == 0 < len(case.brokers) - 1
    ),
    "a shift beyond any ring": lambda case: case.shift > 2**31,
}
STRIPES: Situations = {
    "some brokers are fenced": lambda case: len(case.unfenced) < len(case.brokers),
    "all of a rack are fenced": lambda case: any(
        not any(other == rack and not fenced for _, other, fenced in case.brokers) for _, rack, _ in case.brokers
    ),
    "no rack is one of several": lambda case: None in case.rack_of.values() and len(rack_sizes(case)) > 1,
    "every rack always has a broker to give": regular,
    "the same, with fenced ones": lambda case: regular(case) and len(case.unfenced) < len(case.brokers),
    "a rack may be passed over": lambda case: not regular(case),
    "more replicas than racks": lambda case: case.replication_factor > len(rack_sizes(case)),
    "more replicas than unfenced brokers": lambda case: case.replication_factor > len(case.unfenced),
    "shuffled twice": lambda case: case.partitions > 2 * len(case.unfenced) > 2,
}


GENERATORS: dict[str, tuple[st.SearchStrategy[Any], Situations, int]] = {
    "any rows": (asked(), {name: PLACING[name] for name in PLACING if "Kafka" not in name}, 2),
    "rows near limits": (
        tight(),
        {name: PLACING[name] for name in ("just enough room", "the limit forces away from Kafka's placement")},
        LEAST,
    ),
    "stripes near limits": (shared_with_fenced(), STRIPING, FEW),
    "rows that shrink": (shrinkings(), {rule: shrinking_rule(rule) for rule in SHRINKING_RULES}, FEW),
    "rows that grow": (growths(), GROWING, 2),
    "flows": (growings(), FLOWS, LEAST),
    "rows with placeholders": (fillings(), FILLING, FEW),
    "audited rows": (test_audit.audited(), AUDITING, 3),
    "rows that are rebalanced": (anything, BALANCING, LEAST),
    "round robin": (test_round_robin.asked(), ROUND_ROBIN, LEAST),
    "stripes": (test_striped.asked(), STRIPES, FEW),
}


@pytest.mark.parametrize(("strategy", "situations", "least"), GENERATORS.values(), ids=GENERATORS)
def test_generated_cases_cover_every_situation_of_the_rules(
    strategy: st.SearchStrategy[Any], situations: Situations, least: int
) -> None:
    assert rare_situations(strategy, situations, least=least) == {}
