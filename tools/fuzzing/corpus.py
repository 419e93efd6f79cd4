"""Writes and reads findings, one JSON file each, in tests/corpus/codec and tests/corpus/server (see its README)."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any, Final

CORPUS: Final = Path(__file__).resolve().parents[2] / "tests" / "corpus"
MAX_NAME: Final = 100


def keep(folder: Path, found: str, about: str, line: dict[str, Any]) -> Path:
    """Write a finding. Returns its path, whose name has the promise and the API."""
    folder.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "-", f"{found} {about}".lower()).strip("-")[:MAX_NAME]
    path = folder / f"{slug}.json"
    path.write_text(json.dumps(line) + "\n")
    return path


def kept(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The findings in a folder, by their file names."""
    for path in sorted(folder.glob("*.json")):
        yield path.stem, json.loads(path.read_text())


def minimised(data: bytes, still: Callable[[bytes], bool], seconds: float) -> bytes:
    """A shorter input for which `still` holds, as far as one is found in the given time: pieces are left out, then
    bytes are set to zero."""
    deadline = monotonic() + seconds
    size = len(data) // 2
    while size and monotonic() < deadline:
        start = 0
        while start < len(data) and monotonic() < deadline:
            shorter = data[:start] + data[start + size :]
            if still(shorter):
                data = shorter
            else:
                start += size
        size //= 2
    for index in range(len(data)):
        zeroed = data[:index] + b"\0" + data[index + 1 :]
        if monotonic() < deadline and data[index] and still(zeroed):
            data = zeroed
    return data
