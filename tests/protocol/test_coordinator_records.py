"""Coordinator records: byte for byte those of Apache Kafka 4.3.0, and the errors of invalid ones."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol import ProtocolError
from klamm.protocol.codec.json_form import message_from_json, message_to_json
from klamm.protocol.coordinator_records import (
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    load_coordinator_record,
)
from klamm.protocol.internal_topics import CONSUMER_OFFSETS, INTERNAL_TOPICS
from klamm.protocol.records.coordinator.groups import GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from klamm.protocol.records.coordinator.index import COORDINATOR
from klamm.protocol.uuid import Uuid
from tests.protocol.strategies import messages

GOLDEN = Path(__file__).parent.parent / "golden" / "coordinators" / "records.jsonl.gz"
RECORDS = {
    kind.name: (kinds[0].message(), kind)
    for topic in INTERNAL_TOPICS
    for kinds in (load_coordinator_record(topic, number) for number in COORDINATOR[topic])
    if kinds is not None
    for kind in kinds
}
"""By name: a key of the record, and the type of the key or value."""


def test_bytes_are_those_of_kafka() -> None:
    seen = set()
    with gzip.open(GOLDEN, "rt") as lines:
        for vector in map(json.loads, lines):
            key, kind = RECORDS[vector["name"]]
            raw, version = bytes.fromhex(vector["hex"]), vector["version"]
            message = message_from_json(kind.message, vector["body"], version)
            assert (encode_key(message) if kind.name.endswith("Key") else encode_value(message, version)) == raw
            topic = vector["topic"]
            decoded = decode_key(topic, raw) if kind.name.endswith("Key") else decode_value(topic, key, raw)
            assert decoded == message
            assert message_to_json(message, version) == vector["body"]
            seen.add((kind.name, version))
    assert seen == {(kind.name, version) for _, kind in RECORDS.values() for version in kind.versions}


@given(data=st.data())
def test_keys_and_values_survive(data: st.DataObject) -> None:
    topic = data.draw(st.sampled_from(INTERNAL_TOPICS))
    kinds = load_coordinator_record(topic, data.draw(st.sampled_from(sorted(COORDINATOR[topic]))))
    assert kinds is not None
    key = data.draw(messages(kinds[0].message, 0, flexible=False))
    version = data.draw(st.sampled_from(kinds[1].versions))
    value = data.draw(messages(kinds[1].message, version, kinds[1].flexible(version)))
    assert decode_key(topic, encode_key(key)) == key
    assert decode_value(topic, key, encode_value(value, version)) == value


@given(st.binary(max_size=40))
def test_any_bytes_are_a_record_or_a_protocol_error(data: bytes) -> None:
    for topic in INTERNAL_TOPICS:
        try:
            key = decode_key(topic, data)
        except ProtocolError:
            key = None
        if key is not None:
            assert encode_key(key) == data
    with pytest.raises(ProtocolError):
        decode_value(CONSUMER_OFFSETS, OffsetCommitKey(), b"\x7f\xff" + data)


def test_versions_written_are_those_of_kafka() -> None:
    """An offset is written in version 4 with the topic's id, a group in version 3."""
    topic_id = Uuid(bytes(range(16)))
    assert encode_value(OffsetCommitValue(topic_id=topic_id))[:2] == b"\x00\x04"
    assert encode_value(OffsetCommitValue(expire_timestamp=5), 1)[:2] == b"\x00\x01"
    assert encode_value(GroupMetadataValue())[:2] == b"\x00\x03"


def test_keys_of_a_newer_broker_are_skipped() -> None:
    assert decode_key(CONSUMER_OFFSETS, b"\x03\xe7more") is None
    with pytest.raises(ProtocolError):
        decode_key(CONSUMER_OFFSETS, b"\x00")
