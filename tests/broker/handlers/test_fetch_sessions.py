"""Fetch sessions (KIP-227): what the recordings do not show. tests/behaviour/test_fetch_scenarios.py plays those."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.broker import fetch_sessions
from klamm.broker.fetch_sessions import (
    EVICTION_MS,
    MAX_EPOCH,
    MAX_SESSION_PARTITIONS,
    NO_SESSION,
    SHARDS,
    FetchSessions,
    SessionMemory,
    WantedPartition,
    bytes_of,
    next_epoch,
)
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data import fetch as messages
from klamm.protocol.uuid import ZERO_UUID
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import Asked, fetch_request, id_of, produce
from tests.broker.handlers.test_fetch import filled, new_cluster
from tests.controller.handlers.cluster import DrivenCluster


def begin(cluster: DrivenCluster, *offsets: int, **fields: Any) -> int:
    """Begin a session and return its id."""
    response = cluster.ask(fetch_request(cluster, *offsets, session_epoch=0, **fields))
    assert (response.error_code, response.session_id > 0) == (0, True)
    session_id: int = response.session_id
    return session_id


def ask(cluster: DrivenCluster, session_id: int, epoch: int, *offsets: int, **fields: Any) -> tuple[int, list[int]]:
    """The error and the partitions of an incremental answer."""
    request = fetch_request(cluster, *offsets, session_id=session_id, session_epoch=epoch, **fields)
    response = cluster.ask(request)
    return response.error_code, [one.partition_index for topic in response.responses for one in topic.partitions]


@pytest.mark.parametrize(
    ("session_id", "session_epoch", "code"),
    [(0, -1, 0), (5, -1, 0), (5, 1, 70), (0, 1, 70), (0, -2, 70), (-5, 7, 70)],
)
def test_a_request_outside_of_a_session_gets_none(session_id: int, session_epoch: int, code: int) -> None:
    cluster = filled()
    response = cluster.ask(fetch_request(cluster, 0, session_id=session_id, session_epoch=session_epoch))
    assert (response.error_code, response.session_id, bool(response.responses)) == (code, 0, code == 0)


def test_the_ids_of_sessions_follow_from_the_seed_and_change_nothing_else() -> None:
    ids = []
    for _ in range(2):
        cluster = new_cluster()
        drawn = [begin(cluster, 0) for _ in range(3)]
        ids.append((drawn, cluster.controller.new_uuid(), cluster.controller.new_uuid_outside_the_log()))
        assert all(0 < one < 2**31 for one in drawn)
        assert len(set(drawn)) == 3
    without = new_cluster()
    assert ids[0] == ids[1]
    assert ids[0][1:] == (without.controller.new_uuid(), without.controller.new_uuid_outside_the_log())


def test_a_session_is_one_broker_s_and_ends_when_it_goes_down() -> None:
    cluster = filled()
    session_id = begin(cluster, 30)
    elsewhere = fetch_request(cluster, session_id=session_id, session_epoch=1)
    assert cluster.ask(elsewhere, broker_id=2).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    memory = cluster.brokers.fetch_sessions(1)._memory
    assert memory.used_bytes > 0
    cluster.brokers.by_id[1].go_down(cleanly=False)
    assert memory.used_bytes == 0
    assert ask(cluster, session_id, 1) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])


def test_a_removed_broker_begins_no_session_any_more() -> None:
    """Not even for an answer that was waiting when it was removed."""
    cluster = filled()
    waiting = Asked(cluster, fetch_request(cluster, 30, session_epoch=0, max_wait_ms=500))
    assert waiting.look() is None
    sessions = cluster.brokers.fetch_sessions(1)
    cluster.brokers.forget(1)
    cluster.clock.advance(500)
    assert waiting.look().session_id == NO_SESSION
    assert len(sessions) == 0
    assert begin_anywhere(cluster) == NO_SESSION


def begin_anywhere(cluster: DrivenCluster) -> int:
    session_id: int = cluster.ask(fetch_request(cluster, 30, session_epoch=0)).session_id
    return session_id


@pytest.mark.parametrize(("slots", "granted"), [(0, 0), (7, 0), (8, 8), (15, 8), (16, 16)])
def test_the_slots_are_divided_by_the_shards(slots: int, granted: int) -> None:
    cluster = filled(configs={"max.incremental.fetch.session.cache.slots": str(slots)})
    ids = [begin_anywhere(cluster) for _ in range(20)]
    assert len([one for one in ids if one]) == granted


def test_a_session_takes_a_bounded_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_SESSION_PARTITIONS == 5_000
    monkeypatch.setattr(fetch_sessions, "MAX_SESSION_PARTITIONS", 3)
    cluster = new_cluster()
    cluster.create_at("v", *[[1]] * 5)
    too_many = cluster.ask(fetch_request(cluster, *[0] * 4, topic_name="v", session_epoch=0))
    assert (too_many.session_id, len(too_many.responses[0].partitions)) == (NO_SESSION, 4)
    session_id = begin(cluster, 0, 0, topic_name="v")
    assert ask(cluster, session_id, 1, 0, topic_name="v", partition=2) == (0, [2])
    assert ask(cluster, session_id, 2, 0, topic_name="v", partition=1) == (0, [])
    assert ask(cluster, session_id, 3, 0, topic_name="v", partition=3) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
    assert ask(cluster, session_id, 3) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, []), "it is closed"


def wanted(*indexes: int, name: str = "topic") -> dict[Any, WantedPartition]:
    each = [WantedPartition(name, ZERO_UUID, messages.FetchPartition(partition=index)) for index in indexes]
    return {one.key: one for one in each}


def test_all_sessions_of_a_process_share_a_bounded_memory() -> None:
    memory = SessionMemory(bytes_of(wanted(0)) + bytes_of(wanted(0, 1)))
    ids = iter(range(1, 100))
    one, other = (FetchSessions(1_000, memory, lambda: next(ids)) for _ in range(2))
    how: Any = {"is_replica": False, "uses_topic_ids": False}
    first = one.grant(wanted(0), 0, **how)
    second = other.grant(wanted(0, 1), 0, **how)
    assert (first, second) == (1, 2)
    assert one.grant(wanted(0), 0, **how) == NO_SESSION
    session = other.find(second)
    assert session is not None
    assert not other.has_room(session, wanted(0, 1, 2))
    assert other.has_room(session, wanted(5, 6))
    other.advance(session, wanted(0), 0)
    assert other.has_room(session, wanted(0, 1))
    one.close(first)
    one.close(first)
    other.retire()
    assert memory.used_bytes == 0
    assert bytes_of(wanted(0, name="x" * 30_000)) > 4 * 30_000, "names are counted"


@given(
    st.lists(
        st.tuples(st.sampled_from(["grant", "use", "close"]), st.integers(0, 30), st.booleans(), st.integers(0, 3)),
        max_size=80,
    )
)
@settings(max_examples=150)
def test_sessions_are_evicted_by_kafka_s_rules(steps: list[tuple[str, int, bool, int]]) -> None:
    """The rules of FetchSessionCacheShard, written down once more in the form of its four maps."""
    ids = iter(range(1, 1_000))
    memory = SessionMemory()
    sessions, model = FetchSessions(2 * SHARDS, memory, lambda: next(ids)), Model()
    now_ms = 0
    for kind, number, is_replica, size in steps:
        now_ms += number * EVICTION_MS // 20
        if kind == "grant":
            partitions = wanted(*range(size))
            granted = sessions.grant(partitions, now_ms, is_replica=is_replica, uses_topic_ids=False)
            assert granted == model.grant(granted, now_ms, is_replica, size)
        elif kind == "use" and (session := sessions.find(number)):
            sessions.advance(session, wanted(*range(size)), now_ms)
            model.touch(number, now_ms, size)
        elif kind == "close":
            sessions.close(number)
            model.close(number)
        assert {number for number in range(1, 1_000) if sessions.find(number)} == set(model.shard_of)
    kept = [session for one in model.shard_of if (session := sessions.find(one))]
    assert memory.used_bytes == sum(bytes_of(session.partitions) for session in kept)


class Model:
    """The shards with Kafka's maps: by last use, and by value for those that may be evicted."""

    def __init__(self) -> None:
        self.shard_of: dict[int, int] = {}
        self.facts: dict[int, tuple[bool, int, int, int]] = {}
        self.turn = 0

    def grant(self, granted: int, now_ms: int, is_replica: bool, size: int) -> int:
        shard, self.turn = self.turn, (self.turn + 1) % SHARDS
        inside = [one for one, at in self.shard_of.items() if at == shard]
        if len(inside) >= 2:
            last_used = sorted((self.facts[one][3], one) for one in inside)
            exposed: list[tuple[bool, int, int]] = sorted(
                (replica, partitions, one)
                for one in inside
                for replica, partitions, created_ms, used_ms in [self.facts[one]]
                if used_ms - created_ms > EVICTION_MS or (is_replica and not replica)
            )
            if now_ms - last_used[0][0] > EVICTION_MS:
                self.close(last_used[0][1])
            elif exposed and not (is_replica, size, 0) < exposed[0]:
                self.close(exposed[0][2])
            else:
                return NO_SESSION
        self.shard_of[granted] = shard
        self.facts[granted] = (is_replica, size, now_ms, now_ms)
        return granted

    def touch(self, session_id: int, now_ms: int, size: int) -> None:
        is_replica, _, created_ms, _ = self.facts[session_id]
        self.facts[session_id] = (is_replica, size, created_ms, now_ms)

    def close(self, session_id: int) -> None:
        self.shard_of.pop(session_id, None)


