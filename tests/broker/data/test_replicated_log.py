"""How much of one partition's log each replica has: named cases, and invariants after any sequence of events."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from klamm.broker.data.partition_log import PartitionLog
from klamm.broker.data.record_batches import ProducedBatch, read_produced
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.controller.metadata.partition import Partition
from klamm.protocol.uuid import ZERO_UUID
from tests.broker.data.batches import batch
from tests.broker.data.rooms import room

NOW = 1_700_000_000_000
LAG_MAX_MS = 30_000
REPLICAS = (1, 2, 3)


def produced(records: int) -> ProducedBatch:
    found = read_produced(batch(records), api_version=11, max_message_bytes=1_000_000)
    assert isinstance(found, ProducedBatch)
    return found


def led_by(leader: int, epoch: int, isr: tuple[int, ...], replicas: tuple[int, ...] = REPLICAS) -> Partition:
    return Partition(replicas, isr, leader, epoch, epoch, directories=(ZERO_UUID,) * len(replicas))


def everybody(_broker_id: int) -> bool:
    return True


def all_but(*down: int) -> Callable[[int], bool]:
    return lambda broker_id: broker_id not in down


def new_log(rate: int = 100, isr: tuple[int, ...] = REPLICAS, start: int = 0, min_isr: int = 1) -> ReplicatedLog:
    log = ReplicatedLog(PartitionLog(room(), start), rate)
    assert log.follow(led_by(1, 0, isr), everybody, NOW, min_isr)
    return log


def test_followers_fetch_at_their_rate() -> None:
    log = new_log(rate=100)
    assert log.append(produced(50), NOW) == 0
    assert [log.lag(replica, NOW) for replica in REPLICAS] == [0, 50, 50]
    assert [log.lag(2, NOW + ms) for ms in (9, 10, 99, 499, 10_000)] == [49, 49, 40, 0, 0]
    assert log.high_watermark(NOW + 99) == 10


def test_what_is_small_arrives_in_the_millisecond_it_was_written_in() -> None:
    log = new_log(rate=1_000_000)
    log.append(produced(1000), NOW)
    assert log.high_watermark(NOW) == 1000
    log.append(produced(1001), NOW)
    assert log.high_watermark(NOW) == 2000
    assert log.high_watermark(NOW + 1) == 2001


def test_a_follower_that_lags_goes_on_from_where_it_is_when_more_is_written() -> None:
    log = new_log(rate=100)
    log.append(produced(10), NOW)
    log.append(produced(10), NOW + 49)
    assert log.lag(2, NOW + 49) == 15
    assert log.lag(2, NOW + 199) == 0


def test_a_replica_that_is_added_begins_with_nothing_and_is_caught_up_at_its_time() -> None:
    log = new_log(rate=1000, isr=(1, 2))
    log.append(produced(500), NOW)
    log.follow(led_by(1, 0, (1, 2), (1, 2, 4)), everybody, NOW + 1000)
    assert log.lag(4, NOW + 1000) == 499
    assert log.due_ms(NOW + 1000, LAG_MAX_MS) == NOW + 1499
    assert log.caught_up(NOW + 1498) == ()
    assert log.caught_up(NOW + 1499) == (4,)


def test_who_is_down_fetches_nothing_and_goes_on_when_it_is_back() -> None:
    log = new_log(rate=1000)
    log.follow(led_by(1, 0, REPLICAS), all_but(3), NOW)
    log.append(produced(100), NOW)
    assert log.lag(3, NOW + 5000) == 100
    assert log.high_watermark(NOW + 5000) == 0
    assert log.reaches_at_ms(100, NOW + 5000) is None
    log.follow(led_by(1, 0, REPLICAS), everybody, NOW + 5000)
    assert log.reaches_at_ms(100, NOW + 5000) == NOW + 5099


def test_nobody_fetches_from_a_leader_that_is_down() -> None:
    log = new_log(rate=1000)
    log.append(produced(100), NOW)
    log.follow(led_by(1, 0, REPLICAS), all_but(1), NOW + 49)
    assert log.lag(2, NOW + 9000) == 50
    assert log.lag(1, NOW + 9000) == 0


def test_a_leader_that_lacks_the_end_cuts_it_off_in_whole_batches() -> None:
    log = new_log(rate=1000)
    log.append(produced(60), NOW)
    log.append(produced(60), NOW)
    log.follow(led_by(2, 1, (2, 3)), all_but(1), NOW + 99)
    assert log.log.log_end_offset == 60, "of the second batch it had 40 records, which is not the batch"
    assert log.lag(1, NOW + 99) == 0
    assert log.high_watermark(NOW + 99) == 60
    log.append(produced(5), NOW + 100)
    assert log.log.epoch_end_offset(0) == (0, 60)


def test_a_leader_that_comes_back_has_what_it_had() -> None:
    log = new_log(rate=1000)
    log.append(produced(100), NOW)
    log.follow(replace(led_by(-1, 1, (1,)), last_known_elr=()), all_but(1), NOW)
    log.follow(led_by(1, 2, (1,)), everybody, NOW + 9000)
    assert log.log.log_end_offset == 100
    assert log.high_watermark(NOW + 9000) == 100


def test_a_member_of_the_isr_falls_behind_when_it_lacks_a_record_for_too_long() -> None:
    log = new_log(rate=1)
    log.append(produced(2), NOW)
    log.append(produced(100), NOW + 20_000)
    # By then it has 32 of 102 records: those that it lacks were written 12 s before.
    assert log.fallen_behind(NOW + 32_000, LAG_MAX_MS) == ()
    assert log.due_ms(NOW + 32_000, LAG_MAX_MS) == NOW + 50_001
    assert log.fallen_behind(NOW + 50_000, LAG_MAX_MS) == ()
    assert log.fallen_behind(NOW + 50_001, LAG_MAX_MS) == (2, 3)


def test_records_that_went_are_not_fetched_any_more() -> None:
    log = new_log(rate=1, isr=(1,))
    log.follow(led_by(1, 0, (1,)), everybody, NOW)
    for _ in range(3):
        log.append(produced(10), NOW)
    log.log.delete_before(20)
    assert log.lag(2, NOW) == 10


def test_an_empty_log_that_is_restored_has_everybody_caught_up() -> None:
    log = new_log(isr=(1,), start=500)
    assert log.high_watermark(NOW) == 500
    assert log.caught_up(NOW) == (2, 3)


def test_with_too_few_in_sync_nothing_is_committed_until_there_are_enough() -> None:
    log = new_log(rate=1000, min_isr=2)
    log.append(produced(100), NOW)
    log.follow(led_by(1, 0, (1,)), all_but(2, 3), NOW + 49, 2)
    log.append(produced(10), NOW + 60)
    assert log.high_watermark(NOW + 49) == log.high_watermark(NOW + 9000) == 50, "it stays where it was"
    assert log.reaches_at_ms(50, NOW + 9000) == NOW + 9000
    assert log.reaches_at_ms(51, NOW + 9000) is None
    log.follow(led_by(1, 0, (1,)), all_but(3), NOW + 9000, 2)
    assert log.due_ms(NOW + 9000, LAG_MAX_MS) == NOW + 9000, "who has what is committed joins"
    log.follow(led_by(1, 0, (1, 2)), all_but(3), NOW + 9000, 2)
    assert log.reaches_at_ms(110, NOW + 9000) == NOW + 9059
    assert [log.high_watermark(NOW + 9000 + ms) for ms in (0, 58, 59)] == [51, 109, 110]


@pytest.mark.parametrize(("min_isr", "committed"), [(1, 10), (2, 10), (3, 0), (9, 0)])
def test_of_fewer_replicas_than_the_minimum_all_have_to_be_in_sync(min_isr: int, committed: int) -> None:
    log = ReplicatedLog(PartitionLog(room()), 1000)
    log.follow(led_by(1, 0, (1, 2), (1, 2, -1)), everybody, NOW, min_isr)
    log.append(produced(10), NOW)
    assert log.high_watermark(NOW + 1000) == committed, "a placeholder (KIP-409) is a replica, too"


def test_another_minimum_is_news_and_counts_from_then_on() -> None:
    log = new_log(rate=1000, isr=(1,), min_isr=2)
    log.append(produced(10), NOW)
    assert log.high_watermark(NOW) == 0
    assert not log.follow(led_by(1, 0, (1,)), everybody, NOW, 2)
    assert log.follow(led_by(1, 0, (1,)), everybody, NOW, 1)
    assert log.high_watermark(NOW) == 10
    log.append(produced(10), NOW)
    assert log.high_watermark(NOW) == 20
    log.append(produced(10), NOW + 1)
    assert log.follow(led_by(1, 0, (1,)), everybody, NOW + 1, 2)
    assert log.high_watermark(NOW + 1) == 30, "what was committed by then stays so"


def test_a_member_of_the_isr_that_is_no_replica_counts_for_nothing() -> None:
    """A metadata log of another program may contain that."""
    log = new_log(rate=10)
    log.follow(led_by(1, 0, (1, 2, 9)), everybody, NOW)
    log.append(produced(10), NOW)
    assert log.fallen_behind(NOW + 999, 0) == ()
    assert log.fallen_behind(NOW + 998, 0) == (2,)
    assert (log.reaches_at_ms(10, NOW), log.high_watermark(NOW + 999)) == (NOW + 999, 10)


def test_without_a_leader_nobody_fetches() -> None:
    log = new_log(rate=10)
    log.append(produced(10), NOW)
    log.follow(led_by(-1, 1, (1,)), everybody, NOW)
    assert [log.lag(replica, NOW + 9000) for replica in REPLICAS] == [0, 10, 10]
    assert (log.due_ms(NOW, LAG_MAX_MS), log.caught_up(NOW)) == (None, ())


@pytest.mark.parametrize("broker_id", [4, -1])
def test_who_has_no_replica_has_no_lag(broker_id: int) -> None:
    with pytest.raises(KeyError):
        new_log().lag(broker_id, NOW)


def test_a_follower_short_of_the_new_leader_s_epoch_stays_out_of_the_isr() -> None:
    """Although it has everything that is committed, which is nothing while too few replicas are in sync."""
    log = new_log(rate=10, min_isr=2)
    log.follow(led_by(1, 0, REPLICAS), all_but(3), NOW, 2)
    for _ in range(3):
        log.append(produced(10), NOW)
    elected_ms, joins_ms = NOW + 999, NOW + 1998
    log.follow(led_by(2, 1, (2,)), all_but(1), elected_ms, 2)
    assert (log.epoch_start, log.high_watermark(elected_ms)) == (10, 0)
    assert log.due_ms(elected_ms, LAG_MAX_MS) == joins_ms
    assert [log.caught_up(ms) for ms in (elected_ms, joins_ms - 1, joins_ms)] == [(), (), (3,)]


class ReplicatedLogMachine(RuleBasedStateMachine):
    """One partition, with every event that the controller can cause."""

    @initialize(rate=st.sampled_from([1, 7, 1000, 1_000_000]))
    def begin(self, rate: int) -> None:
        self.now = NOW
        self.partition = led_by(1, 0, REPLICAS)
        self.down: set[int] = set()
        self.acknowledged = 0
        self.min_isr = 1
        self.log = ReplicatedLog(PartitionLog(room()), rate)
        self.follow()

    def follow(self) -> None:
        self.log.follow(self.partition, all_but(*self.down), self.now, self.min_isr)

    @rule(min_isr=st.integers(1, 4))
    def ask_for_others_in_sync(self, min_isr: int) -> None:
        before = self.log.high_watermark(self.now)
        self.min_isr = min_isr
        self.follow()
        assert len(self.partition.isr) >= min(min_isr, 3) or self.log.high_watermark(self.now) == before

    @precondition(lambda self: self.partition.leader >= 0 and self.partition.leader not in self.down)
    @rule(records=st.sampled_from([1, 2, 10, 3000]))
    def produce(self, records: int) -> None:
        self.log.append(produced(records), self.now)

    @rule(ms=st.sampled_from([0, 1, 2, 999, 1000, 40_000]))
    def wait(self, ms: int) -> None:
        before = {replica: self.log.log_end_offset(replica, self.now) for replica in self.log.replicas}
        watermark, target = self.log.high_watermark(self.now), self.log.log.log_end_offset
        due = self.log.reaches_at_ms(target, self.now)
        self.now += ms
        assert all(self.log.log_end_offset(replica, self.now) >= offset for replica, offset in before.items())
        assert (self.log.high_watermark(self.now) >= target) == (due is not None and due <= self.now)
        if len(self.partition.isr) < min(self.min_isr, len(REPLICAS)):
            assert self.log.high_watermark(self.now) == watermark

    @rule(broker_id=st.sampled_from(REPLICAS), up=st.booleans())
    def crash_or_return(self, broker_id: int, up: bool) -> None:
        (self.down.discard if up else self.down.add)(broker_id)
        self.follow()

    @rule()
    def fence_who_is_down(self) -> None:
        isr = tuple(replica for replica in self.partition.isr if replica not in self.down)
        if isr:
            self.change(isr=isr, leader=self.partition.leader if self.partition.leader in isr else isr[0])
        else:
            self.change(isr=self.partition.isr[:1], leader=-1)

    @precondition(lambda self: self.partition.leader < 0)
    @rule()
    def lead_again(self) -> None:
        if self.partition.isr[0] not in self.down:
            self.change(leader=self.partition.isr[0])

    @precondition(lambda self: self.partition.leader >= 0)
    @rule(broker_id=st.sampled_from(REPLICAS))
    def elect(self, broker_id: int) -> None:
        if broker_id in self.partition.isr and broker_id not in self.down:
            self.change(leader=broker_id)

    @rule()
    def join_and_leave(self) -> None:
        if self.partition.leader >= 0:
            behind = self.log.fallen_behind(self.now, LAG_MAX_MS)
            joining = self.log.caught_up(self.now)
            assert self.partition.leader not in behind
            isr = tuple(replica for replica in self.partition.isr if replica not in behind)
            self.change(isr=isr + joining)

    def change(self, *, leader: int | None = None, isr: tuple[int, ...] | None = None) -> None:
        leads = self.partition.leader if leader is None else leader
        self.partition = replace(
            self.partition,
            leader=leads,
            isr=self.partition.isr if isr is None else isr,
            leader_epoch=self.partition.leader_epoch + (leads != self.partition.leader),
            partition_epoch=self.partition.partition_epoch + 1,
        )
        self.follow()

    @invariant()
    def positions_are_sound(self) -> None:
        if not hasattr(self, "log"):
            return
        end = self.log.log.log_end_offset
        for replica in self.log.replicas:
            assert 0 <= self.log.log_end_offset(replica, self.now) <= end
            assert self.log.lag(replica, self.now) >= 0
        assert self.log.high_watermark(self.now) <= end

    @invariant()
    def nothing_committed_is_lost(self) -> None:
        """With any leader and any rest of the ISR: what a whole ISR had is still there."""
        if not hasattr(self, "log"):
            return
        watermark = self.log.high_watermark(self.now)
        # An acknowledgement is given for whole batches.
        self.acknowledged = max(self.acknowledged, self.log.log.batch_start(watermark))
        assert self.log.log.log_end_offset >= self.acknowledged
        for replica in self.partition.isr:
            assert self.log.log_end_offset(replica, self.now) >= self.acknowledged


def test_whatever_happens_positions_are_sound_and_nothing_committed_is_lost() -> None:
    run_state_machine_as_test(ReplicatedLogMachine)
