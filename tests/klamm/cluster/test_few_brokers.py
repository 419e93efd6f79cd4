"""The configs of internal topics in a cluster with fewer brokers than Kafka's defaults need."""

import pytest

from klamm.cluster.options import checked_options
from klamm.cluster.plan import FREE_PORTS, plan_cluster

COUNTS = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
)


@pytest.mark.parametrize(
    ("brokers", "expected"), [(1, (1, 1, 1, 1, 1)), (2, (2, 2, 2, 2, 2)), (3, (3, 3, 2, 3, 2)), (4, (3, 3, 2, 3, 2))]
)
def test_internal_topics_need_no_more_brokers_than_there_are(brokers: int, expected: tuple[int, ...]) -> None:
    settings = plan_cluster(checked_options({"brokers": brokers}), {}, FREE_PORTS).settings
    assert tuple(settings.static_int(name) for name in COUNTS) == expected
    defaults = (3, 3, 2, 3, 2)
    assert set(settings.static_configs) == {
        name for name, count, default in zip(COUNTS, expected, defaults, strict=True) if count != default
    }


def test_a_value_that_was_given_counts() -> None:
    options = checked_options({"brokers": 1, "configs": {COUNTS[0]: "2"}})
    assert plan_cluster(options, {}, FREE_PORTS).settings.static_int(COUNTS[0]) == 2


def test_brokers_from_outside_may_come_and_be_enough_for_the_defaults() -> None:
    options = checked_options({"brokers": 1, "controller_listener": "127.0.0.1:0"})
    settings = plan_cluster(options, {}, FREE_PORTS).settings
    assert tuple(settings.static_int(name) for name in COUNTS) == (3, 3, 2, 3, 2)
    assert not set(settings.static_configs) & set(COUNTS)
