"""The packages that Klamm is made of have plain names, which others may have, too (docs/decisions/0006).

A project's own `controller` package on Python's path would be imported in place of ours, and fail in some odd line.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

ROOMS = ("assignment", "controller", "protocol")


@cache
def foreign_room() -> str | None:
    """What is wrong, in a sentence, if one of the packages that Python finds is not the one beside `klamm`."""
    home = Path(__file__).resolve().parent.parent
    for room in ROOMS:
        spec = find_spec(room)
        if spec is None or spec.origin is None:
            return f"Klamm's package {room!r} is not there"
        folder = Path(spec.origin).parent
        if folder.resolve().parent != home:
            return f"Klamm's package {room!r} is {folder}: keep yours off Python's path (python -P), or rename it"
    return None
