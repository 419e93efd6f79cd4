"""The size of a decoded message, computed without decoding it, is at least the memory that decoding takes."""

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.protocol import Api, Message, ProtocolError, encode_message
from klamm.protocol.codec.messages import decode_message_at
from klamm.protocol.codec.requests import load_api, measure_request, read_request
from klamm.protocol.codec.sizes import decoded_size
from klamm.protocol.fields import wire_fields
from klamm.protocol.messages.index import MODULES
from tests.protocol.strategies import FEW_EXAMPLES, all_apis, messages
from tools.attack.worst_requests import shapes, worst_request

MANY = 1 << 30


@pytest.mark.parametrize("api", all_apis(), ids=lambda api: api.name)
@settings(max_examples=FEW_EXAMPLES)
@given(data=st.data())
def test_the_walk_ends_where_the_message_does(api: Api[Message, Message], data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(api.versions))
    flexible = api.flexible(version)
    message = data.draw(messages(api.request, version, flexible))
    raw = encode_message(message, version, flexible)
    size = decoded_size(api.request, version, flexible, raw + b"more", 0, MANY)
    assert size.end == len(raw)
    assert size.entries >= entries_of(message)
    assert size.memory_bytes >= memory_of(message)
    assert decoded_size(api.request, version, flexible, raw, 0, size.entries) == size, "as many as may be"
    if size.entries:
        assert decoded_size(api.request, version, flexible, raw, 0, size.entries - 1).entries == size.entries
    if raw:
        with pytest.raises(ProtocolError):
            decoded_size(api.request, version, flexible, raw[:-1], 0, MANY)


@pytest.mark.parametrize("api", all_apis(), ids=lambda api: api.name)
@settings(max_examples=FEW_EXAMPLES)
@given(data=st.data())
def test_bytes_that_cannot_be_decoded_have_no_size_or_a_bounded_one(
    api: Api[Message, Message], data: st.DataObject
) -> None:
    """What the walk refuses, the decoder refuses, too."""
    version = data.draw(st.sampled_from(api.versions))
    flexible = api.flexible(version)
    raw = bytearray(encode_message(data.draw(messages(api.request, version, flexible)), version, flexible))
    for _ in range(data.draw(st.integers(1, 3))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded_size(api.request, version, flexible, bytes(raw), 0, MANY)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            decode_message_at(api.request, version, flexible, bytes(raw), 0, "replace")


@pytest.mark.parametrize("key", MODULES)
def test_the_memory_of_the_worst_requests_is_no_more_than_their_size(key: int) -> None:
    api = load_api(key)
    assert api is not None
    version = api.versions[-1]
    for shape in shapes(api, version):
        frame = worst_request(api, version, shape, 3_000)
        _, size = measure_request(frame, None, MANY)
        _, _, request = read_request(frame)
        assert size.memory_bytes >= memory_of(request), shape
        assert size.entries >= entries_of(request), shape
        if size.entries > 10:
            _, ended_early = measure_request(frame, None, size.entries // 2)
            assert ended_early.entries > size.entries // 2


def entries_of(value: Any) -> int:
    """Elements of all arrays in a message, and its undeclared tagged fields."""
    if isinstance(value, Message):
        return len(value.unknown_tags or ()) + sum(entries_of(getattr(value, w.name)) for w in wire_fields(type(value)))
    if isinstance(value, (tuple, list)):
        return len(value) + sum(map(entries_of, value))
    return 0


def memory_of(value: Any) -> int:
    """Bytes of all objects in a message that decoding makes."""
    if isinstance(value, Message):
        tags = value.unknown_tags or {}
        own = sys.getsizeof(value) + (sys.getsizeof(tags) if tags else 0) + sum(map(memory_of, tags.values()))
        return own + sum(memory_of(getattr(value, w.name)) for w in wire_fields(type(value)))
    if isinstance(value, (tuple, list)):
        return (sys.getsizeof(value) if value else 0) + sum(map(memory_of, value))
    if isinstance(value, (str, bytes)):
        return sys.getsizeof(value) if len(value) > 1 else 0
    return 0
