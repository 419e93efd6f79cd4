"""Log end offsets of partitions, written and read again; a file with other content is refused with one line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.broker import log_end_offsets
from klamm.broker.log_end_offsets import (
    CHECKPOINT,
    RESERVATIONS,
    LogEndOffsets,
    load_log_end_offsets,
    write_log_end_offsets,
)
from klamm.controller.log.errors import LogError
from klamm.protocol.uuid import Uuid

keys = st.tuples(st.binary(min_size=16, max_size=16).map(Uuid), st.integers(0, 2**31 - 1))
ID = Uuid(bytes(range(16)))


@given(offsets=st.dictionaries(keys, st.integers(0, 2**63 - 1), max_size=20))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, offsets: dict[tuple[Uuid, int], int]
) -> None:
    data_dir = tmp_path_factory.mktemp("data")
    write_log_end_offsets(data_dir, list(offsets.items()))
    assert load_log_end_offsets(data_dir) == offsets


def test_the_newest_counts(tmp_path: Path) -> None:
    write_log_end_offsets(tmp_path, [((ID, 0), 5), ((ID, 1), 6)])
    write_log_end_offsets(tmp_path, [((ID, 1), 7)])
    assert load_log_end_offsets(tmp_path) == {(ID, 1): 7}
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


def test_nothing_is_known_of_a_new_directory(tmp_path: Path) -> None:
    assert load_log_end_offsets(tmp_path) == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no checkpoint of version 0"),
        ("1\n0\n", "no checkpoint of version 0"),
        (f"0\n2\n{ID} 0 5\n", "that is whole"),
        (f"0\n1\n{ID} 0 5\n{ID} 1 5\n", "that is whole"),
        (f"0\n1\n{ID} 0\n", "line 3"),
        (f"0\n1\n{ID} 0 -5\n", "line 3"),
        (f"0\n1\n{ID} 0 {2**63}\n", "line 3"),
        (f"0\n1\n{ID} {2**31} 5\n", "line 3"),
        ("0\n1\norders 0 5\n", "line 3"),
        ("0\n1\n\xff\xfe 0 5\n", "line 3"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / CHECKPOINT).write_text(text, encoding="latin-1")
    with pytest.raises(LogError, match=why) as refusal:
        load_log_end_offsets(tmp_path)
    assert CHECKPOINT in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_directory_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="cannot write"):
        write_log_end_offsets(tmp_path / "missing", [((ID, 0), 5)])


def stored(data_dir: Path, *appended: dict[tuple[Uuid, int], int]) -> dict[tuple[Uuid, int], int]:
    """What a start finds after a process that appended these entries and was killed."""
    store = LogEndOffsets(data_dir)
    for offsets in appended:
        store.append(list(offsets.items()))
    store.close()
    return load_log_end_offsets(data_dir)


@given(st.lists(st.dictionaries(keys, st.integers(0, 2**63 - 1), max_size=5), max_size=5))
def test_the_last_entry_of_a_partition_counts(
    tmp_path_factory: pytest.TempPathFactory, appended: list[dict[tuple[Uuid, int], int]]
) -> None:
    data_dir, expected = tmp_path_factory.mktemp("data"), {}
    write_log_end_offsets(data_dir, [((ID, 0), 5), ((ID, 1), 6)])
    for offsets in [{(ID, 0): 5, (ID, 1): 6}, *appended]:
        expected.update(offsets)
    assert stored(data_dir, *appended) == expected
    assert stored(data_dir, {(ID, 1): 3}) == {**expected, (ID, 1): 3}, "a start begins with what it found"


def test_entries_are_replaced_by_a_checkpoint_at_a_start_and_when_asked(tmp_path: Path) -> None:
    stored(tmp_path, {(ID, 0): 7}, {(ID, 1): 8})
    assert (tmp_path / RESERVATIONS).stat().st_size == 64
    store = LogEndOffsets(tmp_path)
    assert store.loaded == {(ID, 0): 7, (ID, 1): 8}
    assert (tmp_path / RESERVATIONS).stat().st_size == 0
    store.append([((ID, 2), 9)])
    store.replace([((ID, 1), 10)])
    store.close()
    assert (tmp_path / RESERVATIONS).stat().st_size == 0
    assert load_log_end_offsets(tmp_path) == {(ID, 1): 10}


def test_many_entries_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_end_offsets, "REPLACED_AFTER_ENTRIES", 3)
    store, found = LogEndOffsets(tmp_path), []
    for entries in (3, 1):
        store.append([((ID, 0), 9)] * entries)
        found.append(store.is_long)
    store.replace([((ID, index), 9) for index in range(2)])
    for entries in (8, 1):
        store.append([((ID, 0), 9)] * entries)
        found.append(store.is_long)
    store.close()
    assert found == [False, True, False, True]


def test_entries_that_were_not_stored_are_passed_over_and_others_are_damage(tmp_path: Path) -> None:
    stored(tmp_path, {(ID, 0): 5}, {(ID, 0): 6}, {(ID, 1): 7})
    path = tmp_path / RESERVATIONS
    data = path.read_bytes()
    path.write_bytes(data[:32] + bytes(32) + data[64:])
    assert load_log_end_offsets(tmp_path) == {(ID, 0): 5, (ID, 1): 7}
    for size in range(65, 96):
        path.write_bytes(data[:size])
        assert load_log_end_offsets(tmp_path) == {(ID, 0): 6}
    for position in range(96):
        damaged = bytearray(data)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(LogError, match=f"{RESERVATIONS} is damaged at byte {position - position % 32}; without"):
            LogEndOffsets(tmp_path)
        assert path.read_bytes() == damaged
