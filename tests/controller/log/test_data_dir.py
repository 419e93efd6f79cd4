"""A data directory that cannot be used gives one line of error for each cause, and is not changed."""

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from klamm.controller.log import LogError, SegmentLog
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.controller.log.logs import (
    CLUSTER_ID,
    DIRECTORY_ID,
    TIMESTAMP_MS,
    append_records,
    open_log,
    reopened,
    segment_files,
)

REPOSITORY = Path(__file__).parents[3]
TOPIC = [TopicRecord(name="one", topic_id=Uuid(bytes(16)))]
PREAMBLE = """
import sys
from pathlib import Path
from klamm.controller.log import LogError, SegmentLog
from tests.controller.log.test_data_dir import TIMESTAMP_MS, TOPIC, append_records, open_log
data_dir = Path(sys.argv[1])
"""


def start_python(body: str, data_dir: Path) -> "subprocess.Popen[str]":
    """Another process that opens a log; `body` sees `data_dir`."""
    return subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + textwrap.dedent(body), str(data_dir)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def refusal(data_dir: Path) -> str:
    """The one line with which the directory is refused."""
    with pytest.raises(LogError) as refused:
        open_log(data_dir)
    line = str(refused.value)
    assert "\n" not in line
    assert str(data_dir) in line
    return line


def test_two_logs_of_one_process_do_not_share_a_directory(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert refusal(tmp_path) == f"data directory {tmp_path} is in use by another Klamm, process {os.getpid()}"
    append_records(log, TOPIC, TIMESTAMP_MS)
    log.close()
    assert reopened(tmp_path) == [TOPIC]


def test_two_processes_do_not_share_a_directory(tmp_path: Path) -> None:
    body = """
        log = open_log(data_dir)
        print("ready", flush=True)
        sys.stdin.read()
    """
    with start_python(body, tmp_path) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        expected = f"data directory {tmp_path} is in use by another Klamm, process {other.pid}"
        assert refusal(tmp_path) == expected
        other.kill()
    open_log(tmp_path).close()


def test_apache_kafka_and_klamm_keep_each_other_out(tmp_path: Path) -> None:
    """Java locks by POSIX record locks, which do not see the locks of `flock`."""
    body = """
        import fcntl
        lock = (data_dir / ".lock").open("w")
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("ready", flush=True)
        sys.stdin.read()
    """
    with start_python(body, tmp_path) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        assert "in use by another program, such as Apache Kafka" in refusal(tmp_path)
        other.kill()
    log = open_log(tmp_path)
    locks_too = "import fcntl; fcntl.lockf((data_dir / '.lock').open('r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    with start_python(f"try: {locks_too}\nexcept BlockingIOError: print('refused')", tmp_path) as other:
        assert other.communicate()[0] == "refused\n"
    log.close()


def test_what_was_promised_durable_survives_kill_9(tmp_path: Path) -> None:
    body = """
        log = open_log(data_dir, segment_bytes=1000)
        while True:
            append_records(log, TOPIC, TIMESTAMP_MS)
            log.sync()
            print(log.durable_offset, flush=True)
    """
    with start_python(body, tmp_path) as killed:
        assert killed.stdout is not None
        promised = [int(killed.stdout.readline()) for _ in range(50)]
        killed.send_signal(signal.SIGKILL)
        promised += [int(line) for line in killed.stdout if line.endswith("\n")]
    warnings: list[str] = []
    log = open_log(tmp_path, warn=warnings.append)
    assert log.end_offset - 1 >= promised[-1]
    assert list(range(2, promised[-1] + 1)) == promised
    log.close()


def test_a_full_disk_ends_the_log_and_loses_nothing_that_was_there(tmp_path: Path) -> None:
    """A limit on the size of files has the effect of a full disk: the last write is cut short, the next one fails."""
    body = """
        import resource
        log = open_log(data_dir)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        count = 0
        try:
            while True:
                append_records(log, TOPIC, TIMESTAMP_MS)
                count += 1
        except LogError as error:
            print(error)
        for refused in (lambda: append_records(log, TOPIC, TIMESTAMP_MS), log.sync):
            try:
                refused()
            except LogError as error:
                print(error)
        print(count)
    """
    with start_python(body, tmp_path) as full:
        assert full.stdout is not None
        *lines, count = full.stdout.read().splitlines()
    (segment,) = segment_files(tmp_path)
    assert lines == [f"cannot write {segment}: File too large"] * 3
    assert segment.stat().st_size == 2000
    warnings: list[str] = []
    assert reopened(tmp_path, warnings.append) == [TOPIC] * int(count)
    assert len(warnings) == 1
    assert int(count) > 10


@pytest.mark.parametrize("limit_bytes", [0, 10, 100, 120])
def test_a_disk_that_is_full_from_the_beginning_is_told(tmp_path: Path, limit_bytes: int) -> None:
    """For each file of a new directory that may find no room; the next start, with room, finds no remains that prevent
    it."""
    body = f"""
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit_bytes}, {limit_bytes}))
        try:
            open_log(data_dir)
        except LogError as error:
            print(error)
    """
    with start_python(body, tmp_path / "data") as full:
        assert full.stdout is not None
        said = full.stdout.read()
    assert re.fullmatch(rf"cannot write {tmp_path}/data/\S+: File too large\n", said)
    assert reopened(tmp_path / "data") == []


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("mine")
    assert refusal(path) == f"cannot use data directory {path}: {path} is not a directory"
    assert str(path) in refusal(path / "below")
    assert path.read_text() == "mine"


def test_a_directory_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    """A directory of the kernel, in which not even root can create files."""
    assert re.fullmatch(r"cannot create /proc/tty/ldisc/.lock: .+", refusal(Path("/proc/tty/ldisc")))
    assert re.fullmatch(r"cannot use data directory /proc/self/\S+: .+", refusal(Path("/proc/self/klamm")))


@pytest.mark.parametrize("name", [".lock", "meta.properties", "__cluster_metadata-0/quorum-state"])
def test_a_folder_where_a_file_belongs_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    assert name in refusal(tmp_path)


def test_a_file_where_the_log_folder_belongs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "__cluster_metadata-0").write_text("")
    assert "__cluster_metadata-0" in refusal(tmp_path)


