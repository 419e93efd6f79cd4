"""Vectors of Apache Kafka 4.3.0 are encoded and decoded exactly, by compiled and by interpreted schemas."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from klamm.protocol import Message, decode_response, encode_request, encode_response, load_api, read_request
from klamm.protocol.codec.json_form import message_from_json, message_to_json
from klamm.protocol.codec.messages import decode_message, encode_message
from klamm.protocol.codec.schema import schema
from klamm.protocol.record_versions import load_record_type
from tests.protocol.strategies import all_record_types

VECTORS = Path(__file__).parent.parent / "golden" / "wire"


def vectors(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(VECTORS / name, "rt") as lines:
        yield from map(json.loads, lines)


def both_ways(message_class: type[Message], version: int, flexible: bool, raw: bytes, form: dict[str, Any]) -> None:
    message = decode_message(message_class, version, flexible, raw)
    assert message_to_json(message, version) == form
    assert encode_message(message, version, flexible) == raw
    assert message_from_json(message_class, form, version) == message
    interpreted = schema(message_class, version, flexible)
    assert interpreted.parse(raw) == message
    assert interpreted.build(message) == raw


def test_requests_and_responses_match() -> None:
    count = 0
    for vector in vectors("wire.jsonl.gz"):
        if "api" not in vector:
            continue
        api, version, raw = load_api(vector["key"]), vector["version"], bytes.fromhex(vector["hex"])
        assert api is not None
        assert api.name == vector["api"]
        if vector["kind"] == "request":
            decoded, header, body = read_request(raw)
            assert decoded is api
            assert api.request_header_version(version) == vector["header_version"]
            assert message_to_json(header, vector["header_version"]) == vector["header"]
            assert encode_request(api, version, header.correlation_id, header.client_id, body) == raw
        else:
            correlation_id, body = decode_response(api, version, raw)
            assert api.response_header_version(version) == vector["header_version"]
            assert vector["header"] == {"correlationId": correlation_id}
            assert encode_response(api, version, correlation_id, body) == raw
        flexible = api.flexible(version)
        both_ways(type(body), version, flexible, encode_message(body, version, flexible), vector["body"])
        count += 1
    assert count > 1200


def test_metadata_records_match() -> None:
    count = 0
    for vector in vectors("wire.jsonl.gz"):
        if "record" not in vector:
            continue
        kind, version, raw = load_record_type(vector["key"]), vector["version"], bytes.fromhex(vector["hex"])
        assert kind is not None
        assert kind.name == vector["record"]
        # As it stands in the log: frame version, record id, record version, body.
        assert raw[:3] == bytes((1, kind.id, version))
        both_ways(kind.message, version, kind.flexible(version), raw[3:], vector["body"])
        count += 1
    assert count == 74


def test_control_records_and_blobs_match() -> None:
    by_name = {kind.name: kind for kind in all_record_types()}
    count = 0
    for vector in vectors("wire-data.jsonl.gz"):
        kind, version = by_name[vector["message"]], vector["version"]
        both_ways(kind.message, version, kind.flexible(version), bytes.fromhex(vector["hex"]), vector["body"])
        count += 1
    assert count == 76
