"""Future replicas: how far they are at a time, when they are checked, pauses, and what ends them."""

from types import MappingProxyType
from typing import Any

import pytest

from klamm.broker.data.partition_log import PartitionLog
from klamm.broker.data.record_batches import decode_header
from klamm.broker.data.record_room import NO_ROOM
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.broker.log_dirs.directories import LogDirs, directory_id, log_dir_paths, new_log_dirs
from klamm.broker.log_dirs.moves import LONGEST_PAUSE_MS, Moves
from klamm.controller.metadata.partition import Partition
from klamm.controller.settings import Settings
from klamm.protocol.uuid import Uuid
from tests.broker.data.batches import batch

TOPIC, THERE, ELSEWHERE = (Uuid(bytes([number]) * 16) for number in (7, 1, 2))
KEY = TOPIC, 0
RATE = 100


def log_of(records: int) -> ReplicatedLog:
    """A partition on broker 1 alone."""
    found = ReplicatedLog(PartitionLog(NO_ROOM), 10**6)
    found.follow(Partition((1,), (1,), 1, 0, 0, (THERE,)), lambda _: True, 0)
    if records:
        found.append(decode_header(batch(records)), 0)
    return found


class Data:
    """The data plane, as far as moves ask it."""

    def __init__(self, found: ReplicatedLog) -> None:
        self.found = found

    def find(self, *_key: Any) -> ReplicatedLog:
        return self.found


def begun(rates: dict[int, int] | None = None) -> Moves:
    moves = Moves(MappingProxyType(rates or {}), RATE)
    moves.begin(1, KEY, ELSEWHERE, log_of(100), 1_000)
    return moves


def end(moves: Moves, found: ReplicatedLog | None, now_ms: int) -> int:
    future = moves.find(1, KEY)
    assert future is not None
    return moves.end_offset(1, future, found, now_ms)


@pytest.mark.parametrize(
    ("now_ms", "copied"), [(1_000, 0), (1_008, 0), (1_009, 1), (1_499, 50), (1_989, 99), (1_999, 100), (9_000, 100)]
)
def test_a_future_replica_copies_at_the_rate_up_to_the_present_one(now_ms: int, copied: int) -> None:
    assert end(begun(), log_of(100), now_ms) == copied


def test_it_copies_at_the_rate_of_its_broker_and_not_below_the_start_of_the_log() -> None:
    assert end(begun({1: 1_000}), log_of(100), 1_049) == 50
    assert end(begun({1: 0}), log_of(100), 90_000) == 0
    assert end(begun({2: 1_000}), log_of(100), 1_049) == 5
    found = log_of(100)
    found.log.delete_before(30)
    assert end(begun(), found, 1_000) == 30
    assert end(begun(), None, 90_000) == 0, "a partition that never held a record"
    found.follow(Partition((2,), (2,), 2, 1, 1, (THERE,)), lambda _: True, 0)
    assert end(begun(), found, 90_000) == 0, "the replica is gone"


def test_it_pauses_while_its_broker_is_down() -> None:
    moves, data = begun(), Data(log_of(100))
    moves.pause(2, data, 1_199)  # type: ignore[arg-type]
    moves.pause(1, data, 1_199)  # type: ignore[arg-type]
    assert end(moves, data.found, 60_000) == 20
    assert list(moves.due(60_000)) == [], "what pauses is not checked"
    moves.resume(2, 60_000)
    moves.resume(1, 60_000)
    assert [one[:2] for one in moves.due(60_000)] == [(1, KEY)]
    assert end(moves, data.found, 60_099) == 30


def test_it_is_checked_when_it_may_be_complete_and_once_a_second_at_least() -> None:
    moves = begun()
    assert [one[:2] for one in moves.due(999)] == []
    assert [one[:2] for one in moves.due(1_000)] == [(1, KEY)]
    assert list(moves.due(1_000)) == [], "each check is one"
    for missing, wait_ms in ((1, 10), (2, 20), (99, 990), (100, LONGEST_PAUSE_MS), (10**6, LONGEST_PAUSE_MS)):
        moves.postpone(1, KEY, missing, log_of(100), 1_000)
        assert list(moves.due(1_000 + wait_ms - 1)) == [], missing
        assert len(list(moves.due(1_000 + wait_ms))) == 1, missing
    fast, stopped = begun({1: 10**9}), begun({1: 0})
    for moves, wait_ms in ((fast, 1), (stopped, LONGEST_PAUSE_MS)):
        list(moves.due(1_000))
        moves.postpone(1, KEY, 5, log_of(100), 1_000)
        assert list(moves.due(1_000 + wait_ms - 1)) == []
        assert len(list(moves.due(1_000 + wait_ms))) == 1


