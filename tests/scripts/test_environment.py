"""The project's scripts find or make their environment, and never write to a stdout that belongs to somebody else."""

import os
import shutil
from pathlib import Path

import pytest

import klamm
from tests.scripts.environments import LEVELS, ROOT, Environment

MAKE = ROOT / "scripts" / "environment"
KLAMM = ROOT / "scripts" / "klamm"
VERSION_LINE = f"klamm {klamm.__version__} (Apache Kafka 4.3)\n"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment")


def test_an_environment_that_is_made_is_left_alone(environment: Environment) -> None:
    environment.make(*LEVELS)
    for level in LEVELS:
        assert environment.run(MAKE, level) == (0, "", "")
    assert environment.installed == []
    assert not (environment.folder / "klamm.lock").exists()


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_that_is_missing_is_installed_with_those_below_it(environment: Environment, level: str) -> None:
    environment.make()
    code, stdout, stderr = environment.run(MAKE, level)
    assert (code, stdout) == (0, "")
    assert f"installing requirements/{level}.txt" in stderr
    assert environment.installed == [f"{level}.txt"]
    assert environment.stamped == set(LEVELS[: LEVELS.index(level) + 1])


@pytest.mark.parametrize(("java", "more"), [("11.0.2", ["java.txt"]), ("1.8.0_352", ["java.txt"]), ("17", [])])
@pytest.mark.parametrize("level", ["pipeline", "test"])
def test_a_java_is_installed_where_there_is_none_that_is_new_enough(
    environment: Environment, level: str, java: str, more: list[str]
) -> None:
    environment.make(java=java)
    path = f"{environment.java_home / 'bin'}:{os.environ['PATH']}"
    assert environment.run(MAKE, level, PATH=path)[0] == 0
    assert environment.installed == [f"{level}.txt", *more]


def test_spark_is_installed_for_the_pipeline_alone(environment: Environment) -> None:
    environment.make("runtime", "pipeline")
    environment.stamp("pipeline").write_text("an older one")
    assert environment.run(KLAMM, "--version")[0] == 0
    assert environment.installed == []
    environment.run(KLAMM, "pipeline", "--help")
    assert environment.installed == ["pipeline.txt"]


def test_a_changed_requirement_is_installed_once(environment: Environment) -> None:
    environment.make(*LEVELS)
    environment.stamp("runtime").write_text("an older one")
    for _ in range(2):
        assert environment.run(MAKE, "runtime")[0] == 0
    assert environment.installed == ["runtime.txt"]


def test_calls_at_the_same_time_install_once(environment: Environment) -> None:
    environment.make()
    calls = [environment.start(MAKE, "test") for _ in range(4)]
    for call in calls:
        with call:
            assert call.communicate(timeout=60)[0] == ""
        assert call.returncode == 0
    assert environment.installed == ["test.txt"]


def test_a_failed_installation_says_so_and_is_tried_again(environment: Environment) -> None:
    environment.make(pip_exit_code=1)
    for _ in range(2):
        code, stdout, stderr = environment.run(KLAMM, "--version")
        assert (code, stdout) == (1, "")
        assert "pip speaks" in stderr
        assert "could not install requirements/runtime.txt" in stderr.splitlines()[-1]
    assert environment.stamped == set()
    assert environment.installed == ["runtime.txt"] * 2


def test_without_a_python_there_is_one_clear_line(environment: Environment, tmp_path: Path) -> None:
    only = tmp_path / "bin"
    only.mkdir()
    for tool in ("bash", "dirname", "readlink", "env"):
        found = shutil.which(tool)
        assert found is not None
        (only / tool).symlink_to(found)
    code, stdout, stderr = environment.run("bash", MAKE, "runtime", PATH=str(only))
    assert (code, stdout) == (1, "")
    assert len(stderr.splitlines()) == 1
    assert "Python 3.11 or newer" in stderr


def test_an_environment_that_is_a_file_is_one_clear_line(environment: Environment) -> None:
    environment.folder.write_text("")
    code, stdout, stderr = environment.run(MAKE, "runtime")
    assert (code, stdout) == (1, "")
    assert stderr == f"klamm: cannot make the directory {environment.folder}\n"


def test_an_unknown_level_is_one_clear_line(environment: Environment) -> None:
    code, _, stderr = environment.run(MAKE, "everything")
    assert code == 1
    assert stderr == "klamm: scripts/environment: no level 'everything' (runtime, pipeline, test, check or fuzz)\n"


def test_klamm_runs_from_anywhere_and_by_a_link_on_a_link(environment: Environment, tmp_path: Path) -> None:
    environment.make("runtime")
    (tmp_path / "link").symlink_to(KLAMM)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "klamm").symlink_to("../link")
    expected = (0, VERSION_LINE, "")
    assert environment.run(KLAMM, "--version", cwd=tmp_path) == expected
    assert environment.run("../folder/klamm", "--version", cwd=tmp_path / "folder") == expected
    assert environment.run("scripts/klamm", "--version", cwd=ROOT) == expected
    assert environment.run("bash", "klamm", "--version", cwd=ROOT / "scripts") == expected


def test_what_lies_in_the_caller_s_folder_is_not_imported(environment: Environment, tmp_path: Path) -> None:
    environment.make("runtime")
    for name in ("klamm", "protocol", "struct"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the current directory')\n")
    assert environment.run(KLAMM, "--version", cwd=tmp_path) == (0, VERSION_LINE, "")


def test_the_exit_code_is_klamm_s(environment: Environment) -> None:
    environment.make("runtime")
    code, stdout, stderr = environment.run(KLAMM, "no-such-command")
    assert (code, stdout) == (2, "")
    assert len(stderr.splitlines()) == 1


def test_scripts_test_hands_its_arguments_and_pytest_s_exit_code_on(environment: Environment, tmp_path: Path) -> None:
    environment.make("test")
    (tmp_path / "test_one.py").write_text('"""One."""\n\n\ndef test_one() -> None:\n    assert True\n')
    code, stdout, _ = environment.run(ROOT / "scripts" / "test", tmp_path, "-q", cwd=tmp_path)
    assert code == 0
    assert stdout.splitlines()[-1].startswith("1 passed")
    code, stdout, _ = environment.run(ROOT / "scripts" / "test", tmp_path, "-k", "nothing", cwd=tmp_path)
    assert code == 5
    assert "1 deselected" in stdout.splitlines()[-1]


def test_the_tests_of_each_speed_run_in_four_processes_and_named_ones_in_one(environment: Environment) -> None:
    environment.make("test")
    (environment.folder / "bin" / "python").write_text('#!/bin/sh\necho "$@"\n')
    script = ROOT / "scripts" / "test"
    four = "--numprocesses 4"
    assert environment.run(script) == (0, f"-m pytest -m not slow {four}\n", "")
    assert environment.run(script, "--slow") == (0, f"-m pytest -m slow {four}\n", "")
    assert environment.run(script, "--slow", "-x") == (0, f"-m pytest -m slow {four} -x\n", "")
    assert environment.run(script, "-k", "two words", "-x") == (0, "-m pytest -k two words -x\n", "")
