"""The decoder of pushed metrics: what clients write, what they may write, and any bytes."""

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.telemetry.otlp import MAX_ATTRIBUTES, MAX_TEXT_CHARACTERS, InvalidMetrics, Point, read_points
from tests.broker.telemetry.otlp_bytes import (
    attribute,
    gauge,
    metrics_data,
    of_fixed64,
    of_length,
    of_varint,
    point,
    summed,
    varint,
)


def test_gauges_and_sums_are_read_with_their_attributes() -> None:
    data = metrics_data(
        gauge("a", point(1.5, 7, {"topic": "t"}), point(-3, 8), unit="ms"),
        summed("b", point(2**62, 9)),
        summed("c", point(0.0), temporality=2, monotonic=False),
        resource={"client_rack": "r"},
    )
    rack = ("client_rack", "r")
    assert list(read_points(data)) == [
        Point("a", "gauge", "ms", (rack, ("topic", "t")), 1.5, 7),
        Point("a", "gauge", "ms", (rack,), -3, 8),
        Point("b", "sum", "", (rack,), 2**62, 9, is_delta=True, is_monotonic=True),
        Point("c", "sum", "", (rack,), 0.0, 0),
    ]


def test_attributes_are_text_and_those_of_a_point_count_more() -> None:
    data = metrics_data(
        gauge("a", point(1, attributes={"b": True, "f": 0.5, "i": -2, "x": "point"})), resource={"x": "resource"}
    )
    (read,) = read_points(data)
    assert read.attributes == (("b", "true"), ("f", "0.5"), ("i", "-2"), ("x", "point"))


@pytest.mark.parametrize(("number", "kind"), [(9, "histogram"), (10, "exponential_histogram"), (11, "summary")])
def test_of_other_kinds_the_name_is_read(number: int, kind: str) -> None:
    (read,) = read_points(metrics_data(of_length(1, "h") + of_length(number, of_length(1, b"\x09" + bytes(8)))))
    assert read == Point("h", kind)


def test_unknown_fields_are_skipped() -> None:
    extra = of_varint(99, 5) + of_fixed64(98, bytes(8)) + of_length(97, b"x") + varint(96 << 3 | 5) + bytes(4)
    (read,) = read_points(extra + metrics_data(extra + gauge("a", extra + point(1) + extra) + extra) + extra)
    assert (read.name, read.value) == ("a", 1)


def test_values_that_are_no_numbers() -> None:
    values = [one.value for one in read_points(metrics_data(gauge("a", point(math.nan), point(math.inf), b"")))]
    assert values[0] != values[0]
    assert values[1:] == [math.inf, None]


def test_long_texts_and_many_attributes_are_cut() -> None:
    many = {f"{number:03}": "v" for number in range(MAX_ATTRIBUTES + 5)}
    (read,) = read_points(metrics_data(gauge("n" * 1000, point(1, attributes=many), unit="ü" * 1000)))
    assert (len(read.name), len(read.unit)) == (MAX_TEXT_CHARACTERS, MAX_TEXT_CHARACTERS)
    assert len(read.attributes) == MAX_ATTRIBUTES


@pytest.mark.parametrize("data", [
    b"\x0a", b"\x0a\x05\x12", b"\x08\x01", b"\x00\x00", b"\x0b", b"\xff" * 11, b"\x0d\0\0\0", b"\x09" + bytes(7),
    of_length(1, of_varint(2, 1)), metrics_data(of_varint(1, 3)), metrics_data(of_varint(5, 3)),
    metrics_data(gauge("a", of_varint(7, 1))), metrics_data(of_length(1, "a") + of_length(5, of_varint(1, 1))),
    metrics_data(gauge("a", of_length(7, of_varint(1, 1)))),
])  # fmt: skip
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidMetrics):
        list(read_points(data))


def test_nothing_is_no_metric() -> None:
    assert list(read_points(b"")) == []


@given(st.binary(max_size=300))
def test_any_bytes_give_points_or_are_refused(data: bytes) -> None:
    with suppress(InvalidMetrics):
        list(read_points(data))


WHOLE = metrics_data(
    gauge("a", point(1.5, 7, {"topic": "t", "n": 5}), unit="ms"), summed("b", point(2)), resource={"r": "x"}
)


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_any_changed_byte_gives_points_or_is_refused(at: int, byte: int) -> None:
    with suppress(InvalidMetrics):
        list(read_points(WHOLE[:at] + bytes((byte,)) + WHOLE[at + 1 :]))


@given(st.integers(1, len(WHOLE) - 1))
def test_a_cut_message_is_refused(end: int) -> None:
    with pytest.raises(InvalidMetrics):
        list(read_points(WHOLE[:end]))


def test_attributes_of_lists_are_empty() -> None:
    listed = of_length(1, "l") + of_length(2, of_length(5, b""))
    (read,) = read_points(metrics_data(gauge("a", of_length(7, listed) + of_length(7, attribute("m", "x")))))
    assert read.attributes == (("l", ""), ("m", "x"))
