"""Lengths, counts and tags at every boundary, from both sides, on every path that reads them.

All paths must accept and refuse the same values as the plain reader: emitted and interpreted code, with strict and
lenient text.
"""

from collections.abc import Callable, Iterator

import pytest

from klamm.protocol import Message, ProtocolError, decode_message, encode_message
from klamm.protocol.codec.arrays import BUILT_AT_ONCE, PARSED_AT_ONCE
from klamm.protocol.codec.messages import LONG_BYTES, decode_message_at, message_decoder
from klamm.protocol.codec.schema import schema
from klamm.protocol.codec.streams import Cursor
from tests.protocol.plain_reader import PlainReader, Refused, spelled
from tests.protocol.probes import (
    ARRAYS,
    HEADED,
    Blob,
    Blobs,
    Inner,
    Messages,
    Struct,
    Tagged,
    Text,
    Texts,
    Untagged,
    variants,
)
from tests.protocol.test_hostile_bytes import says_where

Found = tuple[Message, int] | None
"""The message and where it ends; None if the bytes are refused."""
Path = Callable[[type[Message], int, bool, bytes], tuple[Message, int]]


def interpreted(errors: str) -> Path:
    def decode(message_class: type[Message], version: int, flexible: bool, raw: bytes) -> tuple[Message, int]:
        cursor = Cursor(raw)
        return schema(message_class, version, flexible, errors)._parse(cursor, None, ""), cursor.pos

    return decode


PATHS: dict[str, tuple[Path, str]] = {
    "emitted": (lambda cls, version, flexible, raw: decode_message_at(cls, version, flexible, raw, 0), "strict"),
    "emitted, lenient": (
        lambda cls, version, flexible, raw: decode_message_at(cls, version, flexible, raw, 0, "replace"),
        "replace",
    ),
    "kept function": (lambda cls, version, flexible, raw: message_decoder(cls, version, flexible)(raw, 0), "strict"),
    "interpreted": (interpreted("strict"), "strict"),
    "interpreted, lenient": (interpreted("replace"), "replace"),
}


def outcome(path: Path, message_class: type[Message], version: int, flexible: bool, raw: bytes) -> Found:
    try:
        return path(message_class, version, flexible, raw)
    except ProtocolError as error:
        says_where(error, raw)
        return None


def read_plainly(message_class: type[Message], version: int, flexible: bool, raw: bytes, errors: str) -> Found:
    reader = PlainReader(raw, errors=errors)
    try:
        return reader.message(message_class, version, flexible), reader.at
    except Refused:
        return None


def agree(message_class: type[Message], version: int, flexible: bool, raw: bytes) -> bool:
    """Whether the bytes are taken, which all paths must agree upon; the value and its end must be the same, too."""
    for name, (path, errors) in PATHS.items():
        wanted = read_plainly(message_class, version, flexible, raw, errors)
        assert outcome(path, message_class, version, flexible, raw) == wanted, (name, raw[:40].hex(), len(raw))
    wanted = read_plainly(message_class, version, flexible, raw, "strict")
    if wanted is not None:
        message, end = wanted
        if end == len(raw):
            assert decode_message(message_class, version, flexible, raw) == message
        else:
            with pytest.raises(ProtocolError, match=f"^{len(raw) - end} bytes left over"):
                decode_message(message_class, version, flexible, raw)
        again = encode_message(message, version, flexible)
        assert schema(message_class, version, flexible).build(message) == again
        assert decode_message(message_class, version, flexible, again) == message
        assert len(again) <= end
    return wanted is not None


SIZES = sorted({edge + step for edge in (1, 127, PARSED_AT_ONCE, BUILT_AT_ONCE) for step in (-1, 0, 1)})
"""Counts around those at which a varint grows or a faster way of reading or building ends."""
LONG_SIZES = [16382, 16383, 16384, 32766, 32767, 32768]
"""Lengths around the next growth of a varint, and around the longest string."""
BEYOND = [*(2**bits + step for bits in (21, 28, 31, 32) for step in (-2, -1, 0, 1)), 2**35 - 1, 2**35]
"""Values that may be in place of a size and are larger than any content: from 2^31 on Kafka reads them as negative."""


def heads(size: int, flexible: bool, wide: int) -> Iterator[bytes]:
    """Ways to write a size: varints of one more, padded as well, or a number of so many bytes."""
    if flexible:
        yield spelled(size + 1)
        if size < 4:
            yield from (spelled(size + 1, padding) for padding in range(2, 7))
    elif size < 1 << 8 * wide - 1:
        yield size.to_bytes(wide, "big")


@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize("probe", HEADED, ids=lambda probe: probe.__name__)
def test_content_is_accepted_only_with_all_its_bytes(probe: type[Message], flexible: bool) -> None:
    """Elements of variable size are as short as possible, so the count is the highest that the number of bytes
    allows."""
    taken = refused = 0
    one, end = element_bytes(probe, flexible), b"\0" if flexible else b""
    for size in SIZES + (LONG_SIZES if probe in (Text, Blob) else []):
        for head in heads(size, flexible, 2 if probe is Text else 4):
            raw = head + one * size + end
            for cut in (raw, raw + b"\1", raw[:-1], (head + one * size)[:-1] + end):
                took = agree(probe, size % 2, flexible, cut)
                taken, refused = taken + took, refused + (not took)
    assert min(taken, refused) > 10


