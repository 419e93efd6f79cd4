"""The state machine of one partition of `__share_group_state`: what it refuses and in which order, when it writes
snapshots, and which epochs it remembers."""

from typing import Any

import pytest

from klamm.broker.coordinator.outbox import Written
from klamm.broker.share_state import states as share_states
from klamm.broker.share_state.combiner import Batch
from klamm.broker.share_state.offset import ShareGroupOffset, SharePartitionKey
from klamm.broker.share_state.states import ShareStates, StateWrite
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.uuid import Uuid
from tests.broker.groups.consumer_host import TopicTable
from tests.broker.groups.test_all_groups import Answered

E = ErrorCode
AVAILABLE, ACKNOWLEDGED = 0, 2
PER_SNAPSHOT = 3


class States:
    """The state machine; records are replayed at once."""

    def __init__(self) -> None:
        self.topics = TopicTable()
        self.topic_id = self.topics.create("t", 2).topic_id
        self.machine = ShareStates(lambda: self.topics, PER_SNAPSHOT)
        self.now_ms = 100
        self.log: list[tuple[Any, Any]] = []
        self.last: list[Any] = []

    def key(self, partition: int = 0, topic_id: Uuid | None = None) -> SharePartitionKey:
        return SharePartitionKey("g", topic_id or self.topic_id, partition)

    def _run(self, outbox: Any, waiter: Answered) -> Any:
        self.last = [record.value for record in outbox.records]
        for reply in outbox.replies:
            reply.waiter.resolve(reply.response)
        for record in outbox.records:
            self.log.append((record.key, record.value))
            self.machine.replay(record.key, record.value, Written(len(self.log), self.now_ms, live=True))
        return waiter.response

    def _run_records(self, records: Any) -> None:
        for record in records:
            self.machine.replay(record.key, record.value, Written(0, self.now_ms, live=True))

    def initialize(self, state_epoch: int = 1, start: int = 0, **key: Any) -> int:
        waiter = Answered()
        found = self.machine.initialize(self.key(**key), state_epoch, start, waiter, self.now_ms)
        return code(self._run(found, waiter))

    def write(
        self,
        *batches: tuple[int, int, int, int],
        state_epoch: int = 1,
        leader_epoch: int = 0,
        start: int = -1,
        done: int = 0,
        **key: Any,
    ) -> int:
        waiter = Answered()
        written = StateWrite(state_epoch, leader_epoch, start, done, tuple(Batch(*one) for one in batches))
        return code(self._run(self.machine.write(self.key(**key), written, waiter, self.now_ms), waiter))

    def read(self, leader_epoch: int = 0, **key: Any) -> Any:
        waiter = Answered()
        return self._run(self.machine.read(self.key(**key), leader_epoch, waiter, self.now_ms), waiter)

    def summarize(self, **key: Any) -> Any:
        waiter = Answered()
        return self._run(self.machine.summarize(self.key(**key), waiter), waiter)

    def delete(self, **key: Any) -> int:
        waiter = Answered()
        return code(self._run(self.machine.delete(self.key(**key), waiter), waiter))

    @property
    def known(self) -> ShareGroupOffset:
        return self.machine.by_key[self.key()]

    def reload(self) -> None:
        """Another coordinator loads the records."""
        self.machine = ShareStates(lambda: self.topics, PER_SNAPSHOT)
        for offset, (key, value) in enumerate(self.log):
            self.machine.replay(key, value, Written(offset, 0))


def code(response: Any) -> int:
    return response.code if isinstance(response, ApiError) else 0


@pytest.fixture
def states() -> States:
    return States()


def kinds(states: States) -> list[str]:
    return [type(value).__name__ for value in states.last]


def test_an_initialization_is_a_snapshot_of_nothing(states: States) -> None:
    assert states.initialize(4, 7) == 0
    assert states.known == ShareGroupOffset(0, 4, 0, 7, 0, (), 100, 100)
    states.now_ms = 200
    assert states.initialize(5, -1) == 0
    assert states.known == ShareGroupOffset(1, 5, 0, -1, -1, (), 200, 200)
    assert states.write((3, 4, AVAILABLE, 1), state_epoch=5, start=3) == 0
    assert states.initialize(5, 9) == 0
    assert (states.known.batches, states.known.snapshot_epoch, states.known.start_offset) == ((), 2, 9)


