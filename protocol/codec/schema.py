"""Makes the construct of a declaration in one version, once, at its first use."""

from klamm.protocol.codec.arrays import ArrayOf, FixedArray
from klamm.protocol.codec.message_arrays import MessageArray
from klamm.protocol.codec.primitives import Blob, FixedType, Number, Text, UuidType
from klamm.protocol.codec.structs import Member, MessageStruct, NullableStruct
from klamm.protocol.codec.wire_type import Compiled, WireType
from klamm.protocol.fields import Array, Message, Primitive, WireField, cached, wire_fields
from klamm.quick_dataclasses import dataclass


def schema(message_class: type[Message], version: int, flexible: bool, text_errors: str = "strict") -> MessageStruct:
    """The construct of one message class in one version. With `text_errors` "replace", invalid UTF-8 becomes U+FFFD."""
    return _struct(message_class, _Variant(version, flexible, text_errors))


def compiled_schema(
    message_class: type[Message], version: int, flexible: bool, text_errors: str = "strict"
) -> Compiled:
    """The compiled construct (`Construct.compile()`), which encodes and decodes."""
    return _compiled(schema(message_class, version, flexible, text_errors))


@cached
def _compiled(declared: MessageStruct) -> Compiled:
    return declared.compile()


@cached
def _struct(message_class: type[Message], variant: "_Variant") -> MessageStruct:
    wires = wire_fields(message_class)
    members = [Member(wire, variant.field_type(wire)) for wire in wires if wire.in_version(variant.version)]
    absent = [wire for wire in wires if not wire.in_version(variant.version)]
    return MessageStruct(message_class, members, absent, flexible=variant.flexible)


@dataclass(frozen=True, slots=True)
class _Variant:
    """The properties that all fields of one schema share."""

    version: int
    flexible: bool
    text_errors: str

    def field_type(self, wire: WireField) -> WireType:
        compact = self.flexible and not wire.never_flexible
        nullable = wire.nullable_in(self.version)
        if isinstance(wire.type, Array):
            return self._array(wire.type, compact=compact, nullable=nullable)
        if isinstance(wire.type, type):
            struct_type = _struct(wire.type, self)
            return NullableStruct(struct_type, tagged=wire.tag is not None) if nullable else struct_type
        return self._primitive(wire.type, compact=compact, nullable=nullable)

    def _array(self, array: Array, *, compact: bool, nullable: bool) -> WireType:
        if isinstance(array.of, type):
            return MessageArray(_struct(array.of, self), self.version, compact=compact, nullable=nullable)
        element = self._primitive(array.of, compact=compact, nullable=False)
        if isinstance(element, FixedType):
            return FixedArray(element, compact=compact, nullable=nullable)
        return ArrayOf(element, compact=compact, nullable=nullable)

    def _primitive(self, kind: Primitive, *, compact: bool, nullable: bool) -> WireType:
        if kind == "string":
            return Text(compact=compact, nullable=nullable, errors=self.text_errors)
        if kind in ("bytes", "records"):
            return Blob(compact=compact, nullable=nullable)
        return UuidType() if kind == "uuid" else Number(kind)
