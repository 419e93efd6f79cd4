"""For any bytes, decoding gives a value or `ProtocolError`, and no other exception, in bounded memory.

The quick profile tries some mutations and truncations of every golden frame, the exhaustive one very many.
"""

import random
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol import Message, ProtocolError, decode_message, encode_message, load_api, read_request
from klamm.protocol.codec.requests import decode_request_header
from klamm.protocol.codec.schema import schema
from klamm.protocol.messages.security.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from klamm.protocol.messages.topics.create_topics import CreateTopicsRequest
from klamm.protocol.records.partitions import PartitionRecord
from tests.protocol.strategies import EXAMPLES, all_schemas
from tests.protocol.test_golden_vectors import vectors

TRIALS_PER_FRAME = EXAMPLES // 2


def value_or_error(message_class: type[Message], version: int, flexible: bool, raw: bytes) -> Message | None:
    """What `raw` decodes to, which must have bytes again; None for a ProtocolError that says where."""
    try:
        message = decode_message(message_class, version, flexible, raw)
    except ProtocolError as error:
        says_where(error, raw)
        return None
    again = encode_message(message, version, flexible)
    assert decode_message(message_class, version, flexible, again) == message
    return message


def says_where(error: ProtocolError, raw: bytes) -> None:
    assert 0 <= error.offset <= len(raw)
    assert error.reason


def golden_bodies() -> Iterator[tuple[type[Message], int, bool, bytes]]:
    for vector in vectors("wire.jsonl.gz"):
        if "api" not in vector:
            continue
        api, version, raw = load_api(vector["key"]), vector["version"], bytes.fromhex(vector["hex"])
        assert api is not None
        if vector["kind"] == "request":
            _, body_offset = decode_request_header(raw)
            yield api.request, version, api.flexible(version), raw[body_offset:]
        else:
            yield api.response, version, api.flexible(version), raw[4 + api.response_header_version(version) :]


def test_mutated_golden_bodies_give_a_value_or_an_error() -> None:
    chance = random.Random(3)
    errors = values = 0
    for message_class, version, flexible, raw in golden_bodies():
        if not raw:
            continue
        for _ in range(TRIALS_PER_FRAME):
            mutated = bytearray(raw)
            mutated[chance.randrange(len(raw))] = chance.randrange(256)
            decoded = value_or_error(message_class, version, flexible, bytes(mutated))
            errors += decoded is None
            values += decoded is not None
    assert min(errors, values) > 1000


def test_truncated_golden_bodies_are_errors() -> None:
    chance = random.Random(4)
    for message_class, version, flexible, raw in golden_bodies():
        for _ in range(min(TRIALS_PER_FRAME, len(raw))):
            cut = raw[: chance.randrange(len(raw))]
            assert value_or_error(message_class, version, flexible, cut) is None


def test_compiled_and_interpreted_schemas_agree_on_errors() -> None:
    """The interpreted schema explains errors; it must refuse the same bytes as the compiled one."""
    chance = random.Random(5)
    for message_class, version, flexible, raw in golden_bodies():
        mutated = bytearray(raw)
        for _ in range(min(2, len(raw))):
            mutated[chance.randrange(len(raw))] = chance.choice((0, 1, 127, 128, 255))
        compiled = value_or_error(message_class, version, flexible, bytes(mutated))
        try:
            interpreted = schema(message_class, version, flexible).parse(bytes(mutated))
        except ProtocolError:
            assert compiled is None
        else:
            assert compiled is None or compiled == interpreted  # None: bytes were left over


@given(raw=st.binary(max_size=60))
def test_any_bytes_are_a_request_or_an_error(raw: bytes) -> None:
    try:
        read_request(raw)
    except ProtocolError as error:
        says_where(error, raw)


@given(raw=st.binary(max_size=40), schema_index=st.integers(0, 10_000))
def test_any_bytes_are_a_message_or_an_error(raw: bytes, schema_index: int) -> None:
    message_class, version, flexible = SCHEMAS[schema_index % len(SCHEMAS)]
    value_or_error(message_class, version, flexible, raw)


SCHEMAS = list(all_schemas())


@pytest.mark.parametrize(
    ("message_class", "version", "flexible", "raw"),
    [
        (CreateTopicsRequest, 4, False, b"\x7f\xff\xff\xff" + bytes(1000)),
        (CreateTopicsRequest, 7, True, b"\xff\xff\xff\xff\x07" + bytes(1000)),
        (CreateTopicsRequest, 7, True, b"\x02\x02a" + bytes(6) + b"\xff\xff\xff\xff\x07" + bytes(1000)),
        (PartitionRecord, 2, True, bytes(20) + b"\xff\xff\xff\xff\x07" + bytes(1000)),
        (PartitionRecord, 2, True, bytes(20) + b"\xe8\x07" + bytes(1000)),
        (PartitionRecord, 2, True, bytes(20) + b"\x01" * 4 + bytes(12) + b"\xff\xff\x7f" + bytes(1000)),
    ],
)
def test_a_count_beyond_the_bytes_allocates_nothing(
    message_class: type[Message], version: int, flexible: bool, raw: bytes
) -> None:
    value_or_error(message_class, version, flexible, raw)  # the schema is compiled now
    tracemalloc.start()
    try:
        assert value_or_error(message_class, version, flexible, raw) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_a_field_error_has_path_and_offset() -> None:
    good = encode_message(CreateTopicsRequest(), 7, True)
    with pytest.raises(ProtocolError) as caught:
        decode_message(CreateTopicsRequest, 7, True, b"\x02\x03\xffa" + good)
    assert (caught.value.path, caught.value.offset) == ("topics[0].name", 2)
    assert str(caught.value) == "string is no UTF-8 in topics[0].name at byte 2"


NEGATIVE_TO_KAFKA = {
    "a length of -1": ("ffffffff0f 00", DescribeUserScramCredentialsRequest(users=None)),
    "a length of -2^31 + 1": ("8180808008 00", DescribeUserScramCredentialsRequest(users=None)),
    "-1 tagged fields": ("01 ffffffff0f", DescribeUserScramCredentialsRequest(users=())),
    "-2^31 tagged fields": ("01 8080808008", DescribeUserScramCredentialsRequest(users=())),
    "a length of 2^31 - 1, one more of which overflows": ("8080808008 00", None),
    "a name of -1 bytes": ("02 ffffffff0f 00 00", None),
}


@pytest.mark.parametrize(("text", "wanted"), NEGATIVE_TO_KAFKA.values(), ids=NEGATIVE_TO_KAFKA)
def test_varints_beyond_31_bits_are_negative_as_in_kafka(text: str, wanted: Message | None) -> None:
    raw = bytes.fromhex(text)
    assert value_or_error(DescribeUserScramCredentialsRequest, 0, True, raw) == wanted
    interpreted = schema(DescribeUserScramCredentialsRequest, 0, True)
    if wanted is not None:
        assert interpreted.parse(raw) == wanted
    else:
        with pytest.raises(ProtocolError):
            interpreted.parse(raw)
