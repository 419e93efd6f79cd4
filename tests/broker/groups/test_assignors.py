"""The assignors uniform and range: equal to Apache Kafka's own classes, and what KIP-848 says of them."""

import gzip
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.groups.assignors import ASSIGNORS, GroupSpec, MemberSpec
from klamm.protocol.uuid import Uuid
from tests.golden.assignors.cases import Groups, read, written_answer
from tests.golden.assignors.share_cases import ShareGroups, assigned, read_case

RECORDED = (
    gzip.decompress((Path(__file__).parents[2] / "golden/assignors/groups.txt.gz").read_bytes()).decode().splitlines()
)

ORDERS, PAYMENTS = Uuid(bytes(15) + b"\1"), Uuid(bytes(15) + b"\2")


@pytest.mark.parametrize("tenth", range(10))
def test_kafkas_own_assignors_give_the_same(tenth: int) -> None:
    for line in RECORDED[tenth::10]:
        case, expected = line.split("#")
        name, group = read(case)
        assert written_answer(group, ASSIGNORS[name](group)) == expected, case


@given(st.integers(0, 2**32))
def test_each_partition_of_a_subscribed_topic_goes_to_one_of_its_subscribers(seed: int) -> None:
    for name, group in Groups(Random(seed)).steps(3):
        given_out = Counter(
            (topic_id, partition)
            for member_id, assignment in ASSIGNORS[name](group).items()
            for topic_id, partitions in assignment.items()
            for partition in partitions
            if topic_id in group.members[member_id].topic_ids
        )
        subscribed = {topic_id for member in group.members.values() for topic_id in member.topic_ids}
        assert given_out == {
            (topic_id, partition): 1 for topic_id in subscribed for partition in range(group.partition_counts[topic_id])
        }


@given(st.integers(0, 2**32))
def test_an_assignment_that_uniform_made_is_kept_when_nothing_changes(seed: int) -> None:
    for name, group in Groups(Random(seed)).steps(2):
        first = ASSIGNORS["uniform"](group)
        settled = GroupSpec(
            {
                member_id: MemberSpec(member.topic_ids, first[member_id], member.instance_id)
                for member_id, member in group.members.items()
            },
            group.partition_counts,
            homogeneous=group.homogeneous,
        )
        if group.homogeneous:
            assert ASSIGNORS["uniform"](settled) == first, name


def test_range_gives_equal_indexes_of_topics_of_one_size_and_static_members_first() -> None:
    both = frozenset((ORDERS, PAYMENTS))
    members = {"a": MemberSpec(both), "z": MemberSpec(both, instance_id="i1")}
    assert ASSIGNORS["range"](GroupSpec(members, {ORDERS: 3, PAYMENTS: 3}, homogeneous=True)) == {
        "z": {ORDERS: (0, 1), PAYMENTS: (0, 1)},
        "a": {ORDERS: (2,), PAYMENTS: (2,)},
    }


def test_uniform_moves_no_more_than_a_newcomer_needs() -> None:
    members = {"a": MemberSpec(frozenset((ORDERS,)), {ORDERS: (0, 1, 2, 3)}), "b": MemberSpec(frozenset((ORDERS,)))}
    assert ASSIGNORS["uniform"](GroupSpec(members, {ORDERS: 4}, homogeneous=True)) == {
        "a": {ORDERS: (0, 1)},
        "b": {ORDERS: (2, 3)},
    }


def test_members_without_topics_get_nothing() -> None:
    group = GroupSpec({"a": MemberSpec(frozenset())}, {}, homogeneous=True)
    assert ASSIGNORS["uniform"](group) == ASSIGNORS["range"](group) == {"a": {}}


SHARED = (
    gzip.decompress((Path(__file__).parents[2] / "golden/assignors/share-groups.txt.gz").read_bytes())
    .decode()
    .splitlines()
)


@pytest.mark.parametrize("tenth", range(10))
def test_kafkas_own_simple_assignor_gives_the_same(tenth: int) -> None:
    for line in SHARED[tenth::10]:
        case, expected = line.split("#")
        group, assignable = read_case(case)
        assert written_answer(group, assigned(group, assignable)) == expected, case


@given(st.integers(0, 2**32))
def test_members_of_a_share_group_get_only_what_they_may_have(seed: int) -> None:
    for group, assignable in ShareGroups(Random(seed)).share_steps(3):
        for member_id, assignment in assigned(group, assignable).items():
            for topic_id, partitions in assignment.items():
                if topic_id in group.members[member_id].topic_ids:
                    assert set(partitions) <= set(assignable.get(topic_id, ()))
