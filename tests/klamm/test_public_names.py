"""`import klamm` is fast, and has the names that it lists."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import klamm

ROOT = Path(klamm.__file__).resolve().parent.parent


def names_for_type_checkers() -> set[str]:
    tree = ast.parse(Path(klamm.__file__).read_text())
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    return {alias.name for node in checked.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def test_every_public_name_is_there_for_programs_and_for_type_checkers() -> None:
    assert {name for name in klamm.__all__ if getattr(klamm, name) is not None} == set(klamm.__all__)
    assert names_for_type_checkers() | {"__version__"} == set(klamm.__all__)
    assert set(klamm.__all__) <= set(dir(klamm))


def test_the_reference_page_has_every_method_also_inherited_ones() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    classes = [getattr(klamm, name) for name in klamm.__all__ if isinstance(getattr(klamm, name), type)]
    methods = {
        f"{owner.__name__}.{name}("
        for owner in classes
        for name, member in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_") and member.__module__.startswith("klamm.") and member.__doc__
    }
    assert {f"{name}.add_fault(" for name in ("ServerProcess", "ControlClient", "Cluster")} < methods
    assert sorted(name for name in methods if name not in page) == []
    assert "\nawait AdminClient.metadata(" in page
    assert all(f"## `klamm.{name}`" in page for name in ("Report", "Happened", "NoClientConfig"))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Broket'"):
        _ = klamm.Broket


def test_importing_klamm_imports_nothing_that_it_may_not_need() -> None:
    program = "import sys; before = set(sys.modules); import klamm; print(*(set(sys.modules) - before))"
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {name.partition(".")[0] for name in ended.stdout.split()} - sys.stdlib_module_names == {"klamm"}


def test_the_version_is_the_project_s() -> None:
    assert f'version = "{klamm.__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_what_pip_says_of_the_package_does_not_deny_records() -> None:
    (description,) = re.findall(r'^description = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert "simulated" in description
    assert "message" not in description
