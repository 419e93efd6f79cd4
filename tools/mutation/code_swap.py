"""Plants a fault in a process that has already imported the module: its functions get the faulty code.

This is possible only if the bodies of functions differ. A fault in code that runs at import (constants, defaults,
decorators, fields of dataclasses) needs a new process.
"""

import gc
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Final

_CO_OPTIMIZED: Final = 1
"""The flag of the code of functions; code of modules and classes lacks it."""


def code_swaps(file: str, sound: str, faulty: str) -> dict[CodeType, CodeType] | None:
    """The faulty code by the correct code; None if more differs than bodies of functions, or the variables of a
    closure. Code objects compare by value, including their lines: those of the imported module equal those compiled
    here."""
    before, after = list(_inner(compile(sound, file, "exec"))), list(_inner(compile(faulty, file, "exec")))
    if [code.co_qualname for code in before] != [code.co_qualname for code in after]:
        return None
    pairs = list(zip(before, after, strict=True))
    different = {old.co_qualname for old, new in pairs if _own(old) != _own(new)}
    for old, new in pairs:
        if _own(old) != _own(new) and (not new.co_flags & _CO_OPTIMIZED or old.co_freevars != new.co_freevars):
            return None
    # A nested function is made from a constant of the function around it, which therefore changes with it.
    return {old: new for old, new in pairs if any(_is_inside(name, old.co_qualname) for name in different)}


def swap_code(file: str, swaps: dict[CodeType, CodeType]) -> bool:
    """Give the functions of an imported module their faulty code. Returns False if one of them is not found."""
    missing = {old for old in swaps if "<locals>" not in old.co_qualname and "<lambda>" not in old.co_qualname}
    missing = {old for old in missing if not old.co_name.startswith("<")}
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType) and thing.__code__.co_filename == file and thing.__code__ in swaps:
            missing.discard(thing.__code__)
            thing.__code__ = swaps[thing.__code__]
    return not missing


def _inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _inner(constant)


def _own(code: CodeType) -> tuple[object, ...]:
    """The instructions of a code object, without lines and without nested code."""
    constants = tuple(repr(constant) for constant in code.co_consts if not isinstance(constant, CodeType))
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars


def _is_inside(inner: str, outer: str) -> bool:
    return inner == outer or (outer != "<module>" and inner.startswith(f"{outer}.<locals>."))
