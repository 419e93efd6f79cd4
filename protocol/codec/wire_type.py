"""The base class of Klamm's construct types. Each wire type is implemented twice: interpreted and emitted.

`_parse` and `_build` are interpreted. They are simple, give path and offset in every error, and are the reference.
`emit_parse` and `emit_build` write Python statements for `Construct.compile()`; this emitted code is used normally. It
may fail with any exception (`IndexError`, `struct.error`, ...). Then `messages` runs the interpreted type to explain
the error. Only this module imports construct, which has no type hints.

In emitted parsing code the position never decreases. A slice may extend past the end of the data; then the next read
fails, or the check at the end of the message.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from construct import Construct
from construct.core import CodeGen, Compiled

from klamm.protocol.codec.streams import Buffer, Cursor

__all__ = ["Compiled", "Construct", "Source", "WireType", "join_path"]


class Source:
    """The body of one emitted function, and the module-level names that it uses."""

    def __init__(self, code: CodeGen) -> None:
        self._code = code
        self._lines: list[str] = []
        self._depth = 1
        self._names = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A context manager that writes `head` and indents the lines that are written inside it."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A new local name."""
        self._names += 1
        return f"{stem}{self._names}"

    def imported(self, module: str, name: str) -> str:
        """`name`, which the emitted module imports."""
        self._code.append(f"from {module} import {name}")
        return name

    def defined(self, name: str, expression: str) -> str:
        """`name`, which the emitted module defines once as `expression`."""
        self._code.append(f"{name} = {expression}")
        return name

    def struct_method(self, method: str, codes: str) -> str:
        """A module-level name of the method `pack` or `unpack_from` of the struct with these codes."""
        name = f"{method.partition('_')[0]}_{codes.replace('?', 'o')}"
        return self.defined(name, f"struct.Struct('>{codes}').{method}")

    def text(self) -> str:
        return "\n".join(self._lines)


class WireType(Construct):  # type: ignore[misc]
    """The base class of wire types. Subclasses implement the four methods below."""

    min_width = 0
    """The fewest bytes of a value."""

    def _parse(self, stream: Cursor, _context: Any, path: str) -> Any:
        raise NotImplementedError

    def _build(self, obj: Any, stream: Buffer, _context: Any, path: str) -> None:
        raise NotImplementedError

    def emit_parse(self, source: Source, target: str) -> None:
        """Write lines that take a value from `data` at `pos` and assign it to `target`."""
        raise NotImplementedError

    def emit_build(self, source: Source, value: str, out: str) -> None:
        """Write lines that append the bytes of the expression `value` to the local `out`."""
        raise NotImplementedError

    def parse(self, data: bytes, **_contextkw: Any) -> Any:
        """Decode a value without emitted code. Bytes after it are ignored."""
        return self._parse(Cursor(data), None, "")

    def build(self, obj: Any, **_contextkw: Any) -> bytes:
        """Encode a value without emitted code."""
        stream = Buffer()
        self._build(obj, stream, None, "")
        return bytes(stream)

    def _emitparse(self, code: CodeGen) -> str:
        name = f"parse_{code.allocateId()}"
        source = Source(code)
        _import_support(source)
        self.emit_parse(source, "value")
        code.append(
            f"def {name}(io):\n    data = io.data\n    pos = io.pos\n    size = len(data)\n{source.text()}\n"
            "    if pos > size:\n        raise ProtocolError('message longer than its bytes', offset=size)\n"
            "    io.pos = pos\n    return value"
        )
        return f"{name}(io)"

    def _emitbuild(self, code: CodeGen) -> str:
        name = f"build_{code.allocateId()}"
        source = Source(code)
        _import_support(source)
        self.emit_build(source, "value", "out")
        code.append(f"def {name}(value, out):\n{source.text()}")
        return f"{name}(obj, io)"


def _import_support(source: Source) -> None:
    source.imported("klamm.protocol.errors", "ProtocolError")
    source.defined("new", "object.__new__")


def join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
