"""A declaration and a version become a construct, once each; nothing is built before its first use."""

from protocol.codec.arrays import ArrayOf, FixedArray
from protocol.codec.message_arrays import MessageArray
from protocol.codec.primitives import NUMBER_CODES, Blob, FixedType, Number, Text, UuidType
from protocol.codec.structs import Member, MessageStruct, NullableStruct
from protocol.codec.wire_type import Compiled, WireType
from protocol.fields import Array, Message, WireField, cached, wire_fields
from protocol.fields import WireType as DeclaredType


@cached
def schema(message_class: type[Message], version: int, flexible: bool) -> MessageStruct:
    """The construct of one message class in one version."""
    present = [wire for wire in wire_fields(message_class) if wire.in_version(version)]
    absent = [wire for wire in wire_fields(message_class) if not wire.in_version(version)]
    members = [Member(wire, _field_type(wire, version, flexible)) for wire in present]
    return MessageStruct(message_class, members, absent, flexible=flexible)


@cached
def compiled_schema(message_class: type[Message], version: int, flexible: bool) -> Compiled:
    """What `Construct.compile()` makes of it: this is what runs."""
    return schema(message_class, version, flexible).compile()


def _field_type(wire: WireField, version: int, flexible: bool) -> WireType:
    compact = flexible and not wire.never_flexible
    nullable = wire.nullable_in(version)
    if isinstance(wire.type, Array):
        return _array_type(wire.type, version, flexible, compact=compact, nullable=nullable)
    if isinstance(wire.type, type):
        struct_type = schema(wire.type, version, flexible)
        return NullableStruct(struct_type) if nullable else struct_type
    return _primitive_type(wire.type, compact=compact, nullable=nullable)


def _array_type(array: Array, version: int, flexible: bool, *, compact: bool, nullable: bool) -> WireType:
    if isinstance(array.of, type):
        return MessageArray(schema(array.of, version, flexible), version, compact=compact, nullable=nullable)
    element = _primitive_type(array.of, compact=compact, nullable=False)
    if isinstance(element, FixedType):
        return FixedArray(element, compact=compact, nullable=nullable)
    return ArrayOf(element, compact=compact, nullable=nullable)


def _primitive_type(kind: DeclaredType, *, compact: bool, nullable: bool) -> WireType:
    if kind == "string":
        return Text(compact=compact, nullable=nullable)
    if kind in ("bytes", "records"):
        return Blob(compact=compact, nullable=nullable)
    if kind == "uuid":
        return UuidType()
    assert kind in NUMBER_CODES
    return Number(str(kind))
