"""The disk that forgets: what it records, and what it says is left after a loss of power."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controller.log.logs import fresh_dir
from tools.power_loss.disk import Disk, Killed, lay_down
from tools.power_loss.fates import every_fate, kept, lost, torn, zeroed
from tools.power_loss.history import Fate, Picture


def write(path: Path, content: bytes, *, mode: str = "wb", sync: bool = False) -> None:
    with path.open(mode) as file:
        file.write(content)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def left(disk: Disk) -> Picture:
    """If the disk has stored nothing but what was synced."""
    return disk.state.picture(lost(disk.state))


def all_pictures(disk: Disk) -> list[Picture]:
    return [disk.state.picture(fate) for fate in every_fate(disk.state)]


def contents(folder: Path) -> Picture:
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def test_what_was_there_at_the_beginning_is_durable(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    write(tmp_path / "folder" / "file", b"old")
    disk = Disk(tmp_path)
    assert left(disk) == {"folder": None, "folder/file": b"old"}
    assert disk.state.pending == []


def test_a_file_needs_its_own_fsync_and_its_folders(tmp_path: Path) -> None:
    disk, path = Disk(tmp_path), tmp_path / "file"
    with disk.watched():
        write(path, b"new", sync=True)
        assert left(disk) == {}, "it has no name yet"
        sync_folder(tmp_path)
        assert left(disk) == {"file": b"new"}
        write(path, b"more", mode="ab")
    assert left(disk) == {"file": b"new"}
    assert {picture["file"] for picture in all_pictures(disk)} == {b"new", b"newmo", b"new\0\0\0\0", b"newmore"}


def test_a_folder_needs_the_fsync_of_its_parent(tmp_path: Path) -> None:
    disk, folder = Disk(tmp_path), tmp_path / "folder"
    with disk.watched():
        folder.mkdir()
        write(folder / "file", b"new", sync=True)
        sync_folder(folder)
        assert left(disk) == {}
        sync_folder(tmp_path)
    assert left(disk) == {"folder": None, "folder/file": b"new"}


def test_a_replaced_file_is_the_old_or_the_new_one_and_empty_if_only_its_name_was_synced(tmp_path: Path) -> None:
    write(tmp_path / "file", b"old")
    disk = Disk(tmp_path)
    with disk.watched():
        write(tmp_path / "beside", b"new")
        (tmp_path / "beside").replace(tmp_path / "file")
        assert left(disk) == {"file": b"old"}
        assert {picture["file"] for picture in all_pictures(disk)} >= {b"old", b"new", b""}
        sync_folder(tmp_path)
    assert left(disk) == {"file": b""}


def test_removals_and_cuts_are_undone_until_they_are_synced(tmp_path: Path) -> None:
    for name in ("gone", "shorter"):
        write(tmp_path / name, b"content")
    disk = Disk(tmp_path)
    with disk.watched():
        (tmp_path / "gone").unlink()
        os.truncate(tmp_path / "shorter", 3)
        assert left(disk) == {"gone": b"content", "shorter": b"content"}
        sync_folder(tmp_path)
        assert left(disk) == {"shorter": b"content"}
        write(tmp_path / "shorter", b"", mode="ab", sync=True)
    assert left(disk) == {"shorter": b"con"}


def test_a_sync_does_not_cover_what_is_written_while_it_runs(tmp_path: Path) -> None:
    write(tmp_path / "file", b"")
    disk, path = Disk(tmp_path), tmp_path / "file"

    def write_more() -> None:
        write(path, b" and more", mode="ab")

    disk.on_sync = write_more
    with disk.watched():
        write(path, b"some", sync=True)
    assert left(disk) == {"file": b"some"}
    assert disk.state.picture(kept(disk.state)) == {"file": b"some and more"}


def test_of_two_changes_either_may_be_stored_alone(tmp_path: Path) -> None:
    """Also where there are too many for all of their subsets."""
    disk, names = Disk(tmp_path), [f"file-{number}" for number in range(8)]
    with disk.watched():
        for name in names:
            (tmp_path / name).touch()
    stored = [set(picture) for picture in all_pictures(disk)]
    assert set() in stored
    assert set(names) in stored
    for one in names:
        for other in names:
            assert one == other or any(one in picture and other not in picture for picture in stored)


def test_the_number_of_a_removed_file_may_be_given_to_another_one(tmp_path: Path) -> None:
    """Systems do that at once. The new file has nothing of the old one's."""
    write(tmp_path / "old", b"content")
    disk = Disk(tmp_path)
    with disk.watched():
        for number in range(5):
            (tmp_path / ("old" if number == 0 else f"new-{number - 1}")).unlink()
            (tmp_path / f"new-{number}").touch()
        sync_folder(tmp_path)
    assert left(disk) == {"new-4": b""}


