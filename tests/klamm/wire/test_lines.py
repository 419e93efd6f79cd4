"""`klamm wire decode` and `encode`, line by line: Kafka's vectors in both directions, and errors for invalid lines."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.wire.lines import decode_line, encode_line
from tests.protocol.test_golden_vectors import vectors

VECTORS = [*vectors("wire.jsonl.gz"), *vectors("wire-data.jsonl.gz")]
API_VERSIONS = "0012000400000007000361626300"


def line(**members: Any) -> bytes:
    return json.dumps(members).encode()


def failure(answered: tuple[str, bool]) -> dict[str, Any]:
    text, well = answered
    assert not well
    error: dict[str, Any] = json.loads(text)["error"]
    assert list(error) == ["offset", "path", "reason"]
    return error


def test_kafkas_vectors_are_decoded_and_encoded() -> None:
    assert len(VECTORS) == 1358
    for vector in VECTORS:
        forms = ("header", "body")
        text, well = decode_line(line(**{name: value for name, value in vector.items() if name not in forms}))
        assert (json.loads(text), well) == (vector, True)
        text, well = encode_line(line(**{name: value for name, value in vector.items() if name != "hex"}))
        assert (json.loads(text), well) == (vector, True)


def test_names_stand_for_keys() -> None:
    for vector in VECTORS[::40]:
        assert json.loads(decode_line(line(**{**vector, "key": None}))[0])["body"] == vector["body"]
        keyed = {name: value for name, value in vector.items() if name not in ("api", "record", "message")}
        if "key" in vector and vector.get("kind") != "data":
            kind = keyed.get("kind", "record")
            assert json.loads(decode_line(line(**{**keyed, "kind": kind}))[0])["body"] == vector["body"]


def test_other_members_pass_through_and_a_former_error_does_not() -> None:
    requested = line(kind="request", key=18, version=4, hex=API_VERSIONS + "0261026200", note={"a": [1]}, error="x")
    reported = json.loads(decode_line(requested)[0])
    assert (reported["note"], "error" in reported) == ({"a": [1]}, False)
    assert reported["body"] == {"clientSoftwareName": "a", "clientSoftwareVersion": "b"}


@pytest.mark.parametrize(("members", "offset", "path", "reason"), [
    ({}, -1, "kind", "None: request, response, record, control or data is expected"),
    ({"kind": "frame"}, -1, "kind", "'frame': request, response, record, control or data is expected"),
    ({"kind": "request"}, -1, "key", "no API has key None"),
    ({"kind": "request", "key": 1.0}, -1, "key", "no API has key 1.0"),
    ({"kind": "request", "key": 18, "api": "Fetch"}, -1, "api", "API 18 is ApiVersions, not 'Fetch'"),
    ({"kind": "request", "api": "Nonsense"}, -1, "api", "there is no API 'Nonsense'"),
    ({"kind": "request", "api": ["ApiVersions"]}, -1, "api", "there is no API ['ApiVersions']"),
    ({"kind": "request", "key": 18}, -1, "version", "the line has no version"),
    ({"kind": "request", "key": 18, "version": 99}, -1, "version", "ApiVersions has no version 99"),
    ({"kind": "request", "key": 18, "version": True}, -1, "version", "ApiVersions has no version True"),
    ({"kind": "request", "key": 18, "version": 0}, -1, "hex", "the line has no hex"),
    ({"kind": "request", "key": 18, "version": 0, "hex": 7}, -1, "hex", "the line has no hex"),
    (
        {"kind": "request", "key": 18, "version": 0, "hex": "0"},
        -1,
        "hex",
        "hex is not an even number of hexadecimal digits",
    ),
    ({"kind": "request", "key": 18, "version": 0, "hex": ""}, 0, "requestApiKey", "2 bytes wanted, 0 left"),
    ({"kind": "request", "key": 18, "version": 0, "hex": "00120000000000070000ff"}, 10, "", "1 bytes left over"),
    ({"kind": "request", "key": 18, "version": 0, "hex": "00120003000000070000"}, 0, "header",
     "the header is of API 18 v3, the line of API 18 v0"),
    ({"record": "TopicRecord", "version": 0, "hex": "01020002"}, 4, "name", "1 bytes wanted, 0 left"),
    ({"record": "TopicRecord", "version": 0, "hex": "017f00"}, 0, "", "no metadata record 127 of version 0"),
    ({"record": "TopicRecord", "version": 0, "hex": "020100"}, 0, "", "frame version 2"),
    ({"record": "Nonsense", "version": 0, "hex": ""}, -1, "record", "there is no record 'Nonsense'"),
    ({"kind": "control", "key": 99, "version": 0}, -1, "key", "no message has key 99"),
    ({"kind": "data", "message": "Nonsense", "version": 0}, -1, "message", "there is no message 'Nonsense'"),
])  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(members: dict[str, Any], offset: int, path: str, reason: str) -> None:
    error = failure(decode_line(line(**members)))
    assert (error["offset"], error["path"]) == (offset, path)
    assert reason in error["reason"]


@pytest.mark.parametrize(("members", "path", "reason"), [
    ({}, "header", "the line has no header"),
    ({"header": {"requestApiKey": 0}}, "header", "API 0 v7"),
    ({"header": {"requestApiKey": 19, "requestApiVersion": 7}}, "body", "the line has no body"),
    ({"body": {"topics": 5}}, "body.topics", "int where an array belongs"),
    ({"body": {"topics": [{"nam": "t"}]}}, "body.topics[0].nam", "no field nam"),
    ({"body": {"topics": [{"name": "t", "numPartitions": "3"}]}}, "body.topics[0].numPartitions", "no int32"),
    ({"body": {"topics": [{"name": "t", "numPartitions": 1 << 31}]}}, "topics[0].numPartitions", ""),
    ({"body": {"topics": [{"name": None}]}}, "body.topics[0].name", ""),
])  # fmt: skip
def test_what_cannot_be_encoded_is_told_with_its_path(members: dict[str, Any], path: str, reason: str) -> None:
    header = {"requestApiKey": 19, "requestApiVersion": 7, "correlationId": 1, "clientId": None}
    whole = {"kind": "request", "key": 19, "version": 7} | ({"header": header} if "body" in members else {}) | members
    error = failure(encode_line(line(**whole)))
    assert error["path"] == path
    assert reason in error["reason"]


@pytest.mark.parametrize("raw", [b"", b"nonsense", b"[]", b"7", b'"x"', b'{"a":', b"\xff\xfe", b"[" * 100_000])
def test_no_json_object_is_an_error_line(raw: bytes) -> None:
    for convert in (decode_line, encode_line):
        error = failure(convert(raw))
        assert (error["offset"], error["path"]) == (-1, "")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8,
)  # fmt: skip


@given(st.data())
def test_whatever_a_member_holds_there_is_one_line_of_json(data: st.DataObject) -> None:
    vector = dict(data.draw(st.sampled_from(VECTORS)))
    vector[data.draw(st.sampled_from([*vector, "kind", "error"]))] = data.draw(anything)
    for convert in (decode_line, encode_line):
        text, well = convert(json.dumps(vector).encode())
        assert "\n" not in text
        assert well == ("error" not in json.loads(text))


@given(st.data())
def test_mutated_bytes_are_a_form_or_an_error(data: st.DataObject) -> None:
    vector = dict(data.draw(st.sampled_from(VECTORS)))
    raw = bytearray.fromhex(vector["hex"])
    for _ in range(data.draw(st.integers(1, 3))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    text, well = decode_line(json.dumps({**vector, "hex": raw.hex()}).encode())
    assert well == ("error" not in json.loads(text))


def test_a_header_need_not_repeat_the_api_of_its_line() -> None:
    body = {"topics": [], "timeoutMs": 5, "validateOnly": False}
    header = {"correlationId": 1, "clientId": "c"}
    whole = {"kind": "request", "key": 19, "version": 7, "body": body}
    same = {"requestApiKey": 19, "requestApiVersion": 7, **header}
    short, long = (json.loads(encode_line(line(**whole, header=one))[0]) for one in (header, same))
    assert short["hex"] == long["hex"]
