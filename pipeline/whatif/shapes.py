"""The cluster shapes of a what-if analysis: a file of JSON lines, which is checked completely before the analysis."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from klamm.pipeline.errors import PipelineError
from klamm.protocol.near_names import did_you_mean

MAX_SHAPES: Final = 1_000_000
MAX_REPLICAS: Final = 10_000_000
"""The most replicas of one shape, the same as for one request to the controller."""
_INT_MAX: Final = 2**31 - 1
_MAX_BROKERS: Final = 10_000
_BOUNDS: Final = {
    "shape_id": (0, 2**62),
    "brokers": (1, _MAX_BROKERS),
    "racks": (0, _MAX_BROKERS),
    "partitions": (1, MAX_REPLICAS),
    "replication_factor": (1, _MAX_BROKERS),
    "fenced": (0, _MAX_BROKERS),
    "held": (0, MAX_REPLICAS),
}


class Shape(NamedTuple):
    """One line of the file: a cluster, and a topic to place on it."""

    shape_id: int
    """Identifies the shape and its random source; by default the number of the line."""
    brokers: int
    racks: int
    """The number of racks, to which brokers are assigned in turn; 0 if no broker has a rack."""
    partitions: int
    replication_factor: int
    limit: int | None = None
    """`max.broker.partitions` (KIP-578); None for no limit."""
    fenced: int = 0
    """The number of fenced brokers, which are the last ones."""
    held: int = 0
    """The sum of replicas of other topics on the brokers. Their distribution is uneven and depends on seed and shape.
    Without them round robin is even, and a limit affects either no broker or all."""


def load_shapes(path: Path) -> list[Shape]:
    """The shapes of a file of JSON lines. Raises PipelineError with the line number if one is invalid or repeated."""
    shapes: dict[int, Shape] = {}
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                shape = decode_shape(_json(line, number), number)
                if shapes.setdefault(shape.shape_id, shape) is not shape:
                    raise PipelineError(f"line {number} of the shapes repeats shape_id {shape.shape_id}")
                if len(shapes) > MAX_SHAPES:
                    raise PipelineError(f"{path} has more than {MAX_SHAPES} shapes")
    except OSError as error:
        raise PipelineError(f"cannot read shapes {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PipelineError(f"shapes {path} are no UTF-8 text") from error
    if not shapes:
        raise PipelineError(f"{path} holds no shapes")
    return list(shapes.values())


def _json(line: str, number: int) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, json.JSONDecodeError) else "numbers too long, or nested too deeply"
        raise PipelineError(f"line {number} of the shapes is no JSON: {reason}") from None


def decode_shape(given: Any, number: int) -> Shape:
    """The shape in a line's JSON object. Raises PipelineError with the line number if it is invalid."""
    if not isinstance(given, Mapping):
        raise PipelineError(f"line {number} of the shapes is no JSON object")
    unknown = given.keys() - set(Shape._fields)
    if unknown:
        name = min(unknown)
        near = did_you_mean(name, Shape._fields)
        raise PipelineError(f"line {number} of the shapes has an unknown member {name[:40]!r}{near}")
    values = {"shape_id": number, "racks": 0, "fenced": 0, "held": 0, **given}
    for name, (least, most) in _BOUNDS.items():
        _check(number, name, values.get(name), least, most)
    if values.get("limit") is not None:
        _check(number, "limit", values["limit"], 1, _INT_MAX)
    shape = Shape(**values)
    if shape.partitions * shape.replication_factor > MAX_REPLICAS:
        raise PipelineError(f"line {number} of the shapes has more than {MAX_REPLICAS} replicas")
    if shape.fenced > shape.brokers:
        raise PipelineError(f"line {number} of the shapes has {shape.fenced} fenced of {shape.brokers} brokers")
    return shape


def _check(number: int, name: str, value: Any, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise PipelineError(
            f"line {number} of the shapes: {name} is a whole number from {least} to {most}, "
            f"not {json.dumps(value)[:40]}"
        )