def test_a_folder_where_a_segment_belongs_is_refused(tmp_path: Path) -> None:
    open_log(tmp_path).close()
    (segment,) = segment_files(tmp_path)
    segment.unlink()
    segment.mkdir()
    assert "Is a directory" in refusal(tmp_path)


OURS = f"version=1\nnode.id=3000\ncluster.id={CLUSTER_ID}\ndirectory.id={DIRECTORY_ID}\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (OURS.replace("version=1", "version=0"), "has version 0, not 1: it was written for a broker with ZooKeeper"),
        (OURS.replace("version=1", "version=2"), "has version 2, not 1"),
        (OURS.replace("version=1\n", ""), "has no version, not 1"),
        (OURS.replace("3000", "-1"), "is a copy that klamm clone wrote: klamm serve --twin begins with it"),
        (OURS.replace("3000", "1"), "belongs to node 1, not to the controller, 3000"),
        (OURS.replace(CLUSTER_ID, ""), "names no cluster.id"),
        (OURS.replace(str(DIRECTORY_ID), "AAAA"), "directory.id that is none: 'AAAA' holds 3 bytes"),
        (OURS.replace(str(DIRECTORY_ID), "A" * 22), "directory.id that is none"),
        (OURS.replace(str(DIRECTORY_ID), "?"), "directory.id that is none"),
        (OURS + "what is this\n", "line 5 is no name=value: 'what is this'"),
        (OURS + "#" * 70_000, "has more than 65536 bytes"),
        ("", "has no version, not 1"),
        (b"version=\xff\n", "is no UTF-8 text"),
    ],
)
def test_a_directory_of_others_is_refused_and_left_alone(tmp_path: Path, text: str | bytes, complaint: str) -> None:
    path = tmp_path / "meta.properties"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = path.read_bytes()
    assert complaint in refusal(tmp_path)
    assert path.read_bytes() == before
    assert not (tmp_path / "__cluster_metadata-0").exists()


