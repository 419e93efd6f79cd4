"""Ticks that a server leaves out would do nothing, whatever happens between them."""

import pytest

from tests.server.checked_ticks import check_ticks
from tests.simulation.cluster.simulation import simulate


@pytest.mark.parametrize("seed", [5, 9])
def test_ticks_that_are_left_out_would_do_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = check_ticks(monkeypatch)
    assert simulate(seed, steps=200, traced=False).failure is None
    assert left_out
