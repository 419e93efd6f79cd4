"""Some seeds of the simulated applications; each invariant is violated when the code has a fault that it is about."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from klamm.broker.coordinator.coordinators import Coordinators
from klamm.broker.coordinator.shard import Shard
from klamm.broker.coordinator.timers import Timers
from klamm.broker.data.partition_log import PartitionLog
from klamm.broker.data.producers import ProducerStates, WrittenBatch
from klamm.broker.data.record_batches import ProducedBatch
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.broker.data.transactions import PartitionTransactions
from klamm.broker.groups import offset_protocol
from klamm.broker.groups.assignors import ASSIGNORS
from klamm.broker.groups.assignors.simple import assign_simple
from klamm.broker.groups.consumer import target
from klamm.broker.groups.consumer.group import ConsumerGroup
from klamm.broker.groups.offsets import Offsets
from klamm.broker.groups.streams.group import StreamsGroup
from klamm.broker.share_partitions import acknowledgement
from klamm.broker.share_partitions.configs import ShareConfigsInForce
from klamm.broker.share_partitions.in_flight import RecordState
from klamm.broker.transactions import markers
from klamm.broker.transactions.transactions import Transactions
from klamm.protocol.errors import ApiError, ErrorCode
from tests.simulation.applications.command import main
from tests.simulation.applications.readers import FETCHED_BYTES
from tests.simulation.applications.simulation import ACTIONS, WEIGHTS, shrunk, simulate, steps_of
from tests.simulation.applications.world import SUBSCRIBED_PARTITIONS

ROOT = Path(__file__).resolve().parents[3]
SEEDS = range(8)
TRIED_SEEDS = range(40)
DEADLINE_SECONDS = 120


@pytest.mark.parametrize("seed", SEEDS)
def test_every_invariant_holds(seed: int) -> None:
    assert simulate(seed).failure is None


def test_a_seed_gives_the_same_bytes_in_every_process() -> None:
    command = [sys.executable, "-m", "tests.simulation.applications.command", "--seed", "3"]
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": str(ROOT)}
    there = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=DEADLINE_SECONDS
    )
    assert there.stdout.splitlines() == [f"the bytes of all partitions: {simulate(3).digest}", "passed"]


def test_every_action_has_a_weight() -> None:
    assert ACTIONS.keys() == WEIGHTS.keys()


def commits_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_protocol, "_refuse_commit", lambda *_args, **_keywords: ErrorCode.NONE)


def everything_is_stable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionTransactions, "last_stable_offset", lambda _self, high_watermark: high_watermark)


def nothing_is_owned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerGroup, "is_owned", lambda _self, _topic_id, _partition: False)


def no_task_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamsGroup, "active_process", lambda _self, _subtopology, _partition: None)


def nothing_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionTransactions, "aborted_between", lambda _self, _offset, _end_offset: [])


def no_epoch_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Transactions,
        "_find",
        lambda self, producer: self.by_id.get(producer.transactional_id) or ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    )
    monkeypatch.setattr("klamm.broker.data.producers.ProducerStates.check", lambda _self, _batch: None)


def nothing_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klamm.broker.transactions.transaction.Transaction.is_timed_out", lambda _self, _now_ms: False)


def aborted_offsets_count(monkeypatch: pytest.MonkeyPatch) -> None:
    end = Offsets.end_transaction
    monkeypatch.setattr(
        Offsets, "end_transaction", lambda self, producer_id, *, committed: end(self, producer_id, committed=True)
    )


def nothing_waits_for_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shard, "_acknowledged_end", lambda _self, found, _now_ms: found.log.log_end_offset)


def no_marker_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Coordinators, "apply_marker", lambda *_args, **_keywords: None)


def duplicates_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    check = ProducerStates.check

    def written_again(self: ProducerStates, batch: ProducedBatch) -> ApiError | WrittenBatch | None:
        found = check(self, batch)
        return found if isinstance(found, ApiError) else None

    monkeypatch.setattr(ProducerStates, "check", written_again)


def readers_miss_old_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    find = PartitionLog.find_batches

    def found(self: PartitionLog, offset: int, max_bytes: int, up_to_offset: int, **fields: Any) -> Any:
        is_reader = max_bytes == FETCHED_BYTES and offset <= self.log_end_offset
        first = max(offset, min(up_to_offset, self.log_end_offset - 20)) if is_reader else offset
        return find(self, first, max_bytes, up_to_offset, **fields)

    monkeypatch.setattr(PartitionLog, "find_batches", found)


def everything_is_replicated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplicatedLog, "high_watermark", lambda self, _now_ms: self.log.log_end_offset)


def markers_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    write: Any = markers.write_marker

    def written(*arguments: Any) -> Any:
        *others, partition, end, now_ms = arguments
        if partition == 1:
            end = replace(end, marker=end.marker._replace(is_commit=False))
        return write(*others, partition, end, now_ms)

    monkeypatch.setattr(markers, "write_marker", written)


def no_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Timers, "pop_due", lambda _self, _now_ms: None)


def a_partition_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_last(assign: Any) -> Any:
        return lambda spec: {
            member_id: {
                topic_id: tuple(one for one in partitions if one < SUBSCRIBED_PARTITIONS - 1)
                for topic_id, partitions in assignment.items()
            }
            for member_id, assignment in assign(spec).items()
        }

    monkeypatch.setattr(target, "ASSIGNORS", {name: without_the_last(assign) for name, assign in ASSIGNORS.items()})


def _set_share_configs(monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    of = ShareConfigsInForce.of
    monkeypatch.setattr(
        ShareConfigsInForce, "of", lambda self, image, group_id: replace(of(self, image, group_id), **values)
    )


def locks_expire_early(monkeypatch: pytest.MonkeyPatch) -> None:
    _set_share_configs(monkeypatch, lock_duration_ms=300)


def accepted_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(acknowledgement._STATES, acknowledgement.ACCEPT, RecordState.AVAILABLE)


def released_is_archived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(acknowledgement._STATES, acknowledgement.RELEASE, RecordState.ARCHIVED)


def deliveries_have_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    _set_share_configs(monkeypatch, delivery_limit=100)


def aborted_records_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klamm.broker.handlers.share.reading._aborted", lambda *_arguments: [])


def a_shared_partition_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "klamm.broker.groups.share.heartbeat.assign_simple",
        lambda spec, _ready: assign_simple(spec, lambda _topic_id, partition: partition > 0),
    )


@pytest.mark.parametrize(
    ("fault", "invariant", "first"),
    [
        (commits_of_all, "a_fenced_member_changes_nothing", 7),
        (everything_is_stable, "a_reader_of_committed_records_sees_no_others", 0),
        (nothing_is_owned, "a_partition_belongs_to_one_member", 1),
        (no_task_is_taken, "a_task_is_active_at_one_member", 0),
        (nothing_is_aborted, "a_reader_of_committed_records_sees_no_others", 0),
        (no_epoch_is_compared, "a_fenced_producer_changes_nothing", 0),
        (nothing_times_out, "every_transaction_ends", 8),
        (aborted_offsets_count, "offset_fetch_shows_the_last_acknowledged_commit", 1),
        (nothing_waits_for_replicas, "every_committed_record_is_seen", 24),
        (no_marker_is_applied, "a_coordinator_is_what_its_records_make", 0),
        (duplicates_are_written, "no_record_is_seen_twice", 12),
        (everything_is_replicated, "no_committed_record_is_lost", 20),
        (markers_differ, "every_committed_record_is_seen", 0),
        (readers_miss_old_batches, "readers_agree", 0),
        (no_session_ends, "every_group_becomes_stable", 0),
        (a_partition_is_forgotten, "every_partition_has_one_owner_in_the_end", 0),
        (locks_expire_early, "a_record_is_acquired_by_one_member", 1),
        (accepted_is_released, "an_accepted_record_is_never_delivered_again", 0),
        (released_is_archived, "no_record_is_skipped", 0),
        (deliveries_have_no_limit, "a_record_is_delivered_up_to_the_limit", 0),
        (aborted_records_are_given, "a_group_is_given_no_other_records", 0),
        (a_shared_partition_is_forgotten, "every_partition_has_an_owner_in_the_end", 0),
    ],
)
def test_a_fault_violates_the_invariant_about_it(
    monkeypatch: pytest.MonkeyPatch, fault: object, invariant: str, first: int
) -> None:
    """`first` is a seed that found the fault once, which is likely to find it again: it is tried before the others."""
    fault(monkeypatch)  # type: ignore[operator]
    names = ((simulate(seed).failure or "").split(":")[0] for seed in (first, *TRIED_SEEDS))
    assert invariant in names


def test_a_history_that_fails_is_shrunk_to_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing_is_owned(monkeypatch)
    invariant = "a_partition_belongs_to_one_member"
    seed = next(seed for seed in TRIED_SEEDS if (simulate(seed).failure or "").startswith(invariant))
    few = shrunk(seed, steps_of(seed))
    assert "join" in {name for name, _ in few}
    assert len(few) < len(steps_of(seed)) / 3


def test_a_seed_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    nothing_is_aborted(monkeypatch)
    assert main(["--seeds", "10", "--processes", "1"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("seed ")
    assert " failed: seeds " in told[-1]
