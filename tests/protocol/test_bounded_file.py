"""Files with a limit: the limit itself, one byte more, and paths that cannot be read."""

from pathlib import Path

import pytest

from klamm.protocol.bounded_file import UnreadableFile, read_bounded


def test_file_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345"
    with pytest.raises(UnreadableFile, match=r"^is larger than 4 bytes$"):
        read_bounded(path, 4)


def test_endless_file_is_refused_at_the_limit() -> None:
    with pytest.raises(UnreadableFile, match=r"^is larger than 1000 bytes$"):
        read_bounded(Path("/dev/zero"), 1000)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("none", "No such file or directory"), (".", "Is a directory"), ("a\0b", "embedded null byte")],
)
def test_unreadable_path_is_named_by_its_reason_alone(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(UnreadableFile, match=f"^{reason}$"):
        read_bounded(tmp_path / name, 10)
