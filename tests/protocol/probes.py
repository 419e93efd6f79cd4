"""Small declared messages with one field each, to test the codec for each kind of field separately.

In version 0 the value must not be null, in version 1 it may be. Emitted code imports message classes by name, so these
classes need a module.
"""

from collections.abc import Iterator, Sequence

from klamm.protocol import Message
from klamm.protocol.fields import field, message


@message
class Text(Message):
    value: str | None = field("string", default="", nullable_since=1)


@message
class Blob(Message):
    value: bytes | None = field("bytes", default=b"", nullable_since=1)


@message
class Bools(Message):
    value: Sequence[bool] | None = field(["bool"], default=(), nullable_since=1)


@message
class Int8s(Message):
    value: Sequence[int] | None = field(["int8"], default=(), nullable_since=1)


@message
class Int16s(Message):
    value: Sequence[int] | None = field(["int16"], default=(), nullable_since=1)


@message
class Uint16s(Message):
    value: Sequence[int] | None = field(["uint16"], default=(), nullable_since=1)


@message
class Int32s(Message):
    value: Sequence[int] | None = field(["int32"], default=(), nullable_since=1)


@message
class Uint32s(Message):
    value: Sequence[int] | None = field(["uint32"], default=(), nullable_since=1)


@message
class Int64s(Message):
    value: Sequence[int] | None = field(["int64"], default=(), nullable_since=1)


@message
class Float64s(Message):
    value: Sequence[float] | None = field(["float64"], default=(), nullable_since=1)


@message
class Uuids(Message):
    value: Sequence[bytes] | None = field(["uuid"], default=(), nullable_since=1)


@message
class Texts(Message):
    value: Sequence[str] | None = field(["string"], default=(), nullable_since=1)


@message
class Blobs(Message):
    value: Sequence[bytes] | None = field(["bytes"], default=(), nullable_since=1)


@message
class Numbers(Message):
    """A number of each kind, in one run."""

    int8: int = field("int8", default=0)
    int16: int = field("int16", default=0)
    uint16: int = field("uint16", default=0)
    int32: int = field("int32", default=0)
    uint32: int = field("uint32", default=0)
    int64: int = field("int64", default=0)
    bool: bool = field("bool", default=False)


@message
class Inner(Message):
    number: int = field("int8", default=0)
    text: str = field("string", default="")


@message
class Messages(Message):
    value: Sequence[Inner] | None = field([Inner], default=(), nullable_since=1)


@message
class Struct(Message):
    """Both fields around the struct are there so that it stands in the middle of a run."""

    before: int = field("int8", default=0)
    value: Inner | None = field(Inner, default=Inner, nullable_since=1)
    after: int = field("int16", default=0)


@message
class Tagged(Message):
    """Tags on both sides of those that take one byte; version 1 may have nulls."""

    number: int = field("int8", default=5, tag=0)
    text: str | None = field("string", default="", tag=127, nullable_since=1)
    numbers: Sequence[int] | None = field(["int32"], default=(), tag=128, nullable_since=1)
    inner: Inner = field(Inner, default=Inner, tag=300)


@message
class Untagged(Message):
    """No field at all: all tags are unknown."""


ARRAYS: dict[type[Message], int] = {
    Bools: 1,
    Int8s: 1,
    Int16s: 2,
    Uint16s: 2,
    Int32s: 4,
    Uint32s: 4,
    Int64s: 8,
    Float64s: 8,
    Uuids: 16,
}
"""Arrays of fixed elements, and how many bytes an element takes."""
RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
"""The least and the greatest number of each kind."""
HEADED: tuple[type[Message], ...] = (Text, Blob, *ARRAYS, Texts, Blobs, Messages)
"""Messages that are one length or count, and its content."""


def variants(classes: Sequence[type[Message]]) -> Iterator[tuple[type[Message], int, bool]]:
    """These classes with and without null, compact and not."""
    return ((probe, version, flexible) for probe in classes for version in (0, 1) for flexible in (False, True))
