"""Which parts of a delta start which background work. A part that is missed means work that waits, maybe for ever; a
superfluous one costs a check of all partitions."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from klamm.broker.data import data_plane
from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.record_batches import ProducedBatch, read_produced
from klamm.controller.background import Background
from klamm.controller.effects import Departing
from klamm.controller.log_records import Record
from klamm.controller.metadata.delta import Delta, PartitionRows
from klamm.controller.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage, Topic
from klamm.controller.sessions import BrokerSessions
from klamm.controller.settings import Settings
from klamm.controller.transitions import placeholders
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import produce
from tests.controller.cluster_states import add_topic, live_cluster, uuid_of
from tests.controller.handlers.cluster import DrivenCluster

LOSSES, RETURNS, CATCH_UP, ROOM = "losses", "returns", "catch-up", "room for placeholders"
ALL = {LOSSES, RETURNS, CATCH_UP, ROOM}
SETTINGS = Settings()


def idle() -> Background:
    """Background work that has ended, of a cluster with a placeholder that no broker can fill."""
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


STEPS_OF_ONE_PIECE = 3


class Looking:
    """Long work of three steps, each of which checks many partitions and changes none."""

    def __init__(self, broker_id: int, *, unclean: bool, most: int) -> None:
        self.broker_id = broker_id
        self.steps = 0

    def plan(self, _image: MetadataImage, _settings: Settings) -> list[Record]:
        self.steps += 1
        return []

    def is_over(self, _image: MetadataImage) -> bool:
        return self.steps == STEPS_OF_ONE_PIECE


def a_long_departure(background: Background, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klamm.controller.background.Departure", Looking)
    background.begin(Departing(1))


def placeholders_that_nobody_can_fill(background: Background, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three partitions; a step checks one."""
    monkeypatch.setattr(placeholders, "ROWS_PER_STEP", 1)
    add_topic(background._image, 2, [[1, -1]] * 2)
    background.follow(Delta(names_replicas=True))


def records_whose_leader_went_down(background: Background, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five partitions: the call itself processes one, and each step another."""
    monkeypatch.setattr(data_plane, "PARTITIONS_PER_STEP", 1)
    image, data = background._image, background._replication
    add_topic(image, 3, [[1]] * (STEPS_OF_ONE_PIECE + 1))
    produced = read_produced(batch(1), api_version=11, max_message_bytes=1000)
    assert isinstance(produced, ProducedBatch)
    assert isinstance(data, DataPlane)
    for index in range(STEPS_OF_ONE_PIECE + 1):
        data.append(image, image.topics_by_name["t3"], index, produced, 0)
    data.set_down(image, [1], 0)


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        (a_long_departure, STEPS_OF_ONE_PIECE),
        (placeholders_that_nobody_can_fill, 3 + 3 + 1),  # find three partitions, try each on the broker, and end
        (records_whose_leader_went_down, STEPS_OF_ONE_PIECE),
    ],
)
def test_a_step_that_has_looked_at_many_partitions_ends_even_if_none_has_changed(
    begin: Callable[[Background, pytest.MonkeyPatch], None], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last part of a step, the ISRs of partitions with records, waits until the others are done."""
    background = idle()
    begin(background, monkeypatch)
    background.tick()
    steps = 1
    while background._replicating:
        assert background.has_work
        background.step()
        steps += 1
    assert steps == expected
    assert not background.has_work


def test_followers_that_fell_behind_in_several_partitions_leave_their_isrs_in_one_step() -> None:
    cluster = DrivenCluster(2)
    cluster.create_at("t", *[[1, 2]] * 3)
    for index in range(3):
        assert produce(cluster, batch(1), partition=index, acks=1).error_code == 0
    cluster.set_down([2])
    for index in range(3):
        assert produce(cluster, batch(1), partition=index, acks=1).error_code == 0
    while cluster.partitions("t")[0].isr == (1, 2):
        cluster.heartbeat(1)
        cluster.heartbeat(2)
        cluster.clock.advance(1_000)
        cluster.tick()
    assert [partition.isr for partition in cluster.partitions("t")] == [(1,)] * 3


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
    ({"isr_shrinks": 1, "isr_expansions": 1, "elections": 1, "unclean_elections": 1}, set()),
    ({"configs": {(BROKER_RESOURCE, "", "max.broker.partitions")}}, {ROOM}),
    ({"configs": {(TOPIC_RESOURCE, "t1", "retention.ms")}}, set()),
    ({"client_quotas": {(("user", "alice"),)}}, set()),
    ({"producer_ids": True}, set()),
    ({"acls": {uuid_of(1)}}, set()),
    ({"controllers": {3001}}, set()),
    ({"scram_credentials": {("alice", 1)}}, set()),
    ({"delegation_tokens": {"token"}}, set()),
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
