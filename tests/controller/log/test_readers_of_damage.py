"""Readers of a metadata log whose files became shorter or were removed get an error."""

from pathlib import Path

import pytest

from klamm.controller.log import LogError
from tests.controller.log.logs import TIMESTAMP_MS, append_records, open_log, segment_files
from tests.controller.log.test_readers import ALL, on_disk, topics


@pytest.mark.parametrize("after_a_start", [False, True])
@pytest.mark.parametrize("lost_batches", [0, 1, 3])
def test_a_file_that_has_become_shorter_is_an_error_and_what_is_left_can_be_read(
    tmp_path: Path, lost_batches: int, after_a_start: bool
) -> None:
    """Another process has cut the file, inside the last batch or before it. The reader neither returns a part of a
    batch nor searches for ever."""
    log = open_log(tmp_path)
    for number in range(3):
        append_records(log, topics(number), TIMESTAMP_MS)
    log.sync()
    if after_a_start:
        log.close()
        log = open_log(tmp_path)
    batches = on_disk(tmp_path)
    (path,) = segment_files(tmp_path)
    kept = len(batches) - 1 - lost_batches
    with path.open("rb+") as file:
        file.truncate(sum(len(one.data) for one in batches[: kept + 1]) - 1)
    reader = log.reader()
    for offset in (batches[0].base_offset, batches[-1].base_offset):
        with pytest.raises(LogError, match="too early"):
            reader.read(offset, ALL)
    log.close()


def test_a_file_that_is_gone_is_an_error_of_the_reader(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_records(log, topics(1), TIMESTAMP_MS)
    log.sync()
    (path,) = segment_files(tmp_path)
    path.unlink()
    with pytest.raises(LogError, match=path.name):
        log.reader().read(0, ALL)
    log.close()