@pytest.mark.parametrize("operation", ["initialize", "write", "read", "summarize", "delete"])
def test_what_no_operation_accepts(states: States, operation: str) -> None:
    states.initialize()
    ask = getattr(states, operation)
    assert code_of(ask(partition=-1)) == E.INVALID_REQUEST
    assert code_of(ask(partition=2)) in (E.UNKNOWN_TOPIC_OR_PARTITION, E.INVALID_REQUEST)
    assert states.last == []
    states.topics.delete("t")
    assert code_of(ask()) == E.UNKNOWN_TOPIC_OR_PARTITION
    assert states.last == []


def code_of(response: Any) -> int:
    return response if isinstance(response, int) else code(response)


def test_what_is_not_initialized_cannot_be_written_or_read(states: States) -> None:
    assert states.write() == E.INVALID_REQUEST
    assert code(states.read()) == E.INVALID_REQUEST
    assert states.summarize().start_offset == -1
    assert (states.delete(), states.last) == (0, [])


def test_epochs_of_leaders_and_of_the_group_fence(states: States) -> None:
    states.initialize(4)
    assert states.write(state_epoch=3, leader_epoch=0) == E.FENCED_STATE_EPOCH
    assert states.write(state_epoch=4, leader_epoch=0) == 0
    assert states.write(state_epoch=5, leader_epoch=0) == 0, "a later epoch of the group is no reason"
    assert states.read(leader_epoch=2).start_offset == 0
    assert states.write(state_epoch=3, leader_epoch=1) == E.FENCED_LEADER_EPOCH, "the leader comes first"
    assert states.write(state_epoch=4, leader_epoch=2) == 0
    assert states.write(state_epoch=-1, leader_epoch=-1) == 0, "epochs that are not compared"
    assert code(states.read(leader_epoch=1)) == E.FENCED_LEADER_EPOCH
    assert states.initialize(3) == E.FENCED_STATE_EPOCH
    assert states.initialize(-1) == 0
    assert states.initialize(3) == E.FENCED_STATE_EPOCH, "an initialization does not lower what is remembered"
    assert states.known.leader_epoch == 0
    assert code(states.read(leader_epoch=1)) == E.FENCED_LEADER_EPOCH


def test_a_read_notes_the_leader_s_epoch_once(states: States) -> None:
    states.initialize()
    assert states.write((0, 3, ACKNOWLEDGED, 1), (4, 5, AVAILABLE, 1), done=4) == 0
    states.read(leader_epoch=0)
    assert states.last == []
    states.read(leader_epoch=3)
    assert [(value.leader_epoch, value.start_offset, value.delivery_complete_count) for value in states.last] == [
        (3, 0, 4)
    ]
    states.read(leader_epoch=3)
    states.read(leader_epoch=-1)
    assert states.last == []
    assert states.known.batches == (Batch(0, 3, ACKNOWLEDGED, 1), Batch(4, 5, AVAILABLE, 1))


def test_updates_have_what_changed_and_a_snapshot_comes_after_so_many(states: States) -> None:
    states.initialize()
    for offset in range(PER_SNAPSHOT):
        assert states.write((offset, offset, AVAILABLE, 1), done=offset) == 0
        assert kinds(states) == ["ShareUpdateValue"]
        assert [(one.first_offset, one.last_offset) for one in states.last[0].state_batches] == [(offset, offset)]
        assert (states.last[0].snapshot_epoch, states.last[0].start_offset) == (0, -1)
    states.now_ms = 300
    assert states.write((3, 3, AVAILABLE, 1), start=1, done=2) == 0
    assert kinds(states) == ["ShareSnapshotValue"]
    assert states.known == ShareGroupOffset(1, 1, 0, 1, 2, (Batch(1, 3, AVAILABLE, 1),), 300, 300)
    assert states.write((4, 4, AVAILABLE, 2)) == 0
    assert kinds(states) == ["ShareUpdateValue"]
    assert states.last[0].snapshot_epoch == 1


def test_updates_of_a_partition_are_counted_for_it_alone(states: States) -> None:
    states.initialize()
    states.initialize(partition=1)
    for _ in range(PER_SNAPSHOT):
        states.write()
        states.write(partition=1)
        assert kinds(states) == ["ShareUpdateValue"]
    states.write()
    assert kinds(states) == ["ShareSnapshotValue"]
    states.write(partition=1)
    assert kinds(states) == ["ShareSnapshotValue"]
    for _ in range(PER_SNAPSHOT):
        states.write()
        assert kinds(states) == ["ShareUpdateValue"]


def test_a_write_keeps_the_start_offset_unless_it_has_one(states: States) -> None:
    states.initialize(1, 5)
    states.write((5, 9, AVAILABLE, 1))
    assert states.known.start_offset == 5
    states.write(start=7)
    assert (states.known.start_offset, states.known.batches) == (7, (Batch(7, 9, AVAILABLE, 1),))
    states.write(start=0)
    assert states.known.start_offset == 0, "0 is an offset"


