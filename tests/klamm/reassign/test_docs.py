"""docs/reassign-partitions.md agrees with the tool: options, statuses, files, the table."""

import re
from pathlib import Path

from klamm.reassign.files import read_targets, read_topics
from klamm.reassign.options import Action, reassign_parser
from klamm.reassign.progress import Problem, Row
from tests.klamm.reassign.test_progress import KIP_TABLE

PAGE = (Path(__file__).parents[3] / "docs" / "reassign-partitions.md").read_text()


def blocks(language: str) -> list[str]:
    """The page's code blocks in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_option_is_described_and_no_other() -> None:
    described = set(re.findall(r"`(--[a-z-]+)", PAGE)) - {"--replica-alter-log-dirs-throttle"}
    there = {
        option for action in reassign_parser()._actions for option in action.option_strings if option.startswith("--")
    }
    assert described - {"--bootstrap-controller"} == there - {"--help"}
    assert {action.value for action in Action} <= described


def test_every_status_and_problem_is_described() -> None:
    for problem in Problem:
        assert f"`{problem.value}`" in PAGE
        assert f"`{problem.name}`" in PAGE
    assert f"`{Row((), 0).status}`" in PAGE  # type: ignore[arg-type]


def test_the_files_shown_are_taken(tmp_path: Path) -> None:
    targets, topics = blocks("json")
    path = tmp_path / "file.json"
    path.write_text(targets)
    assert [str(target.partition) for target in read_targets(path)] == ["orders-0"]
    path.write_text(topics)
    assert read_topics(path) == ("orders", "payments")
    (shown,) = re.findall(r"<<'END'\n(.*?)END$", blocks("sh")[0], re.MULTILINE | re.DOTALL)
    path.write_text(shown)
    assert [target.replicas for target in read_targets(path)] == [(3, 2), (2, 3)]


def test_the_table_shown_is_the_kip_s() -> None:
    assert KIP_TABLE.startswith(blocks("text")[0])
