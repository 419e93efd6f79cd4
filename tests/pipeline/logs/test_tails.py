"""The end of a log, byte by byte."""

from pathlib import Path

from klamm.pipeline.logs.metadata_logs import find_metadata_logs
from klamm.pipeline.logs.tails import torn_tail
from tests.pipeline.logs.logs import encoded, write_log
from tests.pipeline.test_sources import topics


def _tail(folder: Path) -> tuple[int, str] | None:
    [log] = find_metadata_logs([str(folder)])
    return torn_tail(log)


def test_a_log_cut_at_any_byte_ends_with_half_a_batch_but_between_two(tmp_path: Path) -> None:
    parts = encoded(topics(1))
    whole = b"".join(parts)
    for size in range(len(whole) + 1):
        folder = write_log(tmp_path, whole[:size])
        rest = size - (len(parts[0]) if size >= len(parts[0]) else 0)
        expected = None
        if size not in (0, len(parts[0]), len(whole)) and whole[size - rest : size].strip(b"\0"):
            offset = 0 if size < len(parts[0]) else 1
            expected = (offset, f"{0:020}.log ends with {rest} bytes of a batch that is not whole")
        assert _tail(folder) == expected, size


def test_zeros_of_a_file_that_was_made_longer_are_none(tmp_path: Path) -> None:
    whole = b"".join(encoded(topics(1)))
    for padded in (whole + bytes(5_000_000), bytes(100), b""):
        assert _tail(write_log(tmp_path, padded)) is None
    assert _tail(write_log(tmp_path, whole + bytes(2_000_000) + b"x")) is None  # reported as damage, with its bytes


def test_the_last_of_several_segments_counts(tmp_path: Path) -> None:
    parts = encoded(topics(2))
    folder = write_log(tmp_path, b"".join(parts[:2]), parts[2][:-1], base_offsets=(0, 42))
    assert _tail(folder) == (42, f"{42:020}.log ends with {len(parts[2]) - 1} bytes of a batch that is not whole")
    (folder / f"{42:020}.log").write_bytes(b"")
    assert _tail(folder) is None