@pytest.mark.parametrize(
    ("spoil", "synced", "written", "found"),
    [
        (torn, b"ab", b"abcdef", b"abcd"),
        (zeroed, b"ab", b"abcdef", b"ab\0\0\0\0"),
        (torn, b"abcd", b"ab", b"ab"),
        (zeroed, b"abcd", b"ab", b"ab"),
    ],
)
def test_bytes_that_were_not_synced_may_be_torn_or_zeros(
    spoil: Callable[[bytes, bytes], bytes], synced: bytes, written: bytes, found: bytes
) -> None:
    assert spoil(synced, written) == found


def test_a_killed_process_changes_nothing_any_more(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    with disk.watched():
        disk.kill_before(2)
        (tmp_path / "first").touch()
        (tmp_path / "second").touch()
        for change in (
            (tmp_path / "third").touch,
            (tmp_path / "first").unlink,
            (tmp_path / "folder").mkdir,
            lambda: sync_folder(tmp_path),
            lambda: os.truncate(tmp_path / "first", 0),
            lambda: (tmp_path / "first").rename(tmp_path / "fourth"),
        ):
            with pytest.raises(Killed):
                change()
        disk.revive()
        sync_folder(tmp_path)
    assert left(disk) == {"first": b"", "second": b""}


def append(name: str, content: bytes, folder: Path) -> None:
    write(folder / name, content, mode="ab")


def overwrite(name: str, content: bytes, folder: Path) -> None:
    write(folder / name, content)


def rename(name: str, other: str, folder: Path) -> None:
    if (folder / name).exists():
        (folder / name).replace(folder / other)


def remove(name: str, folder: Path) -> None:
    (folder / name).unlink(missing_ok=True)


def cut(name: str, size: int, folder: Path) -> None:
    if (folder / name).exists():
        os.truncate(folder / name, min(size, (folder / name).stat().st_size))


def sync(name: str, folder: Path) -> None:
    if (folder / name).exists():
        write(folder / name, b"", mode="ab", sync=True)


names, few_bytes = st.sampled_from("abc"), st.binary(max_size=20)
steps = st.lists(
    st.one_of(
        st.builds(partial, st.sampled_from([append, overwrite]), names, few_bytes),
        st.builds(partial, st.just(rename), names, names),
        st.builds(partial, st.sampled_from([remove, sync]), names),
        st.builds(partial, st.just(cut), names, st.integers(0, 10)),
        st.just(sync_folder),
    ),
    max_size=20,
)
"""What is done to a folder, one after the other."""


@given(steps)
def test_with_everything_stored_it_is_the_directory_itself_at_every_point(
    taken: list[Callable[[Path], None]],
) -> None:
    with fresh_dir() as folder:
        folder.mkdir()
        disk = Disk(folder)
        seen = [(disk.now, contents(folder))]
        with disk.watched():
            for step in taken:
                step(folder)
                seen.append((disk.now, contents(folder)))
        states = {point: state.picture(kept(state)) for point, state in disk.states()}
        assert [states[point] for point, _ in seen] == [content for _, content in seen]
        lay_down(folder / "again", seen[-1][1])
        assert contents(folder / "again") == seen[-1][1]


@given(steps)
def test_what_is_synced_as_it_is_is_left_whatever_the_fate(
    taken: list[Callable[[Path], None]],
) -> None:
    with fresh_dir() as folder:
        folder.mkdir()
        disk = Disk(folder)
        with disk.watched():
            for step in taken:
                step(folder)
            for path in folder.iterdir():
                write(path, b"", mode="ab", sync=True)
            sync_folder(folder)
        assert {tuple(picture.items()) for picture in all_pictures(disk)} == {tuple(contents(folder).items())}
        assert disk.state.picture(Fate(frozenset())) == contents(folder)