def test_a_write_has_at_most_so_many_batches(states: States, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_states, "MAX_BATCHES", 2)
    states.initialize()
    assert states.write((0, 0, 0, 1), (2, 2, 0, 1), (4, 4, 0, 1)) == E.INVALID_REQUEST
    assert (states.last, states.known.batches) == ([], ())
    assert states.write((0, 0, 0, 1), (2, 2, 0, 1)) == 0


def test_only_so_many_share_partitions_are_known(states: States, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_states, "MAX_STATES", 1)
    assert states.initialize() == 0
    assert states.initialize(partition=1) == E.COORDINATOR_NOT_AVAILABLE
    assert states.initialize() == 0, "known already"
    assert states.delete() == 0
    assert states.initialize(partition=1) == 0


def test_what_is_deleted_may_begin_with_lower_epochs(states: States) -> None:
    states.initialize(9)
    states.read(leader_epoch=5)
    assert states.delete() == 0
    assert states.last == [None]
    assert states.machine.by_key == {}
    assert states.initialize(1) == 0
    assert states.read(leader_epoch=1).state_epoch == 1
    assert states.known.snapshot_epoch == 0


def test_a_new_coordinator_knows_states_and_epochs(states: States) -> None:
    states.initialize(4)
    states.initialize(2, partition=1)
    for offset in range(PER_SNAPSHOT + 2):
        states.write((offset, offset, AVAILABLE, 1), state_epoch=4, start=0, done=1)
    states.read(leader_epoch=6)
    states.delete(partition=1)
    before = states.known
    states.reload()
    assert states.machine.by_key == {states.key(): before}
    assert states.write(state_epoch=3, leader_epoch=6) == E.FENCED_STATE_EPOCH
    assert states.write(state_epoch=4, leader_epoch=5) == E.FENCED_LEADER_EPOCH
    for _ in range(PER_SNAPSHOT - 2):
        states.write(state_epoch=4, leader_epoch=6)
        assert kinds(states) == ["ShareUpdateValue"]
    states.write(state_epoch=4, leader_epoch=6)
    assert kinds(states) == ["ShareSnapshotValue"], "updates are counted from the last snapshot in the log"


def test_a_summary_is_what_is_known(states: States) -> None:
    states.initialize(4, 7)
    states.write((7, 8, AVAILABLE, 1), state_epoch=4, leader_epoch=2, done=0)
    found = states.summarize()
    assert (found.start_offset, found.state_epoch, found.batches) == (7, 4, (Batch(7, 8, AVAILABLE, 1),))
    assert states.last == []


def test_states_of_topics_that_are_gone_are_removed(states: States) -> None:
    states.initialize()
    other = states.topics.create("u", 1).topic_id
    states.initialize(topic_id=other)
    states.topics.delete("t")
    states._run(states.machine.topics_removed(["t"]), Answered())
    assert states.last == [None]
    assert list(states.machine.by_key) == [states.key(topic_id=other)]


def test_states_of_topics_that_went_while_no_coordinator_was_loaded_are_removed(states: States) -> None:
    states.initialize()
    other = states.topics.create("u", 1).topic_id
    states.initialize(topic_id=other)
    states.topics.delete("t")
    states.reload()
    states._run(states.machine.loaded(states.now_ms), Answered())
    assert states.last == [None]
    assert list(states.machine.by_key) == [states.key(topic_id=other)]


def test_snapshots_replace_all_that_is_known(states: States, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_states, "SNAPSHOTS_AT_ONCE", 2)
    states.topics.grow("t", 3)
    for partition in range(3):
        states.initialize(partition=partition)
        states.write((1, 2, AVAILABLE, 1), partition=partition, leader_epoch=0, done=1)
    before = dict(states.machine.by_key)
    written = []
    steps = states.machine.snapshots()
    written += next(steps)
    states._run_records(written)
    assert len(written) == 2
    states.delete(partition=2)
    written += [record for step in steps for record in step]
    assert len(written) == 2, "what was deleted meanwhile"
    states.machine = ShareStates(lambda: states.topics, PER_SNAPSHOT)
    states._run_records(written)
    after = states.machine.by_key
    assert [(key.partition, one.snapshot_epoch) for key, one in after.items()] == [(0, 1), (1, 1)]
    for key, one in after.items():
        assert (one.batches, one.start_offset, one.delivery_complete_count, one.state_epoch) == (
            before[key].batches,
            before[key].start_offset,
            1,
            1,
        )
