"""The examples of docs/protocol-library.md run without changes, one after the other."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "protocol-library.md"


def test_the_examples_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 4
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)  # the page's own code
