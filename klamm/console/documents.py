"""Documents that a user writes: JSON, or YAML if the name of the file ends so and PyYAML is there."""

import json
import sys
from pathlib import Path
from typing import Any, Final

from klamm.protocol.bounded_file import UnreadableFile, read_bounded

MAX_BYTES: Final = 8 * 1024 * 1024
MAX_YAML_BYTES: Final = 1024 * 1024
"""PyYAML takes some ten seconds for that much."""


STDIN: Final = Path("-")
YAML_SUFFIXES: Final = (".yaml", ".yml")


def read_document(path: Path, what: str) -> Any:
    """The content of a file; `what` names it in messages. Raises ValueError with one line, which has the line and the
    column of the error where they are known."""
    try:
        return _decode(path, read_bounded(path, MAX_BYTES))
    except _Misplaced as error:
        raise ValueError(f"{what} {path}:{error}") from None
    except (UnreadableFile, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"{what} {path}: {reason}") from None


def read_document_or_stdin(path: Path, what: str) -> Any:
    """The same, but `-` reads stdin: JSON if the text begins with { or [, otherwise YAML. Raises ValueError."""
    if path != STDIN:
        return read_document(path, what)
    text = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise ValueError(f"{what} -: stdin has more than {MAX_BYTES} bytes")
    try:
        return _decode_json(text) if text.lstrip()[:1] in (b"{", b"[") else _decode_yaml(text)
    except _Misplaced as error:
        raise ValueError(f"{what} -:{error}") from None
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"{what} -: {reason}") from None


class _Misplaced(ValueError):
    """An error whose text begins with LINE:COLUMN."""


def _decode(path: Path, text: bytes) -> Any:
    if path.suffix in YAML_SUFFIXES:
        return _decode_yaml(text)
    try:
        return _decode_json(text)
    except _Misplaced as error:
        if path.suffix == ".json":
            raise
        raise ValueError(f"the file is neither JSON ({error}) nor (by its name) YAML") from None


def _decode_json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise _Misplaced(f"{error.lineno}:{error.colno}: no JSON: {error.msg}") from None


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
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = error.problem or error.context
        if mark is None:
            raise ValueError(f"no YAML: {reason}") from None
        raise _Misplaced(f"{mark.line + 1}:{mark.column + 1}: no YAML: {reason}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"no YAML: {' '.join(str(error).split())}") from None
