"""Compares what a twin predicted with what the real cluster did."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Final, Literal

from klamm import TopicPartition
from klamm.controller.metadata.partition import RECOVERED, Partition
from klamm.controller.transitions.reassignment import Assignment, assignment_of, completed
from tools.predictions.changes import State, without_elr
from tools.predictions.sides import Refused

Kind = Literal["refusal", "text", "state", "changes", "joins", "uneven", "removed"]
EXPLAINED: Final[Mapping[Kind, str]] = {
    "text": "the error is the same, and its text is another one",
    "joins": "replicas that catch up at the same time join the ISR in one change; on real brokers one after the other, "
    "in an order that depends on their fetches",
    "uneven": "the partitions of the topic have different numbers of replicas, and Apache Kafka takes that of its "
    "partition 0 for the greatest number of eligible leader replicas (docs/known-differences.md)",
    "removed": "a replica that a reassignment has removed is still an eligible leader replica of Apache Kafka, and "
    "prevents the last known leader from leading again (docs/known-differences.md)",
}
"""The kinds of differences that are no wrong predictions."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that was predicted otherwise."""

    kind: Kind
    """Another error code, another text of the same error, another final state, other changes on the way, or the same
    changes with other steps in which replicas join an ISR or other eligible leader replicas."""
    subject: str
    predicted: str
    real: str

    def __str__(self) -> str:
        return f"{self.kind} of {self.subject}\n      predicted {self.predicted}\n      was       {self.real}"


def compare_refusals(predicted: Sequence[Refused], real: Sequence[Refused]) -> Iterator[Difference]:
    """Differences of the errors of a request."""
    ours, theirs = {one.subject: one for one in predicted}, {one.subject: one for one in real}
    for subject in sorted(ours.keys() | theirs.keys()):
        mine, other = ours.get(subject), theirs.get(subject)
        if mine is None or other is None or mine.code != other.code:
            yield Difference("refusal", subject, str(mine), str(other))
        elif mine.message != other.message:
            yield Difference("text", subject, str(mine.message), str(other.message))


def compare_states(predicted: State, real: State, stale: Collection[TopicPartition] = ()) -> Iterator[Difference]:
    """Differences of partitions, brokers and configs. The controllers decide otherwise about `stale` partitions."""
    for what in ("partitions", "brokers", "configs"):
        ours, theirs = getattr(predicted, what), getattr(real, what)
        for key in sorted(ours.keys() | theirs.keys()):
            if ours.get(key) != theirs.get(key):
                kind: Kind = "removed" if key in stale else "state"
                yield Difference(kind, f"{what} {key}", str(ours.get(key)), str(theirs.get(key)))


def compare_changes(
    predicted: Mapping[TopicPartition, Sequence[Partition]],
    real: Mapping[TopicPartition, Sequence[Partition]],
    uneven: Collection[str],
    stale: Collection[TopicPartition] = (),
) -> Iterator[Difference]:
    """Differences of what each partition became, one after the other. `uneven` topics have partitions with different
    numbers of replicas, `stale` partitions have eligible leader replicas that were removed."""
    for partition in sorted(predicted.keys() | real.keys()):
        ours, theirs = predicted.get(partition, ()), real.get(partition, ())
        if ours != theirs:
            mine, other = _joined_at_once(ours), _joined_at_once(theirs)
            kind: Kind = "changes"
            if mine == other:
                kind = "joins"
            elif partition in stale:
                kind = "removed"
            elif partition.topic_name in uneven and _without_elr(mine) == _without_elr(other):
                kind = "uneven"
            yield Difference(kind, str(partition), _lines(ours), _lines(theirs))


def _joined_at_once(states: Sequence[Partition]) -> list[Partition]:
    """The states without those in which some of several new members are in the ISR already, and the partition epochs as
    if there were none."""
    found: list[Partition] = []
    left_out = 0
    for number, state in enumerate(states):
        before, after = states[max(0, number - 1)], states[min(number + 1, len(states) - 1)]
        if _is_growth(before, state) and set(after.isr) - set(state.isr):
            left_out += 1
        else:
            found.append(replace(state, partition_epoch=state.partition_epoch - left_out))
    return found


def _is_growth(before: Partition, state: Partition) -> bool:
    """Whether new members of the ISR, and a reassignment that completes with them, are all that is new."""
    remaining = set(before.isr)
    expected = replace(before, isr=state.isr, partition_epoch=state.partition_epoch, leader_recovery_state=RECOVERED)
    if done := completed(assignment_of(before), state.isr):
        remaining -= set(before.removing_replicas)
        leader_epoch = before.leader_epoch + bool(before.removing_replicas)
        expected = replace(expected, **Assignment(done[0])._asdict(), leader_epoch=leader_epoch)
    return replace(state, leader_recovery_state=RECOVERED) == expected and remaining < set(state.isr)


def _without_elr(states: Sequence[Partition]) -> list[Partition]:
    """The states as if there were no eligible leader replicas, without changes of these alone."""
    found: list[Partition] = []
    for state in states:
        blank = replace(without_elr(state), partition_epoch=0)
        if not found or blank != found[-1]:
            found.append(blank)
    return found


def _lines(states: Sequence[Partition]) -> str:
    """The first state, and what changes in each further one."""
    if not states:
        return "nothing"
    lines = [str(states[0])]
    for before, state in pairwise(states):
        names = [one.name for one in fields(state) if getattr(state, one.name) != getattr(before, one.name)]
        lines.append(" ".join(f"{name}={getattr(state, name)}" for name in names))
    return "".join(f"\n        {line}" for line in lines)
