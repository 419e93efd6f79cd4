"""Message classes compile their `__init__` when it is first called."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from klamm.protocol.fields import Message, _first_init, field, message


@message
class Inner(Message):
    number: int = field("int32", default=-1)


@message
class Outer(Message):
    name: str = field("string", default="none")
    inner: Inner = field(Inner, default=Inner)
    many: Sequence[Inner] = field([Inner], default=())


@message
class Empty(Message):
    pass


def test_the_first_call_compiles_an_init_with_the_defaults_of_the_fields() -> None:
    assert Outer.__init__ is _first_init
    first = Outer(name="one")
    assert Outer.__init__ is not _first_init
    assert (first.name, first.inner, first.many, first.unknown_tags) == ("one", Inner(number=-1), (), None)
    assert Outer().inner is not Outer().inner
    assert replace(first, many=[Inner(number=2)]) == Outer(name="one", many=[Inner(number=2)])
    assert repr(Empty()) == "Empty()"


@pytest.mark.parametrize("times", [1, 2])
def test_parameters_are_those_of_the_fields_alone(times: int) -> None:
    @message
    class Fresh(Message):
        name: str = field("string", default="")

    for _ in range(times):
        with pytest.raises(TypeError, match="unexpected keyword argument 'nam'"):
            Fresh(nam="x")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="positional"):
            Fresh("x")  # type: ignore[call-arg]