def test_an_id_in_use_is_not_given_again() -> None:
    ids = iter((7, 7, 7, 8))
    sessions = FetchSessions(1_000, SessionMemory(), lambda: next(ids))
    granted = [sessions.grant(wanted(0), 0, is_replica=False, uses_topic_ids=False) for _ in range(2)]
    assert granted == [7, 8]


def test_the_epoch_after_the_highest_is_one() -> None:
    assert (next_epoch(1), next_epoch(MAX_EPOCH - 1), next_epoch(MAX_EPOCH)) == (2, MAX_EPOCH, 1)
    cluster = filled()
    session_id = begin(cluster, 30)
    session = cluster.brokers.fetch_sessions(1).find(session_id)
    assert session is not None
    session.epoch = MAX_EPOCH
    assert ask(cluster, session_id, MAX_EPOCH) == (0, [])
    assert ask(cluster, session_id, 1) == (0, [])


def test_an_incremental_answer_waits_for_any_partition_of_the_session() -> None:
    cluster = new_cluster()
    cluster.create_at("v", [1], [1])
    session_id = begin(cluster, 0, 0, topic_name="v")
    waiting = Asked(cluster, fetch_request(cluster, session_id=session_id, session_epoch=1, max_wait_ms=500))
    assert waiting.look() is None
    assert sorted(waiting.waiting.keys) == [(id_of(cluster, "v"), 0), (id_of(cluster, "v"), 1)]
    assert produce(cluster, batch(3), topic_name="v", partition=1).error_code == 0
    (topic,) = waiting.look().responses
    assert [(one.partition_index, one.high_watermark) for one in topic.partitions] == [(1, 3)]


def test_a_slower_request_of_a_session_is_told_that_it_came_too_late() -> None:
    cluster = filled()
    session_id = begin(cluster, 30)
    waiting = Asked(cluster, fetch_request(cluster, session_id=session_id, session_epoch=1, max_wait_ms=500))
    assert waiting.look() is None
    assert ask(cluster, session_id, 2) == (0, [])
    produce(cluster, batch(1))
    late = waiting.look()
    assert (late.error_code, late.session_id, list(late.responses)) == (71, session_id, [])
    assert ask(cluster, session_id, 3) == (0, [0]), "the late answer has not taken the records away"


def test_an_answer_that_waits_keeps_the_offsets_of_its_own_request() -> None:
    cluster = filled()
    session_id = begin(cluster, 30)
    waiting = Asked(cluster, fetch_request(cluster, session_id=session_id, session_epoch=1, max_wait_ms=500))
    assert ask(cluster, session_id, 2, 0) == (0, [0])
    cluster.clock.advance(499)
    assert waiting.look() is None
