"""Fetch sessions (KIP-227): what the recordings do not show. tests/behaviour/test_fetch_scenarios.py plays those."""

from collections import Counter
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
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.uuid import ZERO_UUID
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import Asked, fetch_request, id_of, produce
from tests.broker.handlers.test_fetch import filled, in_second_epoch, new_cluster
from tests.controller.handlers.cluster import DrivenCluster

DELETE_V = DeleteTopicsRequest(topics=[DeleteTopicState(name="v")], timeout_ms=1_000)


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
    assert begin(cluster, 0, 0, 0, topic_name="v")
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


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["grant", "grant", "use", "close"]),
        st.sampled_from([0, 0, 1, EVICTION_MS - 1, EVICTION_MS, EVICTION_MS + 1]),
        st.integers(1, 12),
        st.booleans(),
        st.integers(0, 2),
    ),
    min_size=4,
    max_size=30,
)


@pytest.mark.parametrize("shards", [1, 2])
def test_sessions_are_evicted_by_kafka_s_rules(shards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules of FetchSessionCacheShard, written down once more in the form of its four maps."""
    monkeypatch.setattr(fetch_sessions, "SHARDS", shards)
    refused: Counter[bool] = Counter()

    @settings(max_examples=400)
    @given(STEPS)
    def play(steps: list[tuple[str, int, int, bool, int]]) -> None:
        ids = iter(range(1, 1_000))
        memory = SessionMemory()
        sessions, model = FetchSessions(2 * shards, memory, lambda: next(ids)), Model(shards)
        now_ms = 0
        for kind, later_ms, number, is_replica, size in steps:
            now_ms += later_ms
            if kind == "grant":
                partitions = wanted(*range(size))
                granted = sessions.grant(partitions, now_ms, is_replica=is_replica, uses_topic_ids=False)
                assert bool(granted) is model.has_room(now_ms, is_replica, size)
                refused[not granted] += 1
                if granted:
                    model.add(granted, now_ms, is_replica, size)
            elif kind == "use" and (session := sessions.find(number)):
                sessions.advance(session, wanted(*range(size)), now_ms)
                model.touch(number, now_ms, size)
            elif kind == "close":
                sessions.close(number)
                model.close(number)
            assert {number for number in range(1, 100) if sessions.find(number)} == set(model.shard_of)
        kept = [session for one in model.shard_of if (session := sessions.find(one))]
        assert memory.used_bytes == sum(bytes_of(session.partitions) for session in kept)

    play()
    assert min(refused[True], refused[False]) > 10


class Model:
    """The shards with Kafka's maps: by last use, and by value for those that may be evicted."""

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self.shard_of: dict[int, int] = {}
        self.facts: dict[int, tuple[bool, int, int, int]] = {}
        self.turn = -1

    def has_room(self, now_ms: int, is_replica: bool, size: int) -> bool:
        """Whether the next session has room; evicts one for it."""
        self.turn = (self.turn + 1) % self.shards
        inside = [one for one, at in self.shard_of.items() if at == self.turn]
        if len(inside) < 2:
            return True
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
            return False
        return True

    def add(self, session_id: int, now_ms: int, is_replica: bool, size: int) -> None:
        self.shard_of[session_id] = self.turn
        self.facts[session_id] = (is_replica, size, now_ms, now_ms)

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


def test_a_diverging_epoch_is_told_until_the_consumer_has_truncated() -> None:
    cluster = in_second_epoch()
    session_id = begin(cluster, 5, topic_name="e", last_fetched_epoch=0)
    for epoch in (1, 2):
        response = cluster.ask(fetch_request(cluster, session_id=session_id, session_epoch=epoch))
        (found,) = response.responses[0].partitions
        assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 0)
    assert ask(cluster, session_id, 3, 30, topic_name="e", last_fetched_epoch=1) == (0, [])


def test_a_topic_of_an_id_that_was_unknown_is_found_once_it_exists() -> None:
    """A broker may learn of a topic later than its clients; here the same seed gives the same id to a later topic."""
    earlier, cluster = new_cluster(), new_cluster()
    assert earlier.create_at("later", [1]).error_code == 0
    topic_id = id_of(earlier, "later")
    topic = messages.FetchTopic(topic_id=topic_id, partitions=[messages.FetchPartition(partition_max_bytes=1 << 20)])
    begun = cluster.ask(messages.FetchRequest(session_epoch=0, topics=[topic]))
    assert begun.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert cluster.create_at("later", [1]).error_code == 0
    assert id_of(cluster, "later") == topic_id
    found = cluster.ask(messages.FetchRequest(session_id=begun.session_id, session_epoch=1)).responses[0].partitions[0]
    assert (found.error_code, found.high_watermark) == (0, 0)


def test_a_broker_without_a_replica_of_the_new_topic_says_so_first() -> None:
    cluster = new_cluster()
    cluster.create_at("v", [1])
    session_id = begin(cluster, 0, topic_name="v")
    assert cluster.ask(DELETE_V).responses[0].error_code == 0
    for replicas, code in (([2], ErrorCode.NOT_LEADER_OR_FOLLOWER), ([1], ErrorCode.INCONSISTENT_TOPIC_ID)):
        cluster.create_at("v", replicas)
        session = cluster.brokers.fetch_sessions(1).find(session_id)
        assert session is not None
        request = fetch_request(cluster, session_id=session_id, session_epoch=session.epoch)
        assert cluster.ask(request).responses[0].partitions[0].error_code == code
        assert cluster.ask(DELETE_V).responses[0].error_code == 0


@pytest.mark.parametrize("used_after_ms", [EVICTION_MS, EVICTION_MS + 1])
def test_a_session_has_lasted_when_it_is_used_more_than_two_minutes_after_its_begin(used_after_ms: int) -> None:
    ids = iter(range(1, 100))
    sessions = FetchSessions(SHARDS, SessionMemory(), lambda: next(ids))
    how: Any = {"is_replica": False, "uses_topic_ids": False}
    granted = [sessions.grant(wanted(0), 0, **how) for _ in range(SHARDS)]
    for session_id in granted:
        session = sessions.find(session_id)
        assert session is not None
        sessions.advance(session, wanted(0), used_after_ms)
    has_room = sessions.grant(wanted(0, 1), used_after_ms, **how) != NO_SESSION
    assert has_room is (used_after_ms > EVICTION_MS)
    assert sessions.grant(wanted(0), used_after_ms, **how) == NO_SESSION, "it is no larger"
