"""The options of the data sources, which Spark passes as text."""

import re
from collections.abc import Mapping

from klamm.pipeline.errors import PipelineError


def path_options(source: str, options: Mapping[str, str]) -> list[str]:
    """The paths in `logs`, one per line, or the path in `path`. Raises PipelineError if there is none."""
    paths = [path for path in options.get("logs", options.get("path", "")).splitlines() if path]
    if not paths:
        raise PipelineError(f"{source} needs the option logs: paths, one to a line")
    return paths


def number_option(options: Mapping[str, str], name: str, default: int) -> int:
    """A number of bytes; only the default may be 0. Raises PipelineError for other texts."""
    text = options.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"[1-9]\d{0,17}", text, re.ASCII):
        raise PipelineError(f"option {name} is a number of bytes, not {text[:40]!r}")
    return int(text)
