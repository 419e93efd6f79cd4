"""`klamm serve` on a data directory that cannot be used, or that stops being usable: one line, an exit code, no data
lost."""

import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from klamm.protocol.records.cluster import FeatureLevelRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.controller.log.logs import segment_files, write_log
from tests.klamm.serve.processes import (
    FREE,
    SECONDS,
    addresses,
    command,
    create,
    create_if_served,
    environment,
    first_line,
    refused,
    serving,
    topics,
)
from tests.klamm.serve.volumes import fill, in_another_container, obey_permissions, read_only_mount, small_volume


def contents(folder: Path) -> dict[str, bytes]:
    """All files except the lock, which every start touches."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def refused_on(data_dir: Path, before: Callable[[], None] | None = None) -> str:
    """The one line with which a start on the directory is refused."""
    with serving(*FREE, "--data-dir", str(data_dir), before=before) as process:
        stdout, stderr = process.communicate(timeout=SECONDS)
    assert (process.returncode, stdout, stderr.count("\n")) == (2, "", 1)
    return stderr.removeprefix("klamm serve: ").rstrip("\n")


def shown_topics(data_dir: Path) -> list[str]:
    """The topics after a start on the directory."""
    with serving(*FREE, "--data-dir", str(data_dir)) as process:
        return sorted(name or "" for name in topics(addresses(first_line(process))[0]))


def make_topics(data_dir: Path, *names: str) -> None:
    with serving(*FREE, "--data-dir", str(data_dir)) as process:
        (broker, *_) = addresses(first_line(process))
        assert [create(broker, name) for name in names] == [0] * len(names)
        process.terminate()
        assert process.wait(SECONDS) == 0


def test_two_containers_on_one_volume_are_told_apart(tmp_path: Path) -> None:
    """Each container has process ids of its own, so the id alone could name a process of the wrong container."""
    serve = command("serve", *FREE, "--brokers", "1", "--data-dir", str(tmp_path))
    other = in_another_container(serve)
    with subprocess.Popen(other, stdout=subprocess.PIPE, text=True, env=environment()) as first:
        try:
            assert first.stdout is not None
            assert create(addresses(first.stdout.readline())[0], "made") == 0
            line = refused_on(tmp_path)
            assert re.fullmatch(r".* is in use by another Klamm, process \d of host elsewhere", line)
        finally:
            first.send_signal(signal.SIGKILL)
        first.stdout.read()  # ends when the server has ended, which is the child of what was killed
    assert shown_topics(tmp_path) == ["made"]


def test_the_second_of_two_containers_names_the_first(tmp_path: Path) -> None:
    with serving(*FREE, "--data-dir", str(tmp_path)) as process:
        first_line(process)
        second = in_another_container(command("serve", *FREE, "--data-dir", str(tmp_path)))
        done = subprocess.run(second, capture_output=True, text=True, env=environment(), timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf".* in use by another Klamm, process {process.pid} of host \S+\n", done.stderr)


@contextmanager
def forbidden(folder: Path) -> Iterator[Path]:
    """The folder, without write permission."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield folder
    finally:
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755)


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize(
    ("closed", "why"), [(forbidden, "Permission denied"), (read_only_mount, "Read-only file system")]
)
def test_a_read_only_volume_is_refused(
    tmp_path: Path, closed: Callable[[Path], AbstractContextManager[Path]], why: str, made: bool
) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    if made:
        make_topics(volume / "data", "made")
    before = contents(volume)
    with closed(volume) as seen:
        data_dir = seen / "data"
        line = refused_on(data_dir, obey_permissions())
    assert line in (f"cannot create {data_dir}/.lock: {why}", f"cannot use data directory {data_dir}: {why}")
    assert contents(volume) == before
    if made:
        assert shown_topics(volume / "data") == ["made"]


