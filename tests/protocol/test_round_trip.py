"""Messages are equal after encoding and decoding, in every version; compiled and interpreted schemas agree."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.protocol import Api, Message, ProtocolError, RecordType, Uuid, decode_message, encode_message
from klamm.protocol.codec import messages as border
from klamm.protocol.codec.schema import compiled_schema, schema
from klamm.protocol.codec.streams import Buffer, Cursor
from klamm.protocol.codec.wire_type import Compiled, Construct
from klamm.protocol.fields import wire_fields
from klamm.protocol.records.brokers import REGISTER_BROKER, RegisterBrokerRecord
from tests.protocol.strategies import FEW_EXAMPLES, all_apis, all_record_types, all_schemas, messages


def both_paths_agree(message: Message, version: int, flexible: bool) -> None:
    raw = encode_message(message, version, flexible)
    assert decode_message(type(message), version, flexible, raw) == message
    interpreted = schema(type(message), version, flexible)
    assert interpreted.build(message) == raw
    assert interpreted.parse(raw) == message


@pytest.mark.parametrize("api", all_apis(), ids=lambda api: api.name)
@settings(max_examples=FEW_EXAMPLES)
@given(data=st.data())
def test_requests_and_responses_are_equal_after_a_round_trip(api: Api[Message, Message], data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(api.versions))
    message_class = data.draw(st.sampled_from([api.request, api.response]))
    flexible = api.flexible(version)
    both_paths_agree(data.draw(messages(message_class, version, flexible)), version, flexible)


@pytest.mark.parametrize("kind", all_record_types(), ids=lambda kind: kind.name)
@settings(max_examples=FEW_EXAMPLES)
@given(data=st.data())
def test_records_and_blobs_are_equal_after_a_round_trip(kind: RecordType[Message], data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(kind.versions))
    flexible = kind.flexible(version)
    both_paths_agree(data.draw(messages(kind.message, version, flexible)), version, flexible)


def test_the_compiled_code_is_used() -> None:
    """Each message and version has one construct; the border calls the functions that its compile() emitted."""
    for message_class, version, flexible in all_schemas():
        declared = schema(message_class, version, flexible)
        compiled = compiled_schema(message_class, version, flexible)
        assert isinstance(declared, Construct)
        assert isinstance(compiled, Compiled)
        assert compiled.defersubcon is declared
        assert compiled.module.linkedinstances == {}, "a part is interpreted, not emitted"
        raw = encode_message(message_class(), version, flexible)
        assert decode_message(message_class, version, flexible, raw) == message_class()
        assert border.parse_function(message_class, version, flexible, "strict") is compiled.parsefunc
        assert border.build_function(message_class, version, flexible) is compiled.buildfunc


@given(data=st.data())
def test_a_field_that_a_version_lacks_raises_or_is_dropped(data: st.DataObject) -> None:
    message_class, version, flexible = data.draw(st.sampled_from(SCHEMAS_LACKING_FIELDS))
    wire = data.draw(st.sampled_from([w for w in wire_fields(message_class) if not w.in_version(version)]))
    message = message_class()
    setattr(message, wire.name, a_value_that_differs(wire.default))
    if wire.ignorable:
        raw = encode_message(message, version, flexible)
        assert raw == encode_message(message_class(), version, flexible)
        assert getattr(decode_message(message_class, version, flexible, raw), wire.name) == wire.default
        return
    with pytest.raises(ProtocolError) as caught:
        encode_message(message, version, flexible)
    assert caught.value.path == wire.name


SCHEMAS_LACKING_FIELDS = [
    (message_class, version, flexible)
    for message_class, version, flexible in all_schemas()
    if not all(wire.in_version(version) for wire in wire_fields(message_class))
]


def a_value_that_differs(default: Any) -> Any:
    if default is None:
        return ()
    if isinstance(default, Message):
        changed = type(default)()
        first = wire_fields(type(default))[0]
        setattr(changed, first.name, a_value_that_differs(first.default))
        return changed
    if isinstance(default, bytes):
        return b"\1" * max(len(default), 1)
    if isinstance(default, bool):
        return not default
    if isinstance(default, str):
        return "set"
    return (1,) if isinstance(default, tuple) else 7


def test_null_where_null_is_not_allowed_raises_both_ways() -> None:
    for message_class, version, flexible in all_schemas():
        for wire in wire_fields(message_class):
            if not wire.in_version(version) or wire.nullable_in(version):
                continue
            message = message_class()
            setattr(message, wire.name, None)
            with pytest.raises(ProtocolError) as caught:
                encode_message(message, version, flexible)
            assert caught.value.path.startswith(wire.name)
    for name, raw in (("topics", b"\0"), ("topics[0].name", b"\2\0")):
        from klamm.protocol.messages.topics.create_topics import CreateTopicsRequest

        with pytest.raises(ProtocolError) as caught:
            decode_message(CreateTopicsRequest, 7, True, raw)
        assert caught.value.path == name


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"broker_id": 2**31}, "broker_id"),
        ({"broker_id": 1.5}, "broker_id"),
        ({"broker_epoch": -(2**63) - 1}, "broker_epoch"),
        ({"incarnation_id": b"short"}, "incarnation_id"),
        ({"log_dirs": (b"1" * 17,)}, "log_dirs[0]"),
        ({"rack": b"bytes"}, "rack"),
        ({"rack": "\ud800"}, "rack"),
        ({"rack": "x" * 32768}, "rack"),
        ({"end_points": 5}, "end_points"),
        ({"end_points": ("no endpoint",)}, "end_points[0]"),
        ({"features": None}, "features"),
    ],
)
def test_values_that_cannot_be_encoded_raise_and_append_nothing(values: dict[str, Any], path: str) -> None:
    out = Buffer(b"before")
    with pytest.raises(ProtocolError) as caught:
        border.encode_message_into(out, RegisterBrokerRecord(**values), 4, REGISTER_BROKER.flexible(4))
    assert caught.value.path == path
    assert out == b"before"


def test_tagged_fields_are_read_in_any_order_and_written_ascending() -> None:
    plain = encode_message(RegisterBrokerRecord(), 4, True)
    assert plain[-1:] == b"\0"
    tags = {1: b"\1", 0: b"\1", 5000: b"new"}  # An empty array is the default of tag 0, but not of tag 1.
    section = b"\3" + b"\x88\x27\3new" + b"\1\1\1" + b"\0\1\1"
    message = decode_message(RegisterBrokerRecord, 4, True, plain[:-1] + section)
    assert message.unknown_tags == {5000: tags[5000]}
    assert message.cordoned_log_dirs == ()
    assert encode_message(message, 4, True) == plain[:-1] + b"\2" + b"\1\1\1" + b"\x88\x27\3new"


def test_unknown_tags_need_a_flexible_version() -> None:
    from klamm.protocol.messages.topics.create_topics import CreateTopicsRequest

    message = CreateTopicsRequest()
    message.unknown_tags = {9: b"x"}
    assert decode_message(CreateTopicsRequest, 7, True, encode_message(message, 7, True)) == message
    with pytest.raises(ProtocolError):
        encode_message(message, 4, False)


@pytest.mark.parametrize("tag", [2**31 - 1, 2**31, 2**32 - 1])
def test_every_tag_that_is_read_is_written_back(tag: int) -> None:
    """Found by scripts/fuzz: tags up to 2**32 were read, but only tags up to 2**31 were written."""
    message = RegisterBrokerRecord()
    message.unknown_tags = {tag: b"new"}
    assert decode_message(RegisterBrokerRecord, 4, True, encode_message(message, 4, True)) == message


def test_a_known_tag_cannot_be_unknown_as_well() -> None:
    message = RegisterBrokerRecord(log_dirs=(Uuid(16),))
    message.unknown_tags = {0: b"\1"}
    with pytest.raises(ProtocolError):
        encode_message(message, 4, True)


def test_constructs_own_types_can_use_klamms_streams() -> None:
    from construct import Int16ub

    out = Buffer()
    Int16ub.build_stream(258, out)
    assert out == b"\1\2"
    assert Int16ub.parse_stream(Cursor(b"\1\2\3")) == 258
