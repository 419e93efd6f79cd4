"""Calls of `klamm try` in this process."""

import json
from pathlib import Path
from typing import Any

import pytest

from klamm.__main__ import main


def tried(
    twin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], steps: list[Any], *options: str
) -> tuple[int, str, str]:
    """The exit code, and what was written."""
    (tmp_path / "changes.json").write_text(json.dumps({"steps": steps}))
    code = main(["try", "--twin", str(twin), str(tmp_path / "changes.json"), *options])
    out, err = capsys.readouterr()
    return code, out, err


def reported(*given: Any) -> Any:
    code, out, err = tried(*given, "--output", "json")
    assert (code, err) == (0, "")
    return json.loads(out)