def test_a_volume_that_fills_up_ends_the_server_and_keeps_all_that_was_acknowledged(tmp_path: Path) -> None:
    with small_volume(tmp_path, "128k") as volume:
        data_dir = volume / "data"
        acknowledged: list[str] = []
        with serving(*FREE, "--data-dir", str(data_dir)) as process:
            (broker, *_) = addresses(first_line(process))
            filler = fill(volume)
            while create_if_served(broker, f"topic-{len(acknowledged)}"):
                acknowledged.append(f"topic-{len(acknowledged)}")
            stdout, stderr = process.communicate(timeout=SECONDS)
        assert (process.returncode, stdout) == (1, "")
        assert re.fullmatch(r"klamm serve: cannot write \S+\.log: No space left on device\n", stderr)
        fill(volume)
        kept = contents(data_dir)
        assert refused_on(data_dir).endswith(": No space left on device")
        assert kept.items() >= {name: kept[name] for name in contents(data_dir) if name.endswith(".log")}.items()
        filler.unlink()
        assert shown_topics(data_dir) == sorted(acknowledged)


def test_a_volume_that_is_full_at_the_start_is_told_and_left_fit_for_the_next_one(tmp_path: Path) -> None:
    with small_volume(tmp_path, "128k") as volume:
        filler = fill(volume)
        assert re.fullmatch(r"cannot \S+ .*: No space left on device", refused_on(volume / "data"))
        filler.unlink()
        assert shown_topics(volume / "data") == []


def old_metadata_version(data_dir: Path) -> None:
    features = [FeatureLevelRecord(name="metadata.version", feature_level=6)]
    write_log(data_dir, [features, [TopicRecord(name="old", topic_id=Uuid(bytes(15) + b"\1"))]])


def zookeeper_era(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=abc\n")
    (data_dir / "orders-0").mkdir()
    (data_dir / "orders-0" / "00000000000000000000.log").write_bytes(b"records")


def of_a_broker(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "meta.properties").write_text(
        "version=1\nnode.id=1\ncluster.id=abc\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
    )
    (data_dir / "orders-0").mkdir()


def without_a_segment(data_dir: Path) -> None:
    names = (f"topic-{number}" for number in range(8))
    write_log(data_dir, [[TopicRecord(name=name, topic_id=Uuid.from_text("A" * 21 + "Q"))] for name in names], 300)
    segment_files(data_dir)[1].unlink()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (zookeeper_era, "has version 0, not 1: it was written for a broker with ZooKeeper"),
        (of_a_broker, "belongs to node 1, not to the controller, 3000"),
        (without_a_segment, "are missing before segment"),
    ],
)
def test_a_directory_of_an_earlier_time_or_with_a_hole_is_refused_and_left_alone(
    tmp_path: Path, make: Callable[[Path], None], said: str
) -> None:
    data_dir = tmp_path / "data"
    make(data_dir)
    before = contents(data_dir)
    for _ in range(2):
        assert said in refused_on(data_dir)
    assert contents(data_dir) == before


def test_a_log_of_a_metadata_version_before_3_3_is_refused(tmp_path: Path) -> None:
    """As by Apache Kafka 4.3."""
    old_metadata_version(tmp_path)
    (segment,) = segment_files(tmp_path)
    before = segment.read_bytes()
    for _ in range(2):
        line = refused_on(tmp_path)
        assert line.startswith("the metadata log is at metadata.version 6, and Klamm supports only 7 to 30, like ")
    assert segment.read_bytes().startswith(before)


def test_a_directory_without_an_id_gets_one(tmp_path: Path) -> None:
    """Apache Kafka did not write directory ids before 3.7, and adds them now."""
    make_topics(tmp_path, "made")
    path = tmp_path / "meta.properties"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("directory.id")))
    assert shown_topics(tmp_path) == ["made"]
    given = path.read_text()
    assert re.search(r"^directory\.id=\S{22}$", given, re.MULTILINE)
    assert shown_topics(tmp_path) == ["made"]
    assert path.read_text() == given


def test_a_copied_volume_is_as_good_as_the_first(tmp_path: Path) -> None:
    """The process holds the lock, not the file: a copy that was made during a run is not locked."""
    with serving(*FREE, "--data-dir", str(tmp_path / "data")) as process:
        (broker, *_) = addresses(first_line(process))
        assert create(broker, "made") == 0
        shutil.copytree(tmp_path / "data", tmp_path / "copy")
        assert shown_topics(tmp_path / "copy") == ["made"]
        assert "in use by another Klamm" in refused("serve", *FREE, "--data-dir", str(tmp_path / "data"))[2]
