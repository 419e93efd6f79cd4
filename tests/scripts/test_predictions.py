"""What tools/predictions takes for a wrong prediction, and what for an explained difference."""

from dataclasses import replace

from klamm import TopicPartition
from klamm.controller.metadata.partition import RECOVERED, RECOVERING, Partition
from tools.predictions.differences import compare_changes, compare_refusals
from tools.predictions.sides import Refused

PARTITION = TopicPartition("t", 0)
BEGIN = Partition(replicas=(1, 2, 3), isr=(1,), leader=1, leader_epoch=4, partition_epoch=0, directories=())


def after(*states: Partition) -> list[Partition]:
    """The states with the partition epochs that they have one after the other."""
    return [replace(state, partition_epoch=number) for number, state in enumerate(states)]


def kinds(predicted: list[Partition], real: list[Partition], *uneven: str) -> list[str]:
    return [one.kind for one in compare_changes({PARTITION: predicted}, {PARTITION: real}, uneven)]


def test_replicas_may_join_one_by_one_or_at_once() -> None:
    both, second, third = (replace(BEGIN, isr=isr) for isr in ((1, 2, 3), (1, 2), (1, 3)))
    assert kinds(after(BEGIN, both), after(BEGIN, both)) == []
    assert kinds(after(BEGIN, both), after(BEGIN, second, both)) == ["joins"]
    assert kinds(after(BEGIN, both), after(BEGIN, third, both)) == ["joins"]
    assert kinds(after(BEGIN, both), after(BEGIN, second)) == ["changes"]
    assert kinds(after(BEGIN, both), after(BEGIN, second, BEGIN, both)) == ["changes"]


def test_a_leader_may_say_with_the_first_of_them_that_it_has_recovered() -> None:
    begin = replace(BEGIN, leader_recovery_state=RECOVERING)
    second, both = (replace(begin, isr=isr, leader_recovery_state=RECOVERED) for isr in ((1, 2), (1, 2, 3)))
    assert kinds(after(begin, both), after(begin, second, both)) == ["joins"]
    alone = replace(begin, leader_recovery_state=RECOVERED)
    assert kinds(after(begin, both), after(begin, alone, both)) == ["changes"], "that is a change of its own"


def test_a_reassignment_may_complete_with_the_first_of_them() -> None:
    """Case 31 of seed 5: a replica that is not added by the reassignment joins as the second one."""
    begin = replace(BEGIN, replicas=(1, 3, 2), adding_replicas=(1, 2))
    second, both = (replace(begin, isr=isr, adding_replicas=()) for isr in ((1, 2), (1, 2, 3)))
    assert kinds(after(begin, both), after(begin, second, both)) == ["joins"]
    third = replace(begin, isr=(1, 3))
    assert kinds(after(begin, both), after(begin, third, both)) == ["joins"]
    assert kinds(after(begin, both), after(begin, replace(third, adding_replicas=()), both)) == ["changes"]
    assert kinds(after(begin, both), after(begin, replace(second, adding_replicas=(1, 2)), both)) == ["changes"]


def test_replicas_may_leave_with_the_first_of_them() -> None:
    begin = replace(BEGIN, replicas=(1, 2, 3, 4), adding_replicas=(2,), removing_replicas=(4,), isr=(1, 4))
    lists = {"replicas": (1, 2, 3), "adding_replicas": (), "removing_replicas": ()}
    second, both = (replace(begin, **lists, isr=isr, leader_epoch=5) for isr in ((1, 2), (1, 2, 3)))  # type: ignore[arg-type]
    assert kinds(after(begin, both), after(begin, second, both)) == ["joins"]
    assert kinds(after(begin, both), after(begin, replace(second, leader_epoch=4), both)) == ["changes"]


def test_another_leader_or_another_epoch_is_no_explained_difference() -> None:
    elected = replace(BEGIN, leader=2, leader_epoch=5, isr=(1, 2))
    assert kinds(after(BEGIN, elected), after(BEGIN, replace(elected, leader_epoch=6))) == ["changes"]
    assert kinds(after(BEGIN, elected), after(BEGIN, replace(elected, leader=3))) == ["changes"]
    assert kinds(after(BEGIN), []) == ["changes"]


def test_other_eligible_leaders_are_explained_in_uneven_topics_alone() -> None:
    eligible = replace(BEGIN, eligible_leader_replicas=(2,))
    assert kinds(after(BEGIN, BEGIN), after(BEGIN, eligible)) == ["changes"]
    assert kinds(after(BEGIN, BEGIN), after(BEGIN, eligible), "other") == ["changes"]
    assert kinds(after(BEGIN, BEGIN), after(BEGIN, eligible), "t") == ["uneven"]


def test_changes_of_partitions_with_removed_eligible_leaders_are_explained() -> None:
    elected = replace(BEGIN, leader=2, leader_epoch=5, isr=(2,))
    ours, theirs = {PARTITION: after(BEGIN, elected)}, {PARTITION: after(BEGIN)}
    assert [one.kind for one in compare_changes(ours, theirs, (), {PARTITION})] == ["removed"]
    assert [one.kind for one in compare_changes(ours, theirs, ("t",), {PARTITION})] == ["removed"]
    assert [one.kind for one in compare_changes(ours, theirs, ("t",))] == ["changes"]


def test_refusals_differ_by_their_codes_and_by_their_texts() -> None:
    one, other = Refused("topic 'a'", "INVALID_PARTITIONS", "x"), Refused("topic 'b'", "INVALID_CONFIG", "y")
    assert list(compare_refusals([one, other], [other, one])) == []
    assert [found.kind for found in compare_refusals([one], [one._replace(message="z")])] == ["text"]
    assert [found.kind for found in compare_refusals([one], [one._replace(code="NONE")])] == ["refusal"]
    assert [found.kind for found in compare_refusals([one], [])] == ["refusal"]
    assert [found.kind for found in compare_refusals([], [one])] == ["refusal"]
