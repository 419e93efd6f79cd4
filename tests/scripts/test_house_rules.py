"""The house rules' own check finds what it says that it finds."""

from pathlib import Path

import pytest

from tools.check_house_rules import breaches


def claims(folder: Path, name: str, text: str) -> list[str]:
    path = folder / name
    path.write_text(text)
    return [claim for _, claim in breaches(path)]


def test_a_short_module_with_a_docstring_keeps_them(tmp_path: Path) -> None:
    assert claims(tmp_path, "good.py", '"""What lives here."""\n\n\ndef one() -> int:\n    return 1\n') == []
    assert claims(tmp_path, "__init__.py", "") == []


@pytest.mark.parametrize(
    ("name", "text", "claim"),
    [
        ("silent.py", "x = 1\n", "has no module docstring"),
        ("helpers.py", '"""Things."""\n', "is called helpers, which says nothing"),
        ("long.py", '"""Long."""\n' + "x = 1\n" * 399, "has 400 lines; fewer than 400 are allowed"),
        (
            "deep.py",
            '"""Deep."""\n\n\nclass A:\n    async def f(self) -> None:\n' + "        x = 1\n" * 59,
            "f has 60 lines; fewer than 60 are allowed",
        ),
        ("notes.md", "see https://pypi" + ".org/simple\n", "names the host of a package registry"),
        ("notes.md", "in /ro" + "ot/.cache\n", "names a path of one machine"),
    ],
)
def test_a_breach_is_told(tmp_path: Path, name: str, text: str, claim: str) -> None:
    assert claims(tmp_path, name, text) == [claim]


def test_a_file_that_is_no_text_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "recording.bin"
    path.write_bytes(b"\xff\xfe\x00")
    assert list(breaches(path)) == []
