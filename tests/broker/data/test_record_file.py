"""The file for batches beyond the memory budget: its space is used again, its budget holds, and nothing of it remains
when its process is killed."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from klamm.broker.data.record_file import RecordFile, RecordFileError, temporary_folders

BUDGET = 1_000
CHILD = """
import os, sys
from pathlib import Path
from klamm.broker.data.record_file import RecordFile
file = RecordFile(1 << 30, [Path(sys.argv[1])])
assert file.write([bytes(1 << 20)] * 3) == 0
print(os.stat(f"/proc/self/fd/{file._descriptor}").st_size, flush=True)
sys.stdin.read()
"""


class FileBesideAList(RuleBasedStateMachine):
    """Every piece reads as it was written until it is freed, and no two pieces overlap."""

    pieces = Bundle("pieces")

    def __init__(self) -> None:
        super().__init__()
        self.file = RecordFile(BUDGET)
        self.held: dict[int, bytes] = {}
        self.written = 0

    @rule(target=pieces, sizes=st.lists(st.integers(1, 300), min_size=1, max_size=3))
    def write(self, sizes: list[int]) -> int:
        self.written += 1
        pieces = [bytes([self.written % 256]) * size for size in sizes]
        had_room = self.file.has_room(sum(sizes))
        position = self.file.write(pieces)
        assert had_room == (position is not None)
        assert bool(self.file.refusal) == (position is None)
        if position is None:
            return -1
        for piece in pieces:
            self.held[position] = piece
            position += len(piece)
        return position - len(piece)

    @rule(position=consumes(pieces))
    def free(self, position: int) -> None:
        if position in self.held:
            self.file.free(position, len(self.held.pop(position)))

    @invariant()
    def every_piece_is_as_written(self) -> None:
        end = 0
        for position, piece in sorted(self.held.items()):
            assert position >= end
            end = position + len(piece)
            assert self.file.read(position, len(piece)) == piece
        assert end <= BUDGET
        assert self.file.used_bytes == sum(map(len, self.held.values()))
        if not self.held:
            assert self.file.has_room(BUDGET)

    def teardown(self) -> None:
        self.file.close()


def test_whatever_is_written_and_freed() -> None:
    run_state_machine_as_test(FileBesideAList)


def test_holes_that_touch_are_one() -> None:
    file = RecordFile(400)
    assert [file.write([bytes(100)]) for _ in range(4)] == [0, 100, 200, 300]
    for position in (100, 0, 200):
        file.free(position, 100)
    assert file.write([bytes(300)]) == 0
    assert file.write([b"x"]) is None


def test_many_holes_are_found_largest_first() -> None:
    file = RecordFile(10**7)
    positions = [file.write([bytes(1 + index % 50)]) for index in range(6_000)]
    for index in range(0, 6_000, 2):
        position = positions[index]
        assert position is not None
        file.free(position, 1 + index % 50)
    assert file.write([bytes(49)]) in positions[48::50]


def test_the_end_of_the_file_goes_back_to_the_system() -> None:
    file = RecordFile(1 << 30)
    mib = bytes(1 << 20)
    for _ in range(40):
        file.write([mib])

    def size() -> int:
        return Path(f"/proc/self/fd/{file._descriptor}").stat().st_size

    for index in range(39, 24, -1):
        file.free(index << 20, 1 << 20)
    assert size() == 40 << 20
    file.free(24 << 20, 1 << 20)
    assert size() == 24 << 20
    file.free(0, 24 << 20)
    assert size() == 0


def test_a_reason_is_told_once() -> None:
    told: list[str] = []
    file = RecordFile(10, warn=told.append)
    for _ in range(3):
        assert file.write([bytes(11)]) is None
    assert told == ["--data-file-bytes allows 10 bytes of records in files"]
    assert file.write([bytes(10)]) == 0
    assert file.refusal == ""


def test_a_file_that_may_not_grow_takes_nothing(tmp_path: Path) -> None:
    """The limit of the system for the size of files stands for a disk that is full: a part is written before."""
    told: list[str] = []
    file = RecordFile(1 << 30, [tmp_path], told.append)
    assert file.write([bytes(1_000)]) == 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, before[1]))
    try:
        assert file.write([bytes(3_000)] * 2) is None
        assert file.write([b"a" * 4_000]) == 1_000
        assert file.write([b"b"]) is None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert told == ["the file for records cannot grow: File too large"]
    assert file.used_bytes == 5_000
    assert file.read(1_000, 4_000) == b"a" * 4_000
    assert file.write([b"b"]) == 5_000


def test_without_a_folder_nothing_is_taken(tmp_path: Path) -> None:
    told: list[str] = []
    assert RecordFile(100, [tmp_path / "none", tmp_path / "no"], told.append).write([b"x"]) is None
    assert told == ["the file for records cannot grow: No such file or directory"]
    file = RecordFile(100, [tmp_path / "none", tmp_path], told.append)
    assert file.write([b"x"]) == 0
    assert list(tmp_path.iterdir()) == [], "it has no name"


def test_a_file_that_lost_its_end_cannot_be_read() -> None:
    file = RecordFile(100)
    file.write([bytes(50)])
    os.ftruncate(file._descriptor or -1, 20)
    with pytest.raises(RecordFileError, match="30 bytes early"):
        file.read(0, 50)


def test_where_temporary_files_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert temporary_folders() == (tmp_path,)
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.delenv("TMPDIR")
    assert temporary_folders()[0] == Path("/var/tmp")


def test_nothing_remains_of_a_process_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert int(child.stdout.readline()) == 3 << 20
        assert list(tmp_path.iterdir()) == []
        child.send_signal(signal.SIGKILL)
    assert list(tmp_path.iterdir()) == []
