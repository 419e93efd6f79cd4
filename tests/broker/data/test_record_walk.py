"""The walk over records: it sees what a reader of single records sees, and ends where something is unusual."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.data.exact_records import RecordHead, UnreadableRecord, read_heads
from klamm.broker.data.record_walk import CHUNK_RECORDS, FEW_RECORDS, Walk, deltas_of, walk
from klamm.protocol.errors import ErrorCode
from tests.broker.data.batches import record, sized, zigzag

BASE_MS = 1_000
HEADERS = st.lists(st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=70)), max_size=2)
FIELDS = st.fixed_dictionaries(
    {
        "timestamp_delta": st.integers(-70, 70) | st.integers(-(2**40), 2**40),
        "key": st.none() | st.binary(max_size=3) | st.binary(min_size=60, max_size=70),
        "value": st.none() | st.binary(max_size=3) | st.binary(min_size=60, max_size=70),
        "headers": HEADERS,
    }
)


def exact(data: bytes, count: int, *, skims: bool) -> list[RecordHead] | None:
    try:
        return list(read_heads(data, 0, count, BASE_MS, skims=skims, is_compressed=skims))
    except UnreadableRecord:
        return None


def summary(heads: list[RecordHead]) -> Walk:
    deltas = [head.timestamp_ms - BASE_MS for head in heads]
    return Walk(
        min(deltas),
        max(deltas),
        all(head.key_size >= 0 for head in heads),
        [head.offset_delta for head in heads] == list(range(len(heads))),
        not any(head.attributes for head in heads),
        deltas[0],
    )


@given(st.lists(FIELDS, min_size=1, max_size=8), st.integers(1, 12), st.booleans())
def test_a_walk_sees_what_single_records_say(fields: list[dict[str, Any]], times: int, in_order: bool) -> None:
    """Few records, and more than are read one by one."""
    count = len(fields) * times
    rows = [record(place if in_order else place // 2, **one) for place, one in enumerate(fields * times)]
    data = b"".join(rows)
    found = walk(b"front" + data, 5, count)
    heads = exact(data, count, skims=False)
    assert heads is not None
    assert found == summary(heads)
    assert exact(data, count, skims=True) == heads
    assert deltas_of(data, count) == [(head.offset_delta, head.timestamp_ms - BASE_MS) for head in heads]


@given(
    fields=st.lists(FIELDS, min_size=1, max_size=6),
    times=st.sampled_from([1, 30]),
    changes=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=3),
    cut=st.integers(0, 3),
    more=st.integers(-1, 1),
)
def test_a_walk_never_passes_what_a_reader_would_refuse(
    fields: list[dict[str, Any]], times: int, changes: list[tuple[int, int]], cut: int, more: int
) -> None:
    data = bytearray(b"".join(record(place, **one) for place, one in enumerate(fields * times)))
    for at, value in changes:
        data[at % len(data)] = value
    damaged, count = bytes(data[: len(data) - cut]), max(1, len(fields) * times + more)
    found = walk(damaged, 0, count)
    if found is not None:
        for skims in (False, True):
            heads = exact(damaged, count, skims=skims)
            assert heads is not None
            assert found == summary(heads)


@pytest.mark.parametrize("count", [1, FEW_RECORDS, FEW_RECORDS + 1, 200, CHUNK_RECORDS, CHUNK_RECORDS + 1])
@pytest.mark.parametrize("size", [0, 61, 62, 8_000, None])
def test_lengths_of_every_size_are_found(count: int, size: int | None) -> None:
    """Equal ones, and ones that change all the time."""
    if size == 8_000 and count > 1_000:
        count = 1_000
    sizes = [place * 7919 % 131 if size is None else size for place in range(count)]
    rows = [record(place, value=bytes(one), timestamp_delta=place // 3) for place, one in enumerate(sizes)]
    data = b"".join(rows)
    assert walk(data, 0, count) == Walk(0, (count - 1) // 3, True, True, True, 0)
    assert walk(data + b"\0", 0, count) is None
    assert walk(data[:-1], 0, count) is None
    assert walk(data, 0, count + 1) is None
    assert deltas_of(data, count) == [(place, place // 3) for place in range(count)]
    assert deltas_of(data[:-1], count) is None
    assert deltas_of(data, count + 1) is None


@pytest.mark.parametrize("place", [0, 1, 49, 98, 99])
@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"key": None}, "all_have_keys"),
        ({"timestamp_delta": -9}, "earliest_delta"),
        ({"timestamp_delta": 2**45}, "latest_delta"),
        ({"offset_delta": 7_000}, "are_in_order"),
    ],
)
def test_one_record_of_many_counts(place: int, changed: dict[str, Any], field: str) -> None:
    plain: list[dict[str, Any]] = [{"offset_delta": number} for number in range(100)]
    before = walk(b"".join(record(**one) for one in plain), 0, 100)
    plain[place] |= changed
    after = walk(b"".join(record(**one) for one in plain), 0, 100)
    assert before is not None
    assert after is not None
    different = {name for name in Walk._fields if getattr(before, name) != getattr(after, name)}
    assert field in different
    assert different <= {field, "first_delta"}


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize(
    "fields",
    [
        {"timestamp": b"\x80" * 9 + b"\1"},
        {"offset": b"\x80\x80\x80\x80\1"},
        {"key": b"\x80\x80\x80\x80\0"},
        {"headers": zigzag(-1)},
        {"headers": zigzag(1) + zigzag(-1) + sized(b"")},
        {"headers": zigzag(1) + sized(b"n")},
        {"headers": zigzag(0) + b"\0"},
    ],
)
def test_what_is_unusual_ends_the_walk(count: int, fields: dict[str, bytes]) -> None:
    parts = {"timestamp": b"\0", "offset": b"\0", "key": b"\1", "value": b"\1", "headers": b"\0"}
    body = b"\0" + b"".join((parts | fields).values())
    assert walk((zigzag(len(body)) + body) * count, 0, count) is None


@pytest.mark.parametrize(("is_compressed", "code"), [(True, 87), (False, -1)])
def test_a_length_of_six_bytes_is_no_error_that_kafka_knows(is_compressed: bool, code: int) -> None:
    with pytest.raises(UnreadableRecord) as raised:
        list(read_heads(b"\x80" * 5 + b"\0" + record(), 0, 1, 0, skims=is_compressed, is_compressed=is_compressed))
    assert raised.value.code == ErrorCode(code)


@pytest.mark.parametrize("value", [b"v", b"v" * 80])
@pytest.mark.parametrize("change", [0x01, 0x02, 0x80])
@pytest.mark.parametrize("place", [30, 70, 99])
def test_every_byte_of_a_record_among_alike_ones_counts(place: int, change: int, value: bytes) -> None:
    rows = [record(number, value=value, timestamp_delta=5) for number in range(100)]
    begin = sum(map(len, rows[:place]))
    for at in range(begin, begin + len(rows[place])):
        data = bytearray(b"".join(rows))
        data[at] ^= change
        heads = exact(bytes(data), 100, skims=False)
        found = walk(bytes(data), 0, 100)
        if found is None:
            assert heads is None or data[at - 1] & 0x80 or change == 0x80, "it may be valid and unusual"
        else:
            assert heads is not None
            assert found == summary(heads)
