"""`klamm.quick_dataclasses` makes what `dataclasses` makes."""

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm import quick_dataclasses

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = [
    {"frozen": frozen, "slots": slots, "kw_only": kw_only}
    for frozen in (True, False)
    for slots in (True, False)
    for kw_only in (True, False)
]
FEWEST_QUICK, MOST_SLOW = 150, 12
NAMES = ("first", "second", "third")


def declared(make: Callable[..., Any], options: dict[str, bool]) -> Any:
    class Declared:
        """What is declared."""

        first: int
        second: str = dataclasses.field(default="two", compare=False)
        third: list[int] = dataclasses.field(default_factory=list, repr=False, hash=False)
        fourth: int = dataclasses.field(init=False, default=4)
        fifth: int = dataclasses.field(default=5, kw_only=True)

        @property
        def doubled(self) -> int:
            return 2 * self.first

    return make(**options)(Declared)


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the exception that it raises; of TypeErrors the class alone, as their texts differ by
    version."""
    try:
        return repr(call())
    except (TypeError, AttributeError) as error:
        return type(error), str(error) if isinstance(error, AttributeError) else ""


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@settings(max_examples=8)  # the options share one implementation
@given(data=st.data())
def test_all_that_can_be_done_has_the_same_outcome(options: dict[str, bool], data: st.DataObject) -> None:
    arguments = st.tuples(
        st.lists(st.integers(0, 2), max_size=4),
        st.dictionaries(st.sampled_from([*NAMES, "fourth", "fifth", "sixth"]), st.integers(0, 2), max_size=3),
    )
    theirs, ours = (declared(make, options) for make in (dataclasses.dataclass, quick_dataclasses.dataclass))
    for in_order, by_name in data.draw(st.lists(arguments, min_size=1, max_size=3)):
        made = [outcome(lambda cls=cls: cls(*in_order, **by_name)) for cls in (ours, theirs)]  # type: ignore[misc] # noqa: B023
        assert made[0] == made[1]
    name, value = data.draw(st.sampled_from(NAMES)), data.draw(st.integers(0, 2))

    def uses(cls: Any) -> list[Any]:
        one, other, third = cls(first=value), cls(first=1, third=[1]), cls(first=1, second="other")
        return [
            outcome(lambda: (one == other, other == third, one != one, one == "text")),
            outcome(lambda: hash(other) == hash(third)),
            outcome(lambda: dataclasses.replace(one, first=3)),
            outcome(lambda: setattr(one, name, 9)),
            outcome(lambda: delattr(one, name)),
            outcome(lambda: one),
            outcome(lambda: other.doubled),
            outcome(lambda: dataclasses.astuple(other)),
            outcome(lambda: copy.copy(other)),
            outcome(lambda: copy.deepcopy(other) == other),
            outcome(lambda: cls.__match_args__),
        ]

    assert uses(ours) == uses(theirs)


@quick_dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    name: str
    number: int = 1

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError(self.name)


@quick_dataclasses.dataclass(frozen=True)
class Empty:
    pass


@quick_dataclasses.dataclass(frozen=True, slots=True)
class WithOwn:
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WithOwn)

    def __hash__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return "own"


@quick_dataclasses.dataclass(frozen=True)
class Below(Empty):
    more: int


def test_what_was_pickled_is_equal_before_anything_is_made() -> None:
    assert pickle.loads(pickle.dumps(Kept("a", 2))) == Kept("a", 2)
    dumped = pickle.dumps(WithOwn("a"))
    assert pickle.loads(dumped) == WithOwn("b")


def test_what_comes_after_the_init_is_called() -> None:
    assert Kept("a").number == 1
    with pytest.raises(ValueError, match="a"):
        Kept("a", -1)


def test_methods_of_a_class_are_kept() -> None:
    assert (repr(WithOwn("a")), hash(WithOwn("b")), WithOwn("a") == WithOwn("b")) == ("own", 7, True)


def test_classes_without_fields_and_classes_with_bases() -> None:
    assert (Empty() == Empty(), hash(Empty()), repr(Empty())) == (True, hash(()), "Empty()")
    below = Below(3)
    assert (below, repr(below)) == (Below(3), "Below(more=3)")
    with pytest.raises(dataclasses.FrozenInstanceError):
        below.more = 4  # type: ignore[misc]


def test_the_init_is_compiled_at_its_first_call_and_no_other() -> None:
    @quick_dataclasses.dataclass(slots=True)
    class Once:
        number: int = 3

    before = Once.__init__
    assert Once().number == 3
    compiled = Once.__init__
    assert compiled is not before
    assert (Once(4).number, Once.__init__) == (4, compiled)
    assert list(inspect.signature(Once).parameters) == ["number"]


def test_a_start_makes_few_classes_slowly() -> None:
    """Each of them takes 0.3 ms of every start: a module that every start imports imports this `dataclass`."""
    program = (
        "import dataclasses, sys\n"
        "process, made = dataclasses._process_class, []\n"
        "def counted(cls, init, *others):\n"
        "    made.append((init, cls.__module__, cls.__qualname__))\n"
        "    return process(cls, init, *others)\n"
        "dataclasses._process_class = counted\n"
        "import klamm.serve.command\n"
        "ours = [one for one in made if one[1].startswith('klamm.')]\n"
        "print(sum(not init for init, *_ in ours))\n"
        "print(*(f'{module}.{name}' for init, module, name in ours if init))\n"
    )
    done = subprocess.run(
        (sys.executable, "-P", "-c", program),
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    quick, slow = done.stdout.splitlines()
    assert int(quick) > FEWEST_QUICK
    assert len(slow.split()) <= MOST_SLOW, slow
