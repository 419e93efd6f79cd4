"""Where partitions ended, written down and read again; a file that is not what was written is refused in one line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.log_end_offsets import CHECKPOINT, load_log_end_offsets, write_log_end_offsets
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
