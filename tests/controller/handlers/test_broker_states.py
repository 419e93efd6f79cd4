"""The transitions of a broker from each of its states: when it registers again, and with each kind of heartbeat."""

from collections.abc import Callable
from dataclasses import fields
from itertools import product
from typing import Any

import pytest

from klamm.controller.metadata.broker import BrokerState, EndPoint
from klamm.controller.transitions.broker_lifecycle import TRANSITIONS, BrokerStatus, Wish
from klamm.controller.transitions.features import SUPPORTED_FEATURES
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.broker_registration import Feature, Listener
from tests.controller.handlers.cluster import DrivenCluster, directory

BROKER = 3
State = Callable[[DrivenCluster], object]


def lead(cluster: DrivenCluster) -> None:
    assert cluster.create_at("t", [BROKER, 1]).error_code == ErrorCode.NONE


def begin_to_stop(cluster: DrivenCluster) -> None:
    lead(cluster)
    assert not cluster.heartbeat(BROKER, want_shut_down=True).should_shut_down


def stop(cluster: DrivenCluster) -> None:
    begin_to_stop(cluster)
    assert cluster.heartbeat(BROKER, want_shut_down=True).should_shut_down


STATES: dict[str, State] = {
    "idle": lambda _: None,
    "leading": lead,
    "fenced": lambda cluster: cluster.heartbeat(BROKER, want_fence=True),
    "stopping": begin_to_stop,
    "stopped": stop,
    "cordoned": lambda cluster: cluster.heartbeat(BROKER, cordoned_log_dirs=[directory(BROKER)]),
}


def broker(cluster: DrivenCluster) -> BrokerState:
    return cluster.image.brokers[BROKER]


# Registering again

REQUESTED: dict[str, tuple[dict[str, Any], object]] = {
    "rack": ({"rack": "elsewhere"}, "elsewhere"),
    "end_points": (
        {"listeners": [Listener(name="SSL", host="::1", port=4711, security_protocol=1)]},
        (EndPoint("SSL", "::1", 4711, 1),),
    ),
    "features": (
        {
            "features": [
                Feature(name=name, min_supported_version=lowest, max_supported_version=highest + 1)
                for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            ]
        },
        tuple((name, lowest, highest + 1) for name, (lowest, highest) in SUPPORTED_FEATURES.items()),
    ),
    "log_dirs": (
        {"log_dirs": [directory(BROKER, 2), directory(BROKER, 1)]},
        (directory(BROKER, 1), directory(BROKER, 2)),
    ),
}
"""By field: a value in the request, and the facts about the broker after it."""
KEPT = {"broker_id", "broker_epoch", "incarnation_id", "fenced", "in_controlled_shutdown"}
NOT_KNOWN_ANY_MORE = {"cordoned_log_dirs"}
"""A registration does not have these fields; the next heartbeat has."""


@pytest.mark.parametrize("name", [one.name for one in fields(BrokerState)])
@pytest.mark.parametrize("state", STATES)
def test_the_same_incarnation_changes_what_it_names_and_keeps_where_it_stands(
    cluster: DrivenCluster, state: str, name: str
) -> None:
    STATES[state](cluster)
    before = {one.name: getattr(broker(cluster), one.name) for one in fields(BrokerState)}
    assert name in {*REQUESTED, *KEPT, *NOT_KNOWN_ANY_MORE}
    said, expected = REQUESTED.get(name, ({}, before[name]))
    response = cluster.register(BROKER, **said)
    assert (response.error_code, response.broker_epoch) == (ErrorCode.NONE, before["broker_epoch"])
    after = {one.name: getattr(broker(cluster), one.name) for one in fields(BrokerState)}
    assert after == {**before, name: expected, "cordoned_log_dirs": None}


# Heartbeats

WISHES: dict[str, dict[str, Any]] = {
    "serve": {},
    "be fenced": {"want_fence": True},
    "stop": {"want_shut_down": True},
    "be fenced and stop": {"want_fence": True, "want_shut_down": True},
}
READ = ("everything", "its registration", "nothing")
FENCED, SERVING, STOPPING, TOLD_TO_STOP = "fenced", "serving", "stopping", "told to stop"
EXPECTED: dict[str, dict[str, tuple[str, str, str]]] = {
    "fenced": {
        "serve": (SERVING, SERVING, FENCED),
        "be fenced": (FENCED,) * 3,
        "stop": (TOLD_TO_STOP,) * 3,
        "be fenced and stop": (TOLD_TO_STOP,) * 3,
    },
    "idle": {
        "serve": (SERVING,) * 3,
        "be fenced": (FENCED,) * 3,
        "stop": (TOLD_TO_STOP,) * 3,
        "be fenced and stop": (TOLD_TO_STOP,) * 3,
    },
    "leading": {
        "serve": (SERVING,) * 3,
        "be fenced": (FENCED,) * 3,
        "stop": (STOPPING,) * 3,
        "be fenced and stop": (TOLD_TO_STOP,) * 3,
    },
    "stopping": {
        "serve": (STOPPING,) * 3,
        "be fenced": (STOPPING,) * 3,
        "stop": (TOLD_TO_STOP, STOPPING, STOPPING),
        "be fenced and stop": (TOLD_TO_STOP, STOPPING, STOPPING),
    },
    "stopped": {
        "serve": (FENCED,) * 3,
        "be fenced": (FENCED,) * 3,
        "stop": (TOLD_TO_STOP,) * 3,
        "be fenced and stop": (TOLD_TO_STOP,) * 3,
    },
}
"""By state and request: the state after a heartbeat of a broker that has read everything, its registration, or
nothing."""


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize("state", EXPECTED)
def test_every_heartbeat_in_every_state(cluster: DrivenCluster, state: str, wish: str, read: str) -> None:
    STATES[state](cluster)
    offsets = {"everything": cluster.log.end_offset - 1, "its registration": broker(cluster).broker_epoch, "nothing": 0}
    answer = cluster.heartbeat(BROKER, current_metadata_offset=offsets[read], **WISHES[wish])
    expected = EXPECTED[state][wish][READ.index(read)]
    assert answer.error_code == ErrorCode.NONE
    assert answer.is_caught_up == (read != "nothing")
    assert answer.is_fenced == broker(cluster).fenced == (expected in (FENCED, TOLD_TO_STOP))
    assert answer.should_shut_down == (expected == TOLD_TO_STOP)
    assert broker(cluster).in_controlled_shutdown == (expected == STOPPING or state in ("stopping", "stopped"))


def test_no_heartbeat_is_illegal_in_any_state() -> None:
    registered = {BrokerStatus.FENCED, BrokerStatus.UNFENCED, BrokerStatus.CONTROLLED_SHUTDOWN}
    assert set(TRANSITIONS) == set(product(registered, Wish))