def element_bytes(probe: type[Message], flexible: bool) -> bytes:
    """The shortest element of an array, or a byte of a string."""
    if probe in ARRAYS:
        return bytes(ARRAYS[probe])
    if probe is Messages:
        return encode_message(Inner(), 0, flexible)
    if probe in (Texts, Blobs):
        return b"\1" if flexible else bytes(2 if probe is Texts else 4)
    return b"a"


@pytest.mark.parametrize("probe", HEADED, ids=lambda probe: probe.__name__)
def test_a_size_beyond_the_data_is_refused_and_a_negative_one_is_null(probe: type[Message]) -> None:
    nulls = 0
    for message_class, version, flexible in variants([probe]):
        if flexible:
            written = [spelled(size, padding) for size in (0, *BEYOND) for padding in (0, 2, 5, 6)]
        else:
            wide = 2 if probe is Text else 4
            edges = (-1, -2, -(1 << 8 * wide - 1), (1 << 8 * wide - 1) - 1, 1 << 8 * wide - 2)
            written = [edge.to_bytes(wide, "big", signed=True) for edge in edges]
        for head in written:
            for behind in (b"", b"\0", bytes(LONG_BYTES)):
                nulls += agree(message_class, version, flexible, head + behind)
    assert nulls > 10


TAGS = [0, 1, 126, 127, 128, 129, 299, 300, 301, 16383, 16384, *BEYOND]
CONTENTS = {0: b"\x07", 127: b"\x03ab", 128: b"\x02\0\0\0\x09", 300: b"\x01\x02a\0"}
"""The values of the tags that `Tagged` knows."""


def sections() -> Iterator[bytes]:
    """Tag sections: counts, tags and sizes around their boundaries, each also in more bytes than needed."""
    for count in (0, 1, 2, *BEYOND):
        for padding in range(7):
            yield spelled(count, padding)
            yield spelled(count, padding) + b"\x05\x01?"
    for tag in TAGS:
        content = CONTENTS.get(tag, b"?" * 3)
        for size in (len(content), len(content) - 1, len(content) + 1, 0, *BEYOND[::5]):
            yield b"\x01" + spelled(tag) + spelled(size) + content
        for padding in (2, 3, 5, 6):
            yield b"\x01" + spelled(tag, padding) + spelled(len(content)) + content
            yield b"\x01" + spelled(tag) + spelled(len(content), padding) + content
    for size in (126, 127, 128, 129, 16383, 16384):
        for tag in (5, 127, 128):
            for there in (size - 1, size, size + 1):
                yield b"\x01" + spelled(tag) + spelled(size) + (spelled(there - 1) + b"a" * there)[:there]
    known = [spelled(tag) + spelled(len(content)) + content for tag, content in CONTENTS.items()]
    other = b"\x82\x01\x02??"
    yield from (b"\x05" + b"".join(order) for order in ([*known, other], [other, *known[::-1]]))
    yield b"\x02" + known[1] + b"\x7f\x02\x02x"  # the same tag twice: the last counts
    yield b"\x02" + b"\x05\x01a" + b"\x05\x01b"
    yield spelled(128) + b"".join(spelled(tag + 1000) + b"\x01?" for tag in range(128))


@pytest.mark.parametrize(("probe", "version"), [(Tagged, 0), (Tagged, 1), (Untagged, 0)])
def test_tag_sections_are_read_alike_with_and_without_declared_tags(probe: type[Message], version: int) -> None:
    every = [agree(probe, version, True, section + end) for section in sections() for end in (b"", b"\0")]
    assert min(every.count(True), every.count(False)) > 100


@pytest.mark.parametrize("flexible", [False, True])
def test_a_struct_is_null_if_and_only_if_its_byte_is_negative(flexible: bool) -> None:
    inner = encode_message(Inner(number=3, text="ab"), 0, flexible)
    end = b"\x01\x02" + (b"\0" if flexible else b"")
    for byte in (0, 1, 2, 127, 128, 254, 255):
        for content in (b"", inner, inner[:-1]):
            agree(Struct, 1, flexible, b"\x09" + bytes((byte,)) + content + end)
    assert decode_message(Struct, 1, flexible, b"\x09\x80" + end) == Struct(before=9, value=None, after=258)


@pytest.mark.parametrize(("errors", "wanted"), [("strict", None), ("replace", "a\ufffdb")])
def test_malformed_text_is_refused_or_replaced_as_requested(errors: str, wanted: str | None) -> None:
    for flexible in (False, True):
        raw = (b"\x04" if flexible else b"\0\3") + b"a\xffb" + b"\0" * flexible
        assert agree(Text, 0, flexible, raw) is False
        for path, how in PATHS.values():
            found = outcome(path, Text, 0, flexible, raw)
            if how == errors:
                assert found == (None if wanted is None else (Text(value=wanted), len(raw)))
