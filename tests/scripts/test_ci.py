"""`.ci/run` sums up its parts and passes only if every one of them did."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.scripts.environments import ROOT

GOOD_TESTS = ("== 7 passed in 0.10s ==", 0)
GOOD_SLOW = ("== 20 passed in 9.00s ==", 0)
GOOD_LINT = ("lint: 6 passed, 0 failed", 0)


def run_ci(folder: Path, *parts: tuple[str, int], slow: tuple[str, int] = GOOD_SLOW) -> tuple[int, str]:
    """Exit code and closing line of `.ci/run` in a project whose scripts say these lines with these exit codes.

    `slow` is what `scripts/test --slow` says.
    """
    ended = ended_ci(folder, *parts, slow=slow)
    return ended.returncode, ended.stdout.splitlines()[-1]


def ended_ci(
    folder: Path, *parts: tuple[str, int], slow: tuple[str, int] = GOOD_SLOW
) -> "subprocess.CompletedProcess[str]":
    (folder / ".ci").mkdir()
    (folder / "scripts").mkdir(exist_ok=True)
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    for name, (said, exit_code) in zip(("test", "lint", "toolchain"), parts, strict=False):
        script = folder / "scripts" / name
        script.write_text(
            "#!/bin/sh\n"
            'echo "called with <$*>"\n'
            f"if [ \"$*\" = --slow ]; then cat <<'END'\n{slow[0]}\nEND\nexit {slow[1]}; fi\n"
            f"cat <<'END'\n{said}\nEND\nexit {exit_code}\n"
        )
        script.chmod(0o755)
    return subprocess.run([folder / ".ci" / "run"], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("parts", "closing_line"),
    [
        ([GOOD_TESTS, GOOD_LINT], "33 passed, 0 failed"),
        ([GOOD_TESTS, GOOD_LINT, ("toolchain: 2 passed, 0 failed", 0)], "35 passed, 0 failed"),
        ([("1 failed, 3 passed, 2 warnings in 1.00s\n5 passed, 1 xfailed in 1s", 0), GOOD_LINT], "31 passed, 0 failed"),
    ],
)
def test_what_the_parts_passed_is_added_up(tmp_path: Path, parts: list[tuple[str, int]], closing_line: str) -> None:
    assert run_ci(tmp_path, *parts) == (0, closing_line)


@pytest.mark.parametrize(
    ("parts", "closing_line"),
    [
        ([("== 2 failed, 5 passed in 1s ==", 1), GOOD_LINT], "31 passed, 2 failed"),
        ([("== 5 passed, 3 errors in 1s ==", 1), GOOD_LINT], "31 passed, 3 failed"),
        ([("== 1 failed, 5 passed, 1 error in 1s ==", 1), GOOD_LINT], "31 passed, 2 failed"),
        ([("== no tests ran in 0.01s ==", 5), GOOD_LINT], "26 passed, 1 failed"),
        ([("== 9 deselected in 0.01s ==", 5), GOOD_LINT], "26 passed, 1 failed"),
        ([("== 7 passed in 1s ==\nand then it was killed", 137), GOOD_LINT], "33 passed, 1 failed"),
        ([("no environment", 1), GOOD_LINT], "26 passed, 1 failed"),
        ([GOOD_TESTS, ("lint: 4 passed, 2 failed", 1)], "31 passed, 2 failed"),
        ([GOOD_TESTS, GOOD_LINT, ("Java was not found", 1)], "33 passed, 1 failed"),
        ([GOOD_TESTS, GOOD_LINT, ("1 passed, 1 failed", 0)], "34 passed, 1 failed"),
        ([GOOD_TESTS], "27 passed, 1 failed"),
    ],
)
def test_whatever_fails_fails_the_run(tmp_path: Path, parts: list[tuple[str, int]], closing_line: str) -> None:
    assert run_ci(tmp_path, *parts) == (1, closing_line)


def test_tests_that_are_slow_count_as_all_others(tmp_path: Path) -> None:
    assert run_ci(tmp_path, GOOD_TESTS, GOOD_LINT, slow=("== 1 failed, 19 passed in 9s ==", 1)) == (
        1,
        "32 passed, 1 failed",
    )


def test_what_failed_is_named_at_the_end(tmp_path: Path) -> None:
    tests = ("FAILED tests/a.py::test_one - AssertionError\nmore\n== 1 failed, 5 passed in 1s ==", 1)
    toolchain = ("FAIL  a check\n      a reason\nfailed: a check\ntoolchain: 2 passed, 1 failed", 1)
    said = ended_ci(tmp_path, tests, ("lint: 6 passed, 0 failed", 3), toolchain).stdout.splitlines()
    assert said[said.index("==== what failed") + 1 :] == [
        "FAILED tests/a.py::test_one - AssertionError",
        "scripts/lint: ended with exit code 3",
        "failed: a check",
        "",
        "33 passed, 3 failed",
    ]


def test_what_an_image_needs_is_installed(tmp_path: Path) -> None:
    said = ended_ci(tmp_path, GOOD_TESTS, GOOD_LINT, ("toolchain: 2 passed, 0 failed", 0)).stdout
    assert said.count("called with <>") == 2
    assert said.count("called with <--slow>") == 1
    assert said.count("called with <--install>") == 1


@pytest.mark.parametrize(("said", "exit_code", "closing_line"), [
    ("docs: 1 passed, 0 failed", 0, "34 passed, 0 failed"), ("docs: 0 passed, 1 failed", 1, "33 passed, 1 failed"),
])  # fmt: skip
def test_the_site_of_the_documentation_is_a_part(said: str, exit_code: int, closing_line: str, tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "docs"
    script.write_text(f"#!/bin/sh\necho '{said}'\nexit {exit_code}\n")
    script.chmod(0o755)
    assert run_ci(tmp_path, GOOD_TESTS, GOOD_LINT) == (int(exit_code > 0), closing_line)
