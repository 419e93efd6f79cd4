"""Documents that a user writes: JSON, or YAML if the name of the file ends so and PyYAML is there."""

import json
from pathlib import Path
from typing import Any, Final

MAX_BYTES: Final = 8 * 1024 * 1024


def read_document(path: Path, what: str) -> Any:
    """The content of a file; `what` names it in messages. Raises ValueError with one line."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{what} {path}: {error.strerror or error}") from None
    if len(text) > MAX_BYTES:
        raise ValueError(f"{what} {path}: at most {MAX_BYTES} bytes are read")
    try:
        return _decode_yaml(text) if path.suffix in (".yaml", ".yml") else json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"{what} {path}: {reason}") from None


def _decode_yaml(text: bytes) -> Any:
    try:
        import yaml
    except ImportError:
        raise ValueError("YAML needs PyYAML: install klamm[yaml], or write JSON") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"no YAML: {' '.join(str(error).split())}") from None
