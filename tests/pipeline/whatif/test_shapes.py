"""The file of shapes: its content, and the error for each kind of invalid line."""

from pathlib import Path

import pytest

from klamm.pipeline.errors import PipelineError
from klamm.pipeline.whatif import shapes
from klamm.pipeline.whatif.kernel import POLICIES, check_policies
from klamm.pipeline.whatif.shapes import MAX_REPLICAS, Shape, load_shapes

GOOD = '{"brokers": 3, "partitions": 10, "replication_factor": 2}'


def _load(folder: Path, text: str | bytes) -> list[Shape]:
    path = folder / "shapes.jsonl"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_shapes(path)


def test_lines_are_shapes_named_by_their_number_and_empty_ones_do_not_count(tmp_path: Path) -> None:
    whole = (
        '{"shape_id": 77, "brokers": 6, "racks": 3, "partitions": 12, "replication_factor": 3, "limit": 9,'
        ' "fenced": 1, "held": 4}'
    )
    assert _load(tmp_path, f"{GOOD}\n\n  \n{whole}\n{GOOD}") == [
        Shape(1, 3, 0, 10, 2),
        Shape(77, 6, 3, 12, 3, limit=9, fenced=1, held=4),
        Shape(5, 3, 0, 10, 2),
    ]


def test_a_limit_may_be_null(tmp_path: Path) -> None:
    assert _load(tmp_path, GOOD.replace("}", ', "limit": null}')) == [Shape(1, 3, 0, 10, 2)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "line 2 of the shapes is no JSON: Expecting property name"),
        ("[" * 100_000, "line 2 of the shapes is no JSON: numbers too long, or nested too deeply"),
        ('{"brokers": ' + "1" * 5_000 + "}", "line 2 of the shapes is no JSON: numbers too long"),
        ("[1]", "line 2 of the shapes is no JSON object"),
        ('{"brokers": 3, "nodes": 3}', "line 2 of the shapes has an unknown member 'nodes'"),
        ('{"partitions": 10, "replication_factor": 2}', "line 2 of the shapes: brokers is a whole number from 1"),
        (GOOD.replace("3", "0"), "line 2 of the shapes: brokers is a whole number from 1 to 10000, not 0"),
        (GOOD.replace("3", "true"), "brokers is a whole number from 1 to 10000, not true"),
        (GOOD.replace("3", "3.0"), "brokers is a whole number from 1 to 10000, not 3.0"),
        (GOOD.replace("3", '"3"'), 'brokers is a whole number from 1 to 10000, not "3"'),
        (GOOD.replace("3", "NaN"), "brokers is a whole number from 1 to 10000, not NaN"),
        (GOOD.replace("10", "10000001"), "line 2 of the shapes: partitions is a whole number from 1 to 10000000"),
        (GOOD.replace("}", ', "racks": -1}'), "line 2 of the shapes: racks is a whole number from 0"),
        (GOOD.replace("}", ', "limit": 0}'), "line 2 of the shapes: limit is a whole number from 1"),
        (GOOD.replace("}", ', "limit": 2147483648}'), "limit is a whole number from 1 to 2147483647"),
        (GOOD.replace("}", ', "held": null}'), "line 2 of the shapes: held is a whole number from 0"),
        (GOOD.replace("}", ', "fenced": 4}'), "line 2 of the shapes has 4 fenced of 3 brokers"),
        (GOOD.replace("10", "9000000"), f"line 2 of the shapes has more than {MAX_REPLICAS} replicas"),
        (GOOD.replace("}", ', "shape_id": 1}'), "line 2 of the shapes repeats shape_id 1"),
    ],
)
def test_a_line_that_is_no_shape_is_named(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(PipelineError) as reported:
        _load(tmp_path, f"{GOOD}\n{line}\n")
    assert reason in str(reported.value)
    assert len(str(reported.value)) < 200
    assert "\n" not in str(reported.value)


def test_files_that_hold_no_shapes_are_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="holds no shapes"):
        _load(tmp_path, "\n\n")
    with pytest.raises(PipelineError, match="are no UTF-8 text"):
        _load(tmp_path, b"\xff\xfe\n")
    with pytest.raises(PipelineError, match=r"cannot read shapes .*: No such file"):
        load_shapes(tmp_path / "none")
    with pytest.raises(PipelineError, match=r"cannot read shapes .*: Is a directory"):
        load_shapes(tmp_path)


def test_there_may_not_be_more_shapes_than_the_driver_can_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "MAX_SHAPES", 2)
    assert len(_load(tmp_path, f"{GOOD}\n{GOOD}\n")) == 2
    with pytest.raises(PipelineError, match="more than 2 shapes"):
        _load(tmp_path, f"{GOOD}\n{GOOD}\n{GOOD}\n")


def test_policies_are_known_and_named_once() -> None:
    check_policies(list(POLICIES))
    with pytest.raises(PipelineError, match="no policy is named: there are round-robin, striped"):
        check_policies([])
    with pytest.raises(PipelineError, match="there is no policy 'best'"):
        check_policies(["striped", "best"])
    with pytest.raises(PipelineError, match="policy 'striped' is named twice"):
        check_policies(["striped", "striped"])
