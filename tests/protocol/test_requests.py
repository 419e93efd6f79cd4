"""Headers and their exceptions, and requests that are read as leniently as by a real 4.3.0 broker.

The frames are those of the recorded scenarios `frames-*` (golden/behaviour), with the behaviour of the broker.
"""

import csv
from pathlib import Path

import pytest

from klamm.protocol import (
    ProtocolError,
    UnsupportedVersion,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    load_api,
    read_request,
)
from klamm.protocol.messages.cluster.api_versions import API as API_VERSIONS
from klamm.protocol.messages.cluster.api_versions import ApiVersionsResponse
from klamm.protocol.messages.topics.metadata import API as METADATA
from klamm.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tests.protocol.strategies import all_apis

SPEC = Path(__file__).parent.parent.parent / "spec"


def header_versions(text: str) -> dict[int, int]:
    return {int(version): int(header) for version, header in (pair.split(":") for pair in text.split(",") if pair)}


def test_apis_and_header_versions_are_those_of_the_table() -> None:
    with (SPEC / "apis.tsv").open(newline="") as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    seen = set()
    for row in rows:
        api = load_api(int(row["key"]))
        if not row["request_header_versions"]:
            assert api is None or not api.kept_versions
            continue
        assert api is not None
        assert api.name == row["name"]
        assert api.listeners == frozenset(row["listeners"].split(","))
        assert api.latest_stable == int(row["latest_stable"])
        requests, responses = (
            header_versions(row["request_header_versions"]),
            header_versions(row["response_header_versions"]),
        )
        assert {version: api.request_header_version(version) for version in api.kept_versions} == requests
        assert {version: api.response_header_version(version) for version in api.kept_versions} == responses
        seen.add(api.key)
    assert {api.key for api in all_apis()} - seen == {4, 5, 6, 7, 17901, 17902}


@pytest.mark.parametrize(
    ("frame", "body"),
    [
        ("000300010000000700037261770000000067617262616765", MetadataRequest(topics=())),  # left-over bytes
        (
            "000300090000000700037261770001000000" + "00" + "67617262616765",
            MetadataRequest(topics=(), allow_auto_topic_creation=False),
        ),
        ("0003000100000007000372617700000000", MetadataRequest(topics=())),
        ("0003000100000007ffff00000000", MetadataRequest(topics=())),  # client id null
        ("0003000100000007fffe00000000", MetadataRequest(topics=())),  # client id length -2
        ("00030001000000070002fffe00000000", MetadataRequest(topics=())),  # client id no UTF-8
        ("0003000100000007000372617" + "7fffffffe", MetadataRequest(topics=None)),  # array length -2
        ("0003000100000007000372617" + "7000000010002fffe", MetadataRequest(topics=[MetadataRequestTopic(name="��")])),
    ],
)
def test_requests_that_a_broker_accepts_are_accepted(frame: str, body: MetadataRequest) -> None:
    api, header, decoded = read_request(bytes.fromhex(frame))
    assert api is METADATA
    assert header.correlation_id == 7
    assert decoded == body


