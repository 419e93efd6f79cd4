"""`dataclass` for modules that every start imports: the same classes, made in a tenth of the time.

`dataclasses` compiles up to eight methods for each class when its module is imported, which takes a fifth of the start
of a server; most classes are not used by then. Here `__init__` is compiled at its first call, and the other methods are
closures over the names of the fields. What is used rarely (`order`, `InitVar`, classes with bases that are dataclasses)
is left to `dataclasses`.
"""

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - type checkers know this one
else:

    def dataclass(cls=None, /, **options):
        def made(cls):
            if options.keys() <= _OPTIONS and not _is_special(cls):
                return _quickly(cls, **options)
            return dataclasses.dataclass(**options)(cls)

        return made if cls is None else made(cls)


_OPTIONS = {"frozen", "slots", "kw_only"}


def _is_special(cls: type) -> bool:
    return any("InitVar" in str(kind) for kind in inspect.get_annotations(cls).values()) or any(
        dataclasses.is_dataclass(base) for base in cls.__mro__[1:]
    )


def _quickly(cls: type, *, frozen: bool = False, slots: bool = False, kw_only: bool = False) -> type:
    cls.__doc__ = cls.__doc__ or cls.__name__  # without it, `dataclasses` makes one slowly
    own = cls.__dict__.keys()
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    made.__dataclass_params__.frozen = frozen  # a dataclass that inherits from this one has to be the same
    methods = {"__init__": _first_init(made, frozen), "__repr__": _repr(made)}
    if "__eq__" not in own:
        methods |= _comparison(made, frozen)
    if frozen:
        methods |= _frozen(made)
    for name, method in methods.items():
        if name not in own:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _first_init(made: Any, frozen: bool) -> Callable[..., None]:
    def __init__(self: Any, /, *arguments: Any, **values: Any) -> None:  # noqa: N807
        made.__init__ = _compiled_init(made, frozen)
        made.__init__(self, *arguments, **values)

    return __init__


def _compiled_init(made: Any, frozen: bool) -> Any:
    """The `__init__` that `dataclasses` would make."""
    names: dict[str, Any] = {"_missing": dataclasses.MISSING, "_set": object.__setattr__}
    positional: list[str] = []
    keywords: list[str] = []
    lines: list[str] = []
    for declared in dataclasses.fields(made):
        name, value, default = declared.name, declared.name, ""
        if declared.default is not dataclasses.MISSING:
            names[f"_default_{name}"], default = declared.default, f"=_default_{name}"
        elif declared.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"], default = declared.default_factory, "=_missing"
            value = f"_make_{name}() if {name} is _missing else {name}" if declared.init else f"_make_{name}()"
        if declared.init:
            (keywords if declared.kw_only else positional).append(f"{name}{default}")
        elif default == f"=_default_{name}":
            value = f"_default_{name}"
        elif not default:
            continue  # `__post_init__` sets it
        lines.append(f"    _set(_self, {name!r}, {value})" if frozen else f"    _self.{name} = {value}")
    if hasattr(made, "__post_init__"):
        lines.append("    _self.__post_init__()")
    parameters = ", ".join(("_self", *positional, *(("*", *keywords) if keywords else ())))
    exec("\n".join((f"def __init__({parameters}):", *(lines or ["    pass"]))), names)
    names["__init__"].__qualname__ = f"{made.__qualname__}.__init__"
    return names["__init__"]


def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _comparison(made: Any, frozen: bool) -> dict[str, Any]:
    declared = dataclasses.fields(made)
    compared = _values_of([one.name for one in declared if one.compare])
    hashed = _values_of([one.name for one in declared if (one.compare if one.hash is None else one.hash)])

    def __eq__(self: Any, other: object) -> bool:  # noqa: N807
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(hashed(self))

    return {"__eq__": __eq__, "__hash__": __hash__ if frozen else None}


def _repr(made: Any) -> Callable[[Any], str]:
    names = [one.name for one in dataclasses.fields(made) if one.repr]

    def __repr__(self: Any) -> str:  # noqa: N807
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _frozen(made: Any) -> dict[str, Any]:
    names = [one.name for one in dataclasses.fields(made)]
    known = frozenset(names)

    def __setattr__(self: Any, name: str, value: Any) -> None:  # noqa: N807
        if self.__class__ is made or name in known:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if self.__class__ is made or name in known:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    def __getstate__(self: Any) -> list[Any]:  # noqa: N807
        return [getattr(self, name) for name in names]

    def __setstate__(self: Any, state: list[Any]) -> None:  # noqa: N807
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    states = {"__getstate__": __getstate__, "__setstate__": __setstate__} if "__slots__" in made.__dict__ else {}
    return {"__setattr__": __setattr__, "__delattr__": __delattr__, **states}
