"""The suggestion in messages about names that are not known: one function, one wording."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.near_names import LONGEST_COMPARED, did_you_mean, nearest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("assignment", "broker", "controller", "klamm", "pipeline", "protocol", "server")
NAMES = st.lists(st.text(st.sampled_from("abcxyz-_."), max_size=8), max_size=6)


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("brokr", ["racks", "brokers"], "brokers"),
        ("--broker", ["--brokers", "--broker-ids"], "--brokers"),
        ("num_partitions", ["num.partitions", "num.replica.fetchers"], "num.partitions"),
        ("PRODUCE", ["Produce", "ProduceX"], "Produce"),
        ("abcde", ["abcxyz"], None),  # 6 of 11 letters
        ("abcde", ["abcdxyz"], "abcdxyz"),  # 8 of 12
        ("zookeeper", ["brokers"], None),
        ("", ["brokers"], None),
        ("brokers", [], None),
    ],
)
def test_the_nearest_name(name: str, known: list[str], near: str | None) -> None:
    assert nearest(name, known) == near
    assert did_you_mean(name, known) == (f"; did you mean {near!r}?" if near else "")


def test_how_similar_is_for_the_caller_to_say() -> None:
    assert nearest("abcde", ["abcdxyz"], 0.8) is None
    assert nearest("abcde", ["abcdx"], 0.8) == "abcdx"


def test_what_all_names_begin_with_makes_none_similar() -> None:
    assert did_you_mean("rack", ["racks"], prefix="klamm_") == "; did you mean 'klamm_racks'?"
    assert did_you_mean("zookeeper", ["racks"], prefix="klamm_") == ""


def test_long_names_are_not_compared() -> None:
    known = "a" * LONGEST_COMPARED
    assert nearest(known, [known]) == known
    assert nearest(known + "a", [known]) is None


@given(st.text(max_size=8), NAMES)
def test_what_is_suggested_is_known_and_does_not_depend_on_the_order(name: str, known: list[str]) -> None:
    near = nearest(name, known)
    assert near is None or near in known
    assert nearest(name, reversed(known)) == near


@given(NAMES.filter(bool))
def test_a_known_name_is_nearest_to_itself_but_for_its_signs(known: list[str]) -> None:
    near = nearest(known[0], known)
    plain = re.sub("[^a-z]", "", known[0])
    assert not plain or re.sub("[^a-z]", "", str(near)) == plain


def test_no_other_module_makes_suggestions_of_its_own() -> None:
    modules = {path.resolve() for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    assert len(modules) > 500
    own = [path for path in modules if re.search(r"difflib|did you mean|is meant\?", path.read_text())]
    assert own == [ROOT / "protocol" / "near_names.py"]
