"""`klamm serve --twin --follow`: the twin begins again when it is told to, and goes on if its source cannot be read."""

import json
import signal
import urllib.request
from pathlib import Path

from klamm.controller.log.data_dir import LOG_FOLDER
from klamm.controller.log.segment_files import list_segments
from tests.klamm.serve.processes import FREE, addresses, create, first_line, serving, topics


def brokers_of(control: str) -> int:
    with urllib.request.urlopen(f"{control}/brokers", timeout=30) as answer:
        return len(json.load(answer))


def test_a_twin_begins_again_with_what_its_source_has_then(tmp_path: Path) -> None:
    with serving(*FREE, "--brokers", "2", "--data-dir", str(tmp_path)) as original:
        theirs = addresses(first_line(original))
        assert create(theirs[0], "before") == 0
        with serving(*FREE, "--twin", str(tmp_path), "--follow", "--control", "127.0.0.1:0") as twin:
            ours, control = addresses(first_line(twin)), first_line(twin)
            assert create(ours[0], "of-the-twin") == 0
            assert create(theirs[0], "behind") == 0
            assert set(topics(ours[0])) == {"before", "of-the-twin"}
            for _ in range(2):
                twin.send_signal(signal.SIGHUP)
                ours = addresses(first_line(twin))
                assert set(topics(ours[0])) == {"before", "behind"}
                assert first_line(twin) == control
            assert brokers_of(control.strip().removeprefix("control=")) == 2
            assert set(topics(theirs[0])) == {"before", "behind"}


def test_a_source_that_cannot_be_read_leaves_the_twin_as_it_is(tmp_path: Path) -> None:
    with serving(*FREE, "--brokers", "1", "--data-dir", str(tmp_path)) as original:
        assert create(addresses(first_line(original))[0], "before") == 0
    with serving(*FREE, "--twin", str(tmp_path), "--follow") as twin:
        (ours,) = addresses(first_line(twin))
        for segment in list_segments(tmp_path / LOG_FOLDER):
            segment.path.unlink()
        for snapshot in (tmp_path / LOG_FOLDER).glob("*.checkpoint"):
            snapshot.unlink()
        twin.send_signal(signal.SIGHUP)
        assert twin.stderr is not None
        assert "the twin cannot begin again, and goes on as it is" in twin.stderr.readline()
        assert set(topics(ours)) == {"before"}
