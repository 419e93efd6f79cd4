"""Steps of long work so small that a few partitions take several, and a loop until no work is left."""

import pytest

from klamm.controller.handlers.brokers import broker_heartbeat, broker_registration, unregister_broker
from klamm.controller.transitions import broker_lifecycle, long_work
from tests.controller.handlers.cluster import DrivenCluster

MOST_STEPS = 1_000


def make_steps_tiny(patch: pytest.MonkeyPatch) -> None:
    """A step changes at most two partitions."""
    for module in (broker_heartbeat, broker_registration, unregister_broker, long_work, broker_lifecycle):
        patch.setattr(module, "MAX_CHANGES_AT_ONCE", 2)
    patch.setattr("klamm.controller.background.MAX_CHANGES_AT_ONCE", 2)
    patch.setattr("klamm.controller.background.MANY_CHANGES", 0)
    patch.setattr(long_work, "ROWS_ALONE", 1)
    patch.setattr(broker_lifecycle, "MAX_ELECTIONS_AT_ONCE", 1)
    patch.setattr("klamm.controller.transitions.leadership.COST_ALONE", 1)
    patch.setattr("klamm.controller.transitions.leadership.COST_ELIGIBLE", 1)


def finish(cluster: DrivenCluster) -> int:
    """Works until none is left. Returns the number of steps."""
    steps = 0
    while cluster.controller.has_work:
        cluster.controller.work()
        steps += 1
        assert steps < MOST_STEPS, "work goes on for ever"
    return steps
