"""The examples of docs/wire.md have the output that the page shows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.klamm.serve.processes import SECONDS, environment

PAGE = Path(__file__).parents[3] / "docs" / "wire.md"
EXAMPLES = re.findall(r"^```console\n\$ ([^\n]*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize(("told", "output"), EXAMPLES)
def test_an_example_gives_what_the_page_shows(told: str, output: str) -> None:
    ran = told.replace("klamm wire", f"'{sys.executable}' -P -m klamm wire")
    done = subprocess.run(
        ["bash", "-c", ran], capture_output=True, text=True, env=environment(), timeout=SECONDS, check=False
    )
    assert done.stderr == ""
    assert done.stdout == output
