"""The recordings of `tests/golden/data`, one object per line."""

import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[2] / "golden" / "data"


def recorded(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / name).read_text(encoding="utf-8").splitlines()]
