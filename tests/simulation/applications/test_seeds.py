"""Some seeds of the simulated applications; each invariant is violated when the code has a fault that it is about."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from klamm.broker.coordinator.shard import Shard
from klamm.broker.data.transactions import PartitionTransactions
from klamm.broker.groups import offset_protocol
from klamm.broker.groups.consumer.group import ConsumerGroup
from klamm.broker.groups.offsets import Offsets
from klamm.broker.transactions.transactions import Transactions
from klamm.protocol.errors import ErrorCode
from tests.simulation.applications.command import main
from tests.simulation.applications.simulation import ACTIONS, WEIGHTS, shrunk, simulate, steps_of

ROOT = Path(__file__).resolve().parents[3]
SEEDS = range(20)
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


@pytest.mark.parametrize(
    ("fault", "invariant"),
    [
        (commits_of_all, "a_fenced_member_changes_nothing"),
        (everything_is_stable, "a_reader_of_committed_records_sees_no_others"),
        (nothing_is_owned, "a_partition_belongs_to_one_member"),
        (nothing_is_aborted, "a_reader_of_committed_records_sees_no_others"),
        (no_epoch_is_compared, "a_fenced_producer_changes_nothing"),
        (nothing_times_out, "every_transaction_ends"),
        (aborted_offsets_count, "offset_fetch_shows_the_last_acknowledged_commit"),
        (nothing_waits_for_replicas, "every_committed_record_is_seen"),
    ],
)
def test_a_fault_violates_the_invariant_about_it(
    monkeypatch: pytest.MonkeyPatch, fault: object, invariant: str
) -> None:
    fault(monkeypatch)  # type: ignore[operator]
    names = ((simulate(seed).failure or "").split(":")[0] for seed in TRIED_SEEDS)
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
