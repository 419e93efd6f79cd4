"""Documents that a user writes: JSON, or YAML if the name of the file ends so and PyYAML is there."""

import json
from pathlib import Path
from typing import Any, Final

from klamm.protocol.bounded_file import UnreadableFile, read_bounded

MAX_BYTES: Final = 8 * 1024 * 1024
MAX_YAML_BYTES: Final = 1024 * 1024
"""PyYAML takes some ten seconds for that much."""


def read_document(path: Path, what: str) -> Any:
    """The content of a file; `what` names it in messages. Raises ValueError with one line."""
    try:
        text = read_bounded(path, MAX_BYTES)
        return _decode_yaml(text) if path.suffix in (".yaml", ".yml") else json.loads(text)
    except (UnreadableFile, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"{what} {path}: {reason}") from None


def _decode_yaml(text: bytes) -> Any:
    try:
        import yaml
    except ImportError:
        raise ValueError("YAML needs PyYAML: pip install '/path/to/klamm[yaml]', or write JSON") from None
    if len(text) > MAX_YAML_BYTES:
        raise ValueError(f"at most {MAX_YAML_BYTES} bytes of YAML are read; JSON may be longer")

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML is not typed
        """Without aliases: a short document with some of them can stand for one that takes hours."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases (*name) are not read")
            return super().compose_node(parent, index)

    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ValueError(f"no YAML: {' '.join(str(error).split())}") from None