def test_the_moves_of_a_broker_share_its_throttle() -> None:
    """A message counts with the average size of its partition's messages."""
    found = log_of(100)
    size = found.log.size_bytes / 100
    moves = Moves(MappingProxyType({}), RATE)
    moves.throttle(None, int(10 * size))
    moves.begin(1, KEY, ELSEWHERE, found, 1_000)
    assert end(moves, found, 2_999) in {19, 20}, "ten messages a second"
    moves.begin(1, (TOPIC, 1), ELSEWHERE, found, 3_000)
    moves.postpone(1, KEY, 80, found, 2_999)
    assert end(moves, found, 4_998) in {28, 29, 30}, "five for each of two moves"
    moves.throttle(1, 0)
    moves.postpone(1, KEY, 70, found, 4_998)
    assert end(moves, found, 90_000) in {28, 29, 30}, "its own throttle counts before that of all brokers"
    moves.throttle(1, None)
    moves.throttle(None, None)
    moves.postpone(1, KEY, 70, found, 90_000)
    assert end(moves, found, 90_499) in {78, 79, 80}, "the rate without a throttle"
    moves.throttle(1, 10**9)
    moves.postpone(1, KEY, 20, found, 90_499)
    assert end(moves, found, 90_599) in {88, 89, 90}, "a throttle does not accelerate"


def test_a_move_that_ended_leaves_its_share_of_the_throttle() -> None:
    found = log_of(100)
    moves = begun()
    moves.throttle(1, int(10 * found.log.size_bytes / 100) + 1)
    for index in (1, 1, 2):
        moves.begin(1, (TOPIC, index), ELSEWHERE, found, 1_000)
    for index in (1, 2, 2):
        moves.cancel(1, (TOPIC, index))
    moves.postpone(1, KEY, 100, found, 1_000)
    assert end(moves, found, 1_999) == 10


def test_moves_end_one_by_one_and_with_their_directory() -> None:
    moves = begun()
    moves.begin(2, KEY, ELSEWHERE, None, 1_000)
    moves.begin(1, (TOPIC, 1), THERE, None, 1_000)
    assert len(moves) == 3
    moves.lose(1, ELSEWHERE)
    assert [(key, one.directory_id) for key, one in moves.of_broker(1)] == [((TOPIC, 1), THERE)]
    assert moves.find(2, KEY) is not None
    moves.cancel(2, KEY)
    moves.cancel(2, KEY)
    assert moves.find(2, KEY) is None
    assert [one[:2] for one in moves.due(5_000)] == [(1, (TOPIC, 1))]


@pytest.mark.parametrize(("configs", "paths"), [
    ({}, ["/tmp/kafka-logs"]),
    ({"log.dir": "/a"}, ["/a"]),
    ({"log.dir": "/a", "log.dirs": "/b,/c"}, ["/b", "/c"]),
    ({"log.dirs": "/b , /c,/b"}, ["/b", "/c"]),
])  # fmt: skip
def test_the_paths_are_those_of_the_configs_each_once(configs: dict[str, str], paths: list[str]) -> None:
    assert log_dir_paths(Settings(static_configs=configs), 1) == paths
    of_one = Settings(static_configs={"log.dirs": "/x"}, broker_static_configs={1: configs} if configs else {})
    assert log_dir_paths(of_one, 2) == ["/x"]


def test_ids_do_not_depend_on_paths_and_the_first_is_that_of_a_single_directory() -> None:
    ids = [directory_id("cluster", 1, number) for number in range(3)]
    assert len({*ids, directory_id("cluster", 2, 0), directory_id("other", 1, 0)}) == 5
    found = new_log_dirs(Settings(static_configs={"log.dirs": "/a,/b,/c"}), "cluster", 1)
    assert [one.directory_id for one in found.all] == ids
    assert found.at("/b") is found.all[1]
    assert found.at("/b/") is None
    assert found.find(ids[2]) is found.all[2]
    assert found.find(THERE) is None


def test_ids_of_another_program_are_kept_if_there_are_as_many() -> None:
    for registered, kept in (([THERE, ELSEWHERE], True), ([THERE], False), ([], False)):
        found = LogDirs("cluster", 1, ["/a", "/b"], None)
        own = [one.directory_id for one in found.all]
        found.adopt(registered)
        assert [one.directory_id for one in found.all] == (registered if kept else own)
    found = LogDirs("cluster", 1, ["/a", "/b"], None)
    own = [one.directory_id for one in found.all]
    found.adopt([own[1], THERE])
    assert [one.directory_id for one in found.all] == own


def test_a_broker_halts_without_directories_and_without_that_of_the_metadata_log() -> None:
    for metadata, failed, reason in (
        (None, (), None), (None, (1,), None), (None, (0,), "metadata log, /a, is offline"),
        (None, (0, 1), "none of its log directories"), ("/b", (0,), None), ("/b", (1,), "metadata log, /b"),
        ("/m", (0,), None), ("/m", (0, 1), "none of its log directories"),
    ):  # fmt: skip
        found = LogDirs("cluster", 1, ["/a", "/b"], metadata)
        for number in failed:
            found.all[number].is_whole = False
        assert found.reason_to_halt is None, "only a broker that uses them notices"
        said = found.start()
        assert (said is None) if reason is None else (said is not None and reason in said)
        assert found.offline_ids == [found.all[number].directory_id for number in failed]
        assert len(found.online) == 2 - len(failed)
        for one in found.all:
            one.is_whole = True
        assert found.start() is None
        assert found.offline_ids == []
