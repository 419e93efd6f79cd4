"""The placement examples in docs/placement.md are run, and must have the output that the pages show."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

from klamm.assign.request import CALL_MEMBERS, MEMBERS
from tests.klamm.assign.test_lines import REASONS
from tests.klamm.serve.processes import SECONDS, environment

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "docs" / "placement.md",)
EXAMPLE = re.compile(r"^```console\n\$ ([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = [
    (page.name, command, output)
    for page in PAGES
    for command, output in re.findall(
        r"^```console\n\$ ([^\n]*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL
    )
    if "klamm assign" in command
]


def test_both_pages_have_examples_of_the_filter_and_of_its_tables() -> None:
    shown = {(page, "--explain" in command) for page, command, _ in EXAMPLES}
    assert shown == {(page.name, explained) for page in PAGES for explained in (False, True)}


@pytest.mark.parametrize(("page", "command", "output"), EXAMPLES)
def test_an_example_gives_what_its_page_shows(page: str, command: str, output: str) -> None:
    ran = command.replace("klamm assign", f"'{sys.executable}' -P -m klamm assign")
    assert ran != command
    more = {"NO_COLOR": "1", "PYTHONUTF8": "1"}
    done = subprocess.run(
        ["bash", "-c", ran], capture_output=True, text=True, env=environment(more), timeout=SECONDS, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), page
    assert done.stdout.rstrip("\n") == output.rstrip("\n")


def test_python_examples_give_what_the_page_shows() -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGES[0].read_text(), re.MULTILINE | re.DOTALL)
    examples = doctest.DocTestParser().get_doctest(block, {}, PAGES[0].name, None, None)
    ran = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples)
    assert (ran.failed, ran.attempted) == (0, block.count(">>>"))


def test_the_page_lists_every_member_and_every_reason() -> None:
    named = set(re.findall(r"`\"?(\w+)\"?`", PAGES[0].read_text()))
    assert MEMBERS - named == set()
    assert REASONS - named == set()
    (calls,) = (line for line in PAGES[0].read_text().splitlines() if line.startswith("| `calls`"))
    assert all(f'"{member}"' in calls for member in CALL_MEMBERS)
