"""The assignor of streams groups: equal to Apache Kafka's own class, and what KIP-1071 says of it."""

import gzip
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.groups.assignors.sticky_tasks import StreamsSpec, SubtopologySize, TaskMember, assign_sticky
from tests.golden.assignors.task_cases import StreamsGroups, read, written_answer

RECORDED = (
    gzip.decompress((Path(__file__).parents[2] / "golden/assignors/tasks.txt.gz").read_bytes()).decode().splitlines()
)


@pytest.mark.parametrize("tenth", range(10))
def test_kafkas_own_assignor_gives_the_same(tenth: int) -> None:
    for line in RECORDED[tenth::10]:
        case, expected = line.split("#")
        spec = read(case)
        assert written_answer(spec, assign_sticky(spec)) == expected, case


@given(st.integers(0, 2**32))
def test_each_task_is_active_once_and_a_process_has_it_once(seed: int) -> None:
    for spec in StreamsGroups(Random(seed)).steps(3):
        answer = assign_sticky(spec)
        active, copies = Counter[tuple[str, int]](), Counter[tuple[str, str, int]]()
        for member_id, given_out in answer.items():
            process_id = spec.members[member_id].process_id
            for sets in (given_out.active, given_out.standby):
                copies.update((process_id, name, at) for name, partitions in sets.items() for at in partitions)
            active.update((name, at) for name, partitions in given_out.active.items() for at in partitions)
        assert active == {(each.name, at): 1 for each in spec.subtopologies for at in range(each.tasks)}
        assert all(count == 1 for count in copies.values())
        assert answer.keys() == spec.members.keys()


ORDERS = SubtopologySize("0", 4, is_stateful=True)


def test_members_keep_their_tasks_up_to_their_share() -> None:
    members = {"a": TaskMember("p", {"0": frozenset({0, 1, 2, 3})}), "b": TaskMember("q")}
    answer = assign_sticky(StreamsSpec(members, [ORDERS]))
    assert (answer["a"].active, answer["b"].active) == ({"0": {0, 1}}, {"0": {2, 3}})


def test_a_standby_task_becomes_active_where_its_state_is() -> None:
    members = {
        "a": TaskMember("p", {"0": frozenset({0, 1})}),
        "b": TaskMember("q", {}, {"0": frozenset({2, 3})}),
        "c": TaskMember("r"),
    }
    answer = assign_sticky(StreamsSpec(members, [ORDERS], 1))
    assert (answer["b"].active, answer["c"].active) == ({"0": {2}}, {"0": {3}})


def test_standby_tasks_are_for_state_alone_and_for_other_processes() -> None:
    members = {"a": TaskMember("p"), "b": TaskMember("p"), "c": TaskMember("q")}
    stateless = SubtopologySize("1", 2, is_stateful=False)
    answer = assign_sticky(StreamsSpec(members, [SubtopologySize("0", 1, is_stateful=True), stateless], 2))
    standby = {member_id: given_out.standby for member_id, given_out in answer.items() if given_out.standby}
    assert list(standby.values()) == [{"0": {0}}]
    owner = next(member_id for member_id, given_out in answer.items() if "0" in given_out.active)
    (follower,) = standby
    assert members[owner].process_id != members[follower].process_id
