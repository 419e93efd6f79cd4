"""Share groups in the simulated cluster: each invariant about them is violated by a fault that it is about."""

from dataclasses import replace
from typing import Any

import pytest

from klamm.broker.share_partitions import acknowledgement
from klamm.broker.share_partitions.configs import ShareConfigsInForce
from klamm.broker.share_partitions.in_flight import RecordState
from klamm.broker.share_state.states import ShareStates
from tests.simulation.cluster.simulation import simulate

TRIED_SEEDS = range(40)


def _set_configs(monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    of = ShareConfigsInForce.of
    monkeypatch.setattr(
        ShareConfigsInForce, "of", lambda self, image, group_id: replace(of(self, image, group_id), **values)
    )


def locks_expire_early(monkeypatch: pytest.MonkeyPatch) -> None:
    _set_configs(monkeypatch, lock_duration_ms=300)


def accepted_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(acknowledgement._STATES, acknowledgement.ACCEPT, RecordState.AVAILABLE)


def released_is_archived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(acknowledgement._STATES, acknowledgement.RELEASE, RecordState.ARCHIVED)


def deliveries_have_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    _set_configs(monkeypatch, delivery_limit=100)


def updates_are_not_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a new share coordinator reads is snapshots only."""
    replay = ShareStates.replay

    def replayed(self: ShareStates, key: Any, value: Any, written: Any) -> None:
        if written.live or type(key).__name__ != "ShareUpdateKey":
            replay(self, key, value, written)

    monkeypatch.setattr(ShareStates, "replay", replayed)


@pytest.mark.parametrize(
    ("fault", "invariant", "first"),
    [
        (locks_expire_early, "a_record_is_acquired_by_one_member", 0),
        (accepted_is_released, "an_accepted_record_is_never_delivered_again", 0),
        (released_is_archived, "no_record_is_skipped", 2),
        (deliveries_have_no_limit, "a_record_is_delivered_up_to_the_limit", 1),
        (updates_are_not_replayed, "a_share_coordinator_is_what_its_records_make", 0),
    ],
)
def test_a_fault_violates_the_invariant_about_it(
    monkeypatch: pytest.MonkeyPatch, fault: Any, invariant: str, first: int
) -> None:
    """`first` is a seed that found the fault once, which is likely to find it again: it is tried before the others."""
    fault(monkeypatch)
    names = ((simulate(seed, traced=False).failure or "").split(":")[0] for seed in (first, *TRIED_SEEDS))
    assert invariant in names
