"""Reassignments as columns: equal to the one-by-one reference, replayed like their single records, with correct
invariants through brokers that stop and return, further targets, cancels and growing ISRs."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.controller.core import Controller
from klamm.controller.handlers.partitions import alter_partition_reassignments as handler
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import NO_LEADER, Partition
from klamm.controller.metadata.replay import replay
from klamm.controller.transitions import change_runs
from klamm.controller.transitions.reassignment import assignment_of, completed
from klamm.protocol.messages.partitions.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.record_batch import decode_batches
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.image_facts import image_facts

BROKERS = 6
Wanted = tuple[str, int, list[int] | None]


def request(wanted: Sequence[Wanted], **fields: Any) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
            for name, index, replicas in wanted
        ],
        **fields,
    )


@st.composite
def topics(draw: st.DrawFn) -> list[list[list[int]]]:
    """Replicas of the partitions of up to three topics."""
    found = []
    for _ in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, 4))
        row = st.permutations(range(1, BROKERS + 1)).map(lambda ids, size=size: list(ids)[:size])  # type: ignore[misc]
        found.append(draw(st.lists(row, min_size=1, max_size=6)))
    return found


targets = (
    st.none()
    | st.lists(st.integers(0, BROKERS + 1), max_size=5)
    | st.permutations(range(1, BROKERS + 1)).flatmap(
        lambda ids: st.integers(1, BROKERS).map(lambda size: list(ids)[:size])
    )
)
wish = st.tuples(st.sampled_from(["t0", "t1", "t2"]), st.integers(-1, 6), targets)
# Each of another partition, which is what column operations are for, or of any.
wishes = st.lists(wish, min_size=1, unique_by=lambda one: one[:2]) | st.lists(wish, min_size=1, max_size=6)
steps = st.lists(
    st.tuples(st.just("alter"), wishes, st.booleans())
    | st.tuples(st.sampled_from(["lose", "come_back", "shut_down"]), st.integers(1, BROKERS), st.none())
    | st.tuples(st.just("tick"), st.none(), st.none()),
    max_size=8,
)


def started(rows: list[list[list[int]]]) -> DrivenCluster:
    cluster = DrivenCluster(BROKERS)
    for number, replicas in enumerate(rows):
        assert not cluster.create_at(f"t{number}", *replicas).error_code
    return cluster


def take(cluster: DrivenCluster, action: str, what: Any, more: Any) -> Any:
    """One step; the answer to a request."""
    match action:
        case "alter":
            return cluster.ask(request(what, allow_replication_factor_change=more))
        case "tick":
            cluster.tick()
        case _ if cluster.image.brokers[what].fenced is (action == "come_back"):
            getattr(cluster, action)(what)
    return None


def partitions(image: MetadataImage) -> dict[tuple[str, int], Partition]:
    found: dict[tuple[str, int], Partition] = image_facts(image)["partitions"]
    return found


@settings(deadline=None)
@given(topics(), steps)
def test_column_operations_equal_the_one_by_one_reference(rows: list[list[list[int]]], history: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(change_runs, "RUN_LENGTH", 1)
        cluster = started(rows)
        answers = [take(cluster, *step) for step in history]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handler, "plan_plain_reassignments", lambda *_, **__: ([], set()))
        patch.setattr(change_runs, "RUN_LENGTH", 1 << 30)  # also no runs
        reference = started(rows)
        assert [take(reference, *step) for step in history] == answers
    assert partitions(cluster.image) == partitions(reference.image)
    assert cluster.image.usage.__dict__ == reference.image.usage.__dict__
    assert cluster.replayed_facts() == image_facts(cluster.image)


@settings(deadline=None)
@given(topics(), steps)
def test_the_smallest_steps_have_the_same_result_as_the_whole(rows: list[list[list[int]]], history: list[Any]) -> None:
    whole = started(rows)
    answers = [take(whole, *step) for step in history]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handler, "COLUMNS_PER_ITEM", 1)
        patch.setattr(handler, "READ_AT_ONCE", 1)
        patch.setattr(Controller, "items_at_once", 1)
        stepwise = started(rows)
        assert [take(stepwise, *step) for step in history] == answers
    assert partitions(stepwise.image) == partitions(whole.image)
    assert stepwise.replayed_facts() == image_facts(stepwise.image)


@settings(deadline=None)
@given(topics(), steps)
def test_invariants_hold_while_replicas_move(rows: list[list[list[int]]], history: list[Any]) -> None:
    cluster = started(rows)
    for step in history:
        before = partitions(cluster.image)
        take(cluster, *step)
        for key, now in partitions(cluster.image).items():
            was = before[key]
            assert set(now.isr) <= set(now.replicas)
            assert len(set(now.replicas)) == len(now.replicas) == len(now.directories)
            assert set(now.eligible_leader_replicas) <= set(now.replicas).difference(now.isr)
            assert set(now.adding_replicas) | set(now.removing_replicas) <= set(now.replicas)
            assert now.leader == NO_LEADER or now.leader in now.isr
            assert completed(assignment_of(now), now.isr) is None  # what is complete has been completed
            assert (now.leader_epoch > was.leader_epoch) or set(was.replicas) <= set(now.replicas)
            # A reassignment removes from the ISR only the replicas that it removes or that are cancelled.
            if step[0] in ("alter", "tick"):
                gone = set(was.isr).difference(now.isr)
                assert gone <= {
                    *was.removing_replicas,
                    *was.adding_replicas,
                    *set(was.replicas).difference(now.replicas),
                }


def test_runs_replay_as_their_single_records_do() -> None:
    """Lists that are longer or shorter than the rows, and those of a topic that does not count for limits."""
    cluster = DrivenCluster(BROKERS)
    for name in ("t0", "t1", "__consumer_offsets"):
        assert not cluster.create_at(name, *[[1, 2, 3]] * 40).error_code
    everything = [(name, index) for name in ("t0", "t1", "__consumer_offsets") for index in range(40)]
    phases: list[Callable[[int], list[int] | None]] = [
        lambda _: [4, 5, 6],
        lambda index: None if index % 2 else [4, 5, 6, 1],
        lambda index: [1 + index % 6],
        lambda index: [2, 3, 4, 5, 6, 1][: 1 + index % 6],
    ]
    for phase in phases:
        cluster.ask(request([(name, index, phase(index)) for name, index in everything]))
        cluster.tick()
        image = MetadataImage()
        for batch in decode_batches(cluster.log.log_bytes()):
            if not batch.is_control:
                replay(image, batch.records, batch.base_offset)  # From bytes, records are read one by one.
        assert image_facts(image) == image_facts(cluster.image)
        assert image.usage.__dict__ == cluster.image.usage.__dict__
        assert not cluster.image.partitions.reassigning
