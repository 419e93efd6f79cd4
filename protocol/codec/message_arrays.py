"""Arrays of messages, which may be given as columns."""

from klamm.protocol.codec.arrays import ArrayOf
from klamm.protocol.codec.structs import MessageStruct
from klamm.protocol.codec.wire_type import Source


class MessageArray(ArrayOf):
    """An array of messages of one class: any sequence of them, or `Columns`, which are encoded at once."""

    element: MessageStruct

    def __init__(self, element: MessageStruct, version: int, *, compact: bool, nullable: bool) -> None:
        super().__init__(element, compact=compact, nullable=nullable)
        self.version = version

    def emit_build_content(self, source: Source, content: str, out: str) -> None:
        kinds = source.imported("klamm.protocol.columns", "COLUMNS")
        encode = source.imported("klamm.protocol.codec.column_arrays", "encode_columns_into")
        arguments = f"{self.element.class_name(source)}, {self.version}, {self.element.flexible}"
        with source.block(f"if {content}.__class__ in {kinds}:"):
            source.line(f"{encode}({out}, {content}, {arguments})")
        with source.block("else:"):
            super().emit_build_content(source, content, out)
