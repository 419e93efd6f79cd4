"""Ini options whose names begin as those of the pytest plugin, and are none of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.klamm.testing.test_pytest_plugin import Suite

ROOT = Path(__file__).parents[3]


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


@pytest.mark.parametrize(
    ("ini", "options", "reason"),
    [
        ("klamm_broker = 2", (), "there is no ini option 'klamm_broker'; did you mean 'klamm_brokers'?"),
        ("", ("-o", "klamm_data-dir=d"), "there is no ini option 'klamm_data-dir'; did you mean 'klamm_data_dir'?"),
        ("klamm_zookeeper = z", (), "there is no ini option 'klamm_zookeeper'\n"),
    ],
)
def test_an_ini_option_that_is_not_there_is_refused(
    suite: Suite, ini: str, options: tuple[str, ...], reason: str
) -> None:
    suite.write_ini(ini)
    suite.write("test_nothing.py", "def test_nothing(): pass\n")
    code, output = suite.run(*options)
    assert (code, f"ERROR: {reason}" in output) == (4, True), output


def test_an_ini_option_of_another_plugin_may_begin_as_those_of_klamm(suite: Suite) -> None:
    suite.write_ini("klamm_image = 3")
    suite.write("conftest.py", "def pytest_addoption(parser): parser.addini('klamm_image', 'ours')\n")
    suite.write("test_nothing.py", "def test_nothing(): pass\n")
    code, output = suite.run()
    assert code == 0, output


def test_a_project_without_an_ini_file_gets_no_warning(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    pytest_ = [sys.executable, "-P", "-m", "pytest", "-W", "error", "-p", "klamm.testing.pytest_plugin"]
    done = subprocess.run(
        [*pytest_, "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "arning" not in done.stdout + done.stderr
