"""`klamm wire` as a process: filters, files, exit codes, and a table for shells."""

import json
import subprocess
from pathlib import Path

from klamm.wire.kinds import api_keys
from tests.klamm.serve.processes import SECONDS, command, environment

GOOD = '{"kind":"control","message":"SnapshotFooterRecord","version":0,"hex":"000000"}'
BAD = '{"kind":"control","message":"SnapshotFooterRecord","version":0,"hex":""}'


def run(*arguments: str, text: str = "") -> tuple[int, str, str]:
    done = subprocess.run(
        command("wire", *arguments),
        input=text,
        capture_output=True,
        env=environment(),
        timeout=SECONDS,
        check=False,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_line_that_fails_leaves_the_others_alone_and_shows_in_the_exit_code() -> None:
    exit_code, output, complaints = run("decode", text=f"{GOOD}\n{BAD}\n\n{GOOD}")
    lines = [json.loads(line) for line in output.splitlines()]
    assert [("body" in line, "error" in line) for line in lines] == [
        (True, False), (False, True), (False, True), (True, False),
    ]  # fmt: skip
    assert (exit_code, complaints) == (1, "")


def test_there_and_back_by_pipes_and_by_files(tmp_path: Path) -> None:
    exit_code, decoded, _ = run("decode", text=f"{GOOD}\n")
    assert exit_code == 0
    (tmp_path / "one").write_text(decoded)
    (tmp_path / "two").write_text(decoded * 2)
    exit_code, encoded, _ = run("encode", str(tmp_path / "one"), str(tmp_path / "two"))
    assert exit_code == 0
    assert [json.loads(line)["hex"] for line in encoded.splitlines()] == ["000000"] * 3


def test_each_line_is_answered_before_the_next_is_asked_for() -> None:
    with subprocess.Popen(
        command("wire", "decode"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(3):
            process.stdin.write(f"{GOOD}\n".encode())
            assert json.loads(process.stdout.readline())["body"] == {"version": 0}
        process.stdin.close()
        assert process.wait(SECONDS) == 0


def test_a_file_that_is_not_there_is_a_line(tmp_path: Path) -> None:
    for name in ("decode", "encode", "dump"):
        missing = tmp_path / "missing"
        assert run(name, str(missing)) == (2, "", f"klamm wire: cannot read {missing}: No such file or directory\n")


def test_a_wrong_call_is_a_line() -> None:
    for arguments in ((), ("nonsense",), ("dump",), ("decode", "--nonsense")):
        exit_code, reported, complaints = run(*arguments)
        assert (exit_code, reported, len(complaints.splitlines())) == (2, "", 1)


def test_the_table_has_every_api() -> None:
    exit_code, table, _ = run("list")
    rows = [line.split(maxsplit=4) for line in table.splitlines()[1:]]
    assert exit_code == 0
    assert {row[2]: int(row[1]) for row in rows if row[0] == "api"} == api_keys()
    assert ["api", "19", "CreateTopics", "0-7", "5"] in rows
    assert sum(row[0] == "record" for row in rows) == 26
    assert sum(row[0] == "control" for row in rows) == 5