@pytest.mark.parametrize(
    ("frame", "path"),
    [
        ("", ""),
        ("00", ""),
        ("000300", ""),
        ("00030001", "correlation_id"),
        ("03e70000000000070003726177", "request_api_key"),
        ("ffff0000000000070003726177", "request_api_key"),
        ("005d0001000000070003726177", "request_api_key"),
        ("0003000e000000070003726177000100000000", "request_api_version"),
        ("00030063000000070003726177000100000000", "request_api_version"),
        ("0003ffff00000007000372617700000000", "request_api_version"),
        ("0003000100", "correlation_id"),
        ("0003000100000007", "client_id"),
        ("000300010000000701f46162", "client_id"),
        ("000300090000000700037261770100000000", "include_cluster_authorized_operations"),
        ("00030001000000070003726177", "topics"),
        ("000300010000000700037261770000", "topics"),
        ("000300010000000700037261770000" + "0005", "topics"),
        ("00030001000000070003726177" + "7fffffff", "topics"),
        ("00030001000000070003726177" + "00000001ffff", "topics[0].name"),
        ("00030001000000070003726177" + "0000000100646162", "topics[0].name"),
        ("0003000900000007000372617700" + "ffffffffffff", "topics"),
        ("00130007000000070003726177" + "00" + "02036162", "topics[0].num_partitions"),
        ("00130004000000070003726177" + "ffffffff000003e800", "topics"),
        # A version that is too high has the flexible header, whose tag byte is missing here.
        ("00120005000000070003726177", ""),
        ("0012000300000007000372617700", "client_software_name"),
    ],
)
def test_requests_that_make_a_broker_close_the_connection_are_errors(frame: str, path: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_request(bytes.fromhex(frame))
    assert not isinstance(caught.value, UnsupportedVersion)
    assert caught.value.path == path
    assert 0 <= caught.value.offset <= len(frame) // 2


@pytest.mark.parametrize(
    ("frame", "version"),
    [
        ("00120005000000070003726177000278027900", 5),
        ("00120063000000070003726177000278027900", 99),
        ("00127fff00000007000372617700", 32767),
        ("0012ffff000000070003726177", -1),
    ],
)
def test_api_versions_of_an_unknown_version_is_distinguished(frame: str, version: int) -> None:
    with pytest.raises(UnsupportedVersion) as caught:
        read_request(bytes.fromhex(frame))
    assert (caught.value.api_key, caught.value.api_version, caught.value.correlation_id) == (18, version, 7)
    header, _ = decode_request_header(bytes.fromhex(frame))
    assert header.client_id == "raw"


def test_responses_to_api_versions_have_header_version_0() -> None:
    frame = encode_response(API_VERSIONS, 4, 5, ApiVersionsResponse(error_code=35))
    assert frame[:6] == b"\0\0\0\5\0\x23"
    assert decode_response(API_VERSIONS, 4, bytes(frame)) == (5, ApiVersionsResponse(error_code=35))


def test_read_header_returns_the_offset_of_the_body() -> None:
    frame = encode_request(METADATA, 12, -5, "me", MetadataRequest(topics=None))
    header, offset = decode_request_header(frame)
    assert (header.correlation_id, header.client_id, header.request_api_version) == (-5, "me", 12)
    assert frame[offset:] == b"\0\1\0\0"


def test_left_over_bytes_of_a_response_are_an_error() -> None:
    frame = encode_response(API_VERSIONS, 4, 5, ApiVersionsResponse())
    with pytest.raises(ProtocolError) as caught:
        decode_response(API_VERSIONS, 4, bytes(frame) + b"x")
    assert caught.value.offset == len(frame)


def test_a_request_is_a_header_and_a_body() -> None:
    frame = encode_request(METADATA, 12, 7, "raw", MetadataRequest(topics=None))
    header, body = decode_request(frame)
    assert (header.request_api_key, header.request_api_version, header.correlation_id) == (3, 12, 7)
    assert body == MetadataRequest(topics=None)


def test_the_second_failure_of_a_reader_is_explained_too() -> None:
    """Requests that have been decoded before take another path, whose error must be the same."""
    frame = encode_request(METADATA, 12, 7, "raw", MetadataRequest(topics=[MetadataRequestTopic(name="a")]))
    for _ in range(2):
        assert read_request(frame)[2] == MetadataRequest(topics=(MetadataRequestTopic(name="a"),))
        with pytest.raises(ProtocolError) as caught:
            read_request(frame[:-4])
        assert (type(caught.value), caught.value.path) == (ProtocolError, "topics[0]")
        garbled = frame.replace(b"\x02a", b"\x02\xff")
        assert read_request(garbled)[2] == MetadataRequest(topics=(MetadataRequestTopic(name="�"),))
