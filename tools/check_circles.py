#!/usr/bin/env python3
"""Finds import cycles between modules, both of imports at run time and of imports for types only.

    python tools/check_circles.py      prints one cycle for each tree that has any, exits 1 if there is one

In `tests`, imports for types only are ignored, because a simulated world lists its clients, which refer to it.
"""

import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
TREES = {"klamm": False, "tools": False, "bench": False, "tests": True}
"""By package: whether imports for types only are left out."""


def circle_in(package: str, *, without_types: bool) -> list[str]:
    """The modules of one circle, the first of them at the end again; empty if there is none."""
    graph = grimp.build_graph(package, exclude_type_checking_imports=without_types, cache_dir=None)
    # `klamm` names for type checkers what it loads on access: no module depends on that.
    faces = {"klamm"}
    imported = {module: graph.find_modules_directly_imported_by(module) - faces for module in graph.modules - faces}
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def main() -> int:
    sys.path.insert(0, str(ROOT))
    circles = [circle for tree, without in TREES.items() if (circle := circle_in(tree, without_types=without))]
    for circle in circles:
        print(" imports ".join(circle))
    return 1 if circles else 0


if __name__ == "__main__":
    sys.exit(main())