def test_meta_properties_may_have_as_much_as_65536_bytes(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_text(f"{OURS}#".ljust(65_536, "#"))
    open_log(tmp_path).close()
    path.write_text(f"{OURS}#".ljust(65_537, "#"))
    assert refusal(tmp_path) == f"{path} has more than 65536 bytes"


def test_a_directory_as_kafka_formats_it_is_ours(tmp_path: Path) -> None:
    """Its comments, its order of lines, and no directory.id yet."""
    path = tmp_path / "meta.properties"
    path.write_text("#\n#Sat Nov 21 12:09:19 UTC 2026\ncluster.id = abc\n\nversion=1\nsomething.new=x\nnode.id=3000\n")
    log = open_log(tmp_path)
    assert (log.cluster_id, log.directory_id) == ("abc", DIRECTORY_ID)
    log.close()
    assert f"directory.id={DIRECTORY_ID}\n" in path.read_text()


@pytest.mark.parametrize("name", ["bin", "server.log", ".profile", "topic-0", "quorum-state"])
@pytest.mark.parametrize("left", [[], [".lock", "lost+found"]])
def test_a_directory_of_other_things_is_refused_and_nothing_is_created_in_it(
    tmp_path: Path, name: str, left: list[str]
) -> None:
    for held in (name, *left):
        (tmp_path / held).mkdir()
    modified_ns = tmp_path.stat().st_mtime_ns
    reason = f"it is not empty (it holds {name!r}) and has no meta.properties"
    assert refusal(tmp_path) == f"{tmp_path} is no data directory: {reason}"
    assert {path.name for path in tmp_path.iterdir()} == {name, *left}
    assert tmp_path.stat().st_mtime_ns == modified_ns


def test_a_link_to_a_directory_of_other_things_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "other" / "bin").mkdir(parents=True)
    (tmp_path / "data").symlink_to("other")
    assert "it holds 'bin'" in refusal(tmp_path / "data")
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["bin"]


def test_what_an_interrupted_first_start_or_a_fresh_volume_holds_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".lock").write_text("")
    (tmp_path / "meta.properties.tmp").write_text("version=1\nnode")
    assert reopened(tmp_path) == []


def test_an_empty_log_folder_without_meta_properties_is_taken(tmp_path: Path) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()
    assert reopened(tmp_path) == []


def test_a_log_of_nobody_is_refused(tmp_path: Path) -> None:
    open_log(tmp_path).close()
    (tmp_path / "meta.properties").unlink()
    assert "holds a metadata log, but no meta.properties" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is no JSON"),
        ("[" * 60_000, "is no JSON"),
        ("[]", "is no quorum state of version 0"),
        ('{"leaderEpoch":1,"data_version":7}', "is no quorum state of version 0"),
        ('{"data_version":0}', "has no leaderEpoch between 0 and 2147483647: None"),
        ('{"leaderEpoch":"1","data_version":0}', "has no leaderEpoch"),
        ('{"leaderEpoch":true,"data_version":0}', "has no leaderEpoch"),
        ('{"leaderEpoch":-1,"data_version":0}', "has no leaderEpoch between 0 and 2147483647: -1"),
        ('{"leaderEpoch":2147483647,"data_version":0}', "no epoch is left after 2147483647"),
        ('{"leaderEpoch":1,"data_version":0}', "has epoch 2, which"),
    ],
)
def test_a_quorum_state_that_cannot_be_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    for _ in range(2):
        open_log(tmp_path).close()
    path = tmp_path / "__cluster_metadata-0" / "quorum-state"
    path.write_text(text)
    before = segment_files(tmp_path)[0].read_bytes()
    assert complaint in refusal(tmp_path)
    assert path.read_text() == text
    assert segment_files(tmp_path)[0].read_bytes() == before


def test_a_refused_directory_is_not_kept_locked_or_open(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        refusal(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    (tmp_path / "meta.properties").unlink()
    assert reopened(tmp_path) == []


def test_a_directory_of_another_cluster_than_expected_is_refused(tmp_path: Path) -> None:
    warnings: list[str] = []

    def opened(expected: str | None) -> SegmentLog:
        return SegmentLog.open(
            tmp_path,
            new_cluster_id="new",
            new_directory_id=DIRECTORY_ID,
            timestamp_ms=TIMESTAMP_MS,
            warn=warnings.append,
            expected_cluster_id=expected,
        )

    open_log(tmp_path).close()
    for other in ("new", "other"):
        with pytest.raises(LogError, match=f"^{tmp_path} is of cluster {CLUSTER_ID}, not of {other}$"):
            opened(other)
    for ours in (None, CLUSTER_ID):
        opened(ours).close()
    assert warnings == []
