"""`klamm assign` as a process: files, broken pipes, signals, exit codes, and its start time."""

import json
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.klamm.assign.test_lines import GOLDEN, as_answered, as_answered_to_a_call, asked
from tests.klamm.serve.processes import SECONDS, command, environment

LINE = json.dumps(asked(fixedStartIndex=0, partitions=1)) + "\n"
ANSWER = '{"assignment":{"0":[1,2]}}\n'


def run(
    *arguments: str, text: str = "", flags: tuple[str, ...] = (), before: Callable[[], None] | None = None
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `klamm assign` with this input."""
    done = subprocess.run(
        command("assign", *arguments, flags=flags),
        input=text.encode(),
        capture_output=True,
        env=environment(),
        timeout=SECONDS,
        check=False,
        preexec_fn=before,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@contextmanager
def started(stdout: int = subprocess.PIPE) -> Iterator["subprocess.Popen[bytes]"]:
    """A `klamm assign` with pipes, which is stopped when the block ends."""
    process = subprocess.Popen(
        command("assign"),
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=environment(),
        bufsize=0,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(SECONDS)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def write(process: "subprocess.Popen[bytes]", line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line.encode())


def read(process: "subprocess.Popen[bytes]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode()


def ended(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Exit code and stderr of a process that ends by itself."""
    assert process.stderr is not None
    output = process.stderr.read().decode()
    return process.wait(SECONDS), output


def test_every_recorded_placement_comes_out_of_the_process_id_for_id() -> None:
    names = ("admin_utils.jsonl", "admin_utils-seeded.jsonl", "striped.jsonl")
    text = "".join((GOLDEN / name).read_text(encoding="utf-8") for name in names)
    cases = [json.loads(line) for line in text.splitlines()]
    assert len(cases) == 484
    code, stdout, stderr = run(text=text)
    assert (code, stderr) == (0, "")
    expected = [
        {"results": [as_answered_to_a_call(call) for call in case["calls"]]} if "calls" in case else as_answered(case)
        for case in cases
    ]
    assert [json.loads(line) for line in stdout.splitlines()] == expected


def test_nothing_in_is_nothing_out() -> None:
    assert run() == (0, "", "")


def test_refusals_are_answers_and_no_failure() -> None:
    code, stdout, stderr = run(text=f"{{\n\n{LINE}")
    assert (code, stderr) == (0, "")
    *refused, placed = stdout.splitlines(keepends=True)
    assert [json.loads(line)["error"]["reason"] for line in refused] == ["INVALID_REQUEST"] * 2
    assert placed == ANSWER


def test_lines_come_from_a_file_or_from_stdin(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text(LINE * 2)
    assert run(str(lines)) == (0, ANSWER * 2, "")
    assert run("-", text=LINE) == (0, ANSWER, "")


def test_an_answer_comes_before_the_next_line_is_asked_for() -> None:
    with started() as process:
        for _ in range(3):
            write(process, LINE)
            assert read(process) == ANSWER
        assert process.stdin is not None
        process.stdin.close()
        assert ended(process) == (0, "")


def test_a_reader_who_has_enough_ends_it_quietly() -> None:
    with started() as process:
        write(process, LINE)
        assert read(process) == ANSWER
        assert process.stdout is not None
        process.stdout.close()
        write(process, LINE)
        assert ended(process) == (0, "")


def test_an_interrupt_ends_it_without_a_traceback() -> None:
    with started() as process:
        write(process, LINE)
        assert read(process) == ANSWER
        process.send_signal(signal.SIGINT)
        assert ended(process) == (-signal.SIGINT, "")


def test_an_interrupt_while_numpy_is_imported_ends_it_without_a_traceback() -> None:
    """Not by KeyboardInterrupt, because the import of NumPy sometimes turns that into an ImportError with a long
    text."""
    with started() as process:
        maps = Path(f"/proc/{process.pid}/maps")
        while "numpy" not in maps.read_text():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert ended(process) == (-signal.SIGINT, "")


def test_an_interrupt_that_is_ignored_stays_ignored() -> None:
    """A shell starts background processes with interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with started() as process:
            write(process, LINE)
            assert read(process) == ANSWER
            process.send_signal(signal.SIGINT)
            write(process, LINE)
            assert read(process) == ANSWER
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_full_disk_is_one_line_and_exit_code_1() -> None:
    with Path("/dev/full").open("wb") as full, started(stdout=full.fileno()) as process:
        write(process, LINE)
        assert ended(process) == (1, "klamm assign: No space left on device\n")


def test_an_answer_that_is_written_in_part_is_no_success(tmp_path: Path) -> None:
    def limit_files_to_16_kib() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, 16_384))

    with (tmp_path / "answers").open("wb") as answers:
        done = subprocess.run(
            command("assign"),
            input=json.dumps(asked(partitions=10_000)).encode(),
            stdout=answers,
            stderr=subprocess.PIPE,
            env=environment(),
            timeout=SECONDS,
            check=False,
            preexec_fn=limit_files_to_16_kib,
        )
    assert (done.returncode, done.stderr) == (1, b"klamm assign: File too large\n")


@pytest.mark.parametrize(("arguments", "said"), [
    (["no-such.jsonl"], "klamm assign: cannot read no-such.jsonl: No such file or directory\n"),
    (["/"], "klamm assign: cannot read /: Is a directory\n"),
    ([""], "klamm assign: argument FILE: '' is no path\n"),
    (["a", "b"], "klamm assign: unrecognized arguments: b\n"),
    (["--explan"], "klamm assign: unrecognized arguments: --explan; did you mean '--explain'?\n"),
])  # fmt: skip
def test_a_wrong_argument_is_one_line_and_exit_code_2(arguments: list[str], said: str) -> None:
    assert run(*arguments) == (2, "", said)


def test_closed_streams_are_told_in_one_line() -> None:
    assert run(before=lambda: os.close(0)) == (2, "", "klamm assign: cannot read stdin: Bad file descriptor\n")
    assert run(text=LINE, before=lambda: os.close(1)) == (1, "", "klamm assign: Bad file descriptor\n")
    assert run(text=LINE, before=lambda: os.close(2)) == (0, ANSWER, "")


def test_a_placement_that_memory_cannot_hold_is_refused_and_the_next_line_answered() -> None:
    def limit_memory_to_384_mib() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (384 << 20, 384 << 20))

    huge = json.dumps(asked(partitions=33_000_000, rf=3)) + "\n"
    code, stdout, stderr = run(text=huge + LINE, before=limit_memory_to_384_mib)
    assert (code, stderr) == (0, "")
    refused, placed = stdout.splitlines(keepends=True)
    assert json.loads(refused)["error"] == {
        "reason": "INVALID_REQUEST",
        "message": "there is not enough memory for 33000000 partitions with replication factor 3",
    }
    assert placed == ANSWER


def imported(*arguments: str, text: str) -> set[str]:
    """The modules that a run imports."""
    code, _, stderr = run(*arguments, text=text, flags=("-X", "importtime"))
    assert code == 0
    return {line.rsplit("|", 1)[1].strip() for line in stderr.splitlines() if line.startswith("import time:")}


def test_the_filter_needs_no_drawing_and_no_server() -> None:
    names = imported(text=LINE)
    assert "numpy" in names
    assert {name.split(".")[0] for name in names} & {"rich", "pygments", "trio", "structlog", "construct"} == set()
    assert "rich" in imported("--explain", text=LINE)


def test_help_names_the_command_and_its_options() -> None:
    listed = subprocess.run(command("--help"), capture_output=True, text=True, env=environment(), check=True)
    assert "  assign  " in listed.stdout
    code, stdout, stderr = run("--help")
    assert (code, stderr) == (0, "")
    assert "--explain" in stdout
    assert "FILE" in stdout
