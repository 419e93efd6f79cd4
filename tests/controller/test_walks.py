"""Long work is complete although topics are deleted, created and widened between two of its steps. A step stores up to
which row of each table it has come. Rows move meanwhile: when topics are deleted, the rest of a table is packed towards
its beginning, and partitions that get more replicas move to the end of a wider table."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.broker.data.data_plane import DataPlane
from klamm.controller.log_records import count_records
from klamm.controller.metadata.image import TOPIC_RESOURCE, MetadataImage
from klamm.controller.metadata.partition import NO_LEADER, RECOVERING, Partition
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.controller.settings import Settings
from klamm.controller.transitions import leadership, long_work
from klamm.controller.transitions.long_work import (
    CatchUp,
    Departure,
    LongWork,
    PreferredLeaders,
    Returns,
    UncleanElections,
)
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.protocol.records.topics import RemoveTopicRecord
from tests.controller.cluster_states import add_topic, apply, fence, live_cluster, uuid_of
from tests.controller.image_facts import image_facts

SETTINGS = Settings()
REPLICAS = (1, 2, 4, 5)
DEPARTED, FENCED = 4, 5
"""Broker 4 returned after an unclean stop. Broker 5 is fenced."""
NEEDS: Mapping[str, dict[str, Any]] = {
    "nothing": {"isr": [1, 2]},
    "an election": {"leader": NO_LEADER, "isr": [], "eligible_leader_replicas": [1]},
    "an unclean election": {"leader": NO_LEADER, "isr": [], "eligible_leader_replicas": [FENCED]},
    "a larger ISR": {"isr": [1]},
    "its recovery": {"isr": [1, 2], "leader_recovery_state": RECOVERING},
    "its preferred leader": {"isr": [1, 2], "leader": 2},
    "a smaller ISR": {"isr": [1, 2, DEPARTED]},
    "a smaller ELR": {"isr": [1, 2], "eligible_leader_replicas": [DEPARTED]},
    "a smaller ELR while it moves": {
        "isr": [1, 2],
        "eligible_leader_replicas": [DEPARTED],
        "adding_replicas": [FENCED],
    },
}
"""What work a partition needs, and the change that creates this need."""
Kind = Callable[[int], LongWork]
KINDS: Mapping[str, tuple[Kind, str]] = {
    "returns": (lambda _: Returns(frozenset({1})), "an election"),
    "catch-up": (lambda most: CatchUp(DataPlane(SETTINGS), most=most), "a larger ISR"),
    "unclean elections": (lambda _: UncleanElections(), "an unclean election"),
    "preferred leaders": (lambda _: PreferredLeaders(), "its preferred leader"),
    "unclean departure": (lambda most: Departure(DEPARTED, unclean=True, most=most), "a smaller ELR"),
}
"""The kinds of work that visit rows, each with a need that it fulfils."""
MANY = 1_000

Partitions = dict[tuple[str, int], Partition]
Topics = Sequence[Sequence[str]]


def started(topics: Topics) -> MetadataImage:
    """A cluster with topics t1, t2, ... whose partitions need this work. Any deletion packs the table."""
    image = live_cluster(5)
    image.partitions = image.topics.partitions = PartitionTable(compact_at_dead_rows=0)
    for number, waiting in enumerate(topics, start=1):
        add_topic(image, number, [list(REPLICAS)] * len(waiting), min_insync_replicas="3")
        for index, need in enumerate(waiting):
            apply(image, PartitionChangeRecord(partition_id=index, topic_id=uuid_of(number), **NEEDS[need]))
        if "an unclean election" in waiting:
            name = "unclean.leader.election.enable"
            apply(
                image,
                ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=f"t{number}", name=name, value="true"),
            )
    apply(image, fence(DEPARTED), fence(FENCED))
    return image


def partitions(image: MetadataImage) -> Partitions:
    found: Partitions = image_facts(image)["partitions"]
    return found


def step(image: MetadataImage, work: LongWork, rows: int = MANY, most: int = MANY) -> int:
    """A step that visits and changes at most so many rows. Returns how many it changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_work, "ROWS_PER_STEP", rows)
        patch.setattr(long_work, "ROWS_PER_SCAN", max(1, rows // 2))
        patch.setattr(long_work, "ROWS_ALONE", most)
        for module in (leadership, long_work):
            patch.setattr(module, "COST_ALONE", 1)
        patch.setattr(leadership, "COST_ELIGIBLE", 1)
        records = work.plan(image, SETTINGS)
    assert count_records(records) <= (2 * most if isinstance(work, PreferredLeaders) else most)
    if records:
        apply(image, *records)
    return count_records(records)


def finish(image: MetadataImage, work: LongWork, rows: int = MANY, most: int = MANY) -> None:
    for _ in range(MANY):
        step(image, work, rows, most)
        if work.is_over(image):
            return
    raise AssertionError("the work goes on for ever")


def changed_at_once(image: MetadataImage, begin: Kind) -> Partitions:
    """The partitions after the work if nothing happens meanwhile."""
    other = copy.deepcopy(image)
    finish(other, begin(MANY))
    return partitions(other)


def remove(image: MetadataImage, name: str) -> None:
    apply(image, RemoveTopicRecord(topic_id=image.topics_by_name[name].topic_id))


def widen(image: MetadataImage, name: str) -> None:
    """Begin a reassignment of partition 0 that needs a wider row; its neighbours move with it."""
    topic = image.topics_by_name[name]
    partition = image.partitions.read(topic.row, 0)
    if 3 in partition.replicas:
        return
    begun = PartitionChangeRecord(
        partition_id=0,
        topic_id=topic.topic_id,
        replicas=[*partition.replicas, 3],
        adding_replicas=[3],
        directories=[*partition.directories, *image.brokers[3].log_dirs],
    )
    apply(image, begun)


topics_that_wait = st.lists(st.lists(st.sampled_from(sorted(NEEDS)), min_size=1, max_size=6), min_size=1, max_size=5)
events = st.lists(
    st.tuples(st.sampled_from(["remove", "add", "widen", "nothing"]), st.integers(0, 50)), min_size=1, max_size=9
)


def happen(image: MetadataImage, number: int, event: str, pick: int) -> str | None:
    """An event between two steps. Returns the name of the topic whose partition 0 it changes."""
    names = sorted(image.topics_by_name)
    if event == "add":
        add_topic(image, number, [[1, 2, 3, 1][: pick % 3 + 1]] * (pick % 9 + 1))
    elif names and event == "remove":
        remove(image, names[pick % len(names)])
    elif names and event == "widen":
        widen(image, names[pick % len(names)])
        return names[pick % len(names)]
    return None


@settings(max_examples=75)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    topics=topics_that_wait,
    history=events,
    rows=st.integers(1, 6),
    most=st.integers(1, 4),
)
def test_every_partition_that_stays_gets_what_it_would_have_got_at_once(
    kind: str, topics: Topics, history: Sequence[tuple[str, int]], rows: int, most: int
) -> None:
    begin, _ = KINDS[kind]
    image = started(topics)
    expected, work = changed_at_once(image, begin), begin(most)
    for number, (event, pick) in enumerate(history, start=100):
        step(image, work, rows, most)
        expected.pop((happen(image, number, event, pick) or "", 0), None)
    finish(image, work, rows, most)
    found = partitions(image)
    for key in expected.keys() & found.keys():
        assert found[key] == expected[key], key


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("new_partitions", [0, 6, 20])
@pytest.mark.parametrize("steps_before", [1, 6, 8])
def test_rows_that_move_towards_the_beginning_are_looked_at(kind: str, new_partitions: int, steps_before: int) -> None:
    """Also if the table has its former length by then, because a topic was created."""
    begin, need = KINDS[kind]
    image = started([["nothing"] * 6, [need] * 5])
    expected, work = changed_at_once(image, begin), begin(1)
    for _ in range(steps_before):
        step(image, work, rows=1, most=1)
    remove(image, "t1")
    if new_partitions:
        add_topic(image, 3, [[1, 2, 3, 4]] * new_partitions)
    finish(image, work, rows=1, most=1)
    assert [found for (name, _), found in partitions(image).items() if name == "t2"] == [
        found for (name, _), found in expected.items() if name == "t2"
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_changes_as_many_as_it_may(kind: str) -> None:
    begin, need = KINDS[kind]
    image = started([["nothing", need, need], [need] * 3])
    work = begin(2)
    changed = [step(image, work, most=2) for _ in range(4)]
    if kind == "unclean departure":
        changed = changed[1:]  # A step sees that the broker is in no ISR.
    assert sum(changed) == 5
    assert max(changed) == changed[0] == (4 if kind == "preferred leaders" else 2)


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_step_takes_a_row_that_costs_all_that_it_may_and_no_second_one(more: int, rows: int) -> None:
    """Also no row of another table."""
    image = live_cluster(3)
    for number, replicas in enumerate(([1, 2], [1, 2, 3]), start=1):
        add_topic(image, number, [replicas] * rows, unclean_leader_election_enable="true")
        for index in range(rows):
            apply(image, PartitionChangeRecord(partition_id=index, topic_id=uuid_of(number), isr=[1]))
    work, changed = CatchUp(DataPlane(SETTINGS), most=leadership.COST_ALONE + more), []
    while not work.is_over(image):
        records = work.plan(image, SETTINGS)
        changed.append(count_records(records))
        apply(image, *records)
    assert changed == [1] * 2 * rows
