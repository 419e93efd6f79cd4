"""What in a delta is a cue for which work in the background.

A cue that is missed is work that waits, maybe for ever; one too many costs a look at all partitions.
"""

from dataclasses import fields
from typing import Any

import pytest

from klamm.broker.data.data_plane import DataPlane
from klamm.controller.background import Background
from klamm.controller.metadata.delta import Delta, PartitionRows
from klamm.controller.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, Topic
from klamm.controller.sessions import BrokerSessions
from klamm.controller.settings import Settings
from tests.controller.cluster_states import add_topic, live_cluster, uuid_of

LOSSES, RETURNS, CATCH_UP, ROOM = "losses", "returns", "catch-up", "room for placeholders"
ALL = {LOSSES, RETURNS, CATCH_UP, ROOM}
SETTINGS = Settings()


def idle() -> Background:
    """Work that has come to its end, of a cluster with a placeholder that nobody can fill."""
    image, data = live_cluster(1), DataPlane(SETTINGS)
    add_topic(image, 1, [[1, -1]])
    sessions = BrokerSessions(SETTINGS.broker_session_timeout_ms)
    background = Background(image, SETTINGS, data, sessions, lambda _: pytest.fail("there is nothing to do"), lambda: 0)
    assert cues(background) == ALL, "a start looks at everything"
    background.tick()
    while background.has_work:
        background.step()
    assert cues(background) == set()
    return background


def cues(background: Background) -> set[str]:
    flags = {
        LOSSES: background.losses_pending,
        RETURNS: background._may_have_returned,
        CATCH_UP: background._may_catch_up,
        ROOM: background._fills.is_due,
    }
    return {name for name, is_set in flags.items() if is_set}


def some_partitions() -> PartitionRows:
    rows = PartitionRows()
    rows.add(0, 0)
    return rows


T1 = Topic("t1", uuid_of(1), 0)
CUES: list[tuple[dict[str, Any], set[str]]] = [
    ({"end_offset": 9}, set()),
    ({"features": {"share.version"}}, set()),
    ({"brokers": {1}}, ALL),
    ({"unregistered": {2}}, {LOSSES, RETURNS, CATCH_UP}),
    ({"new_topics": [T1]}, set()),
    ({"removed_topics": [T1]}, {ROOM}),
    ({"new_partitions": some_partitions()}, set()),
    ({"changed_partitions": some_partitions()}, set()),
    ({"has_new_leaders": True}, {CATCH_UP}),
    ({"has_new_replicas": True}, {CATCH_UP}),
    ({"names_replicas": True}, {ROOM}),
    ({"configs": {(BROKER_RESOURCE, "", "max.broker.partitions")}}, {ROOM}),
    ({"configs": {(TOPIC_RESOURCE, "t1", "retention.ms")}}, set()),
    ({"client_quotas": {(("user", "alice"),)}}, set()),
    ({"producer_ids": True}, set()),
    ({"acls": {uuid_of(1)}}, set()),
]


@pytest.mark.parametrize(("touched", "expected"), CUES, ids=lambda value: " ".join(sorted(value)) or "nothing")
def test_what_is_touched_is_a_cue_for_work(touched: dict[str, Any], expected: set[str]) -> None:
    background = idle()
    background.follow(Delta(**touched))
    assert cues(background) == expected
    assert background.has_work == bool(expected - {RETURNS, CATCH_UP}), "the others begin at the next tick or step"


def test_every_field_of_a_delta_is_among_the_cues() -> None:
    assert {name for touched, _ in CUES for name in touched} == {one.name for one in fields(Delta)}


def test_who_is_down_or_no_longer_is_a_cue_for_those_who_catch_up() -> None:
    background = idle()
    background.brokers_went_down()
    assert cues(background) == {CATCH_UP}
