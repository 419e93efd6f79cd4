"""Generated faults: the slips that a syntax tree allows.

Each rule takes one node and yields faulty replacements for it. The kinds are those that survived in reviews: a boundary
moved by one, a clause of a condition dropped, one side of min and max, a forgotten statement, keyword argument or dict
entry, a filter or a mask left out. Annotations, docstrings and code for type checkers are left alone.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tools.mutation.faults import ROOT, Fault

OperatorSwaps = dict[type[ast.AST], type[ast.AST]]

_COMPARED: Final[OperatorSwaps] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED: Final[OperatorSwaps] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult}
_ONE_OF_TWO: Final = frozenset({"min", "max", "minimum", "maximum"})
_OTHER_NAME: Final = {
    "any": "all",
    "all": "any",
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
}
_MEANT_AS_CHECKS: Final = frozenset({"dtype", "strict"})
"""Keyword arguments that assert something that is true anyway: nothing changes without them."""
_SHOWN: Final = 70
"""Characters of old and new text in the name of a fault."""


def generate_faults(path: Path, root: Path = ROOT) -> list[Fault]:
    """Every fault that the rules make of one module, in the order of its lines."""
    source = path.read_text(encoding="utf-8")
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    faults = []
    for node in _nodes(ast.parse(source)):
        end_line, end_column = node.end_lineno, node.end_col_offset
        if end_line is None or end_column is None:
            raise AssertionError(f"{path}:{node.lineno} has no end")
        start, end = starts[node.lineno - 1] + node.col_offset, starts[end_line - 1] + end_column
        file = path.relative_to(root).as_posix()
        faults += [_fault(file, source.encode(), start, end, new) for new in _alternatives(node)]
    return sorted(faults, key=lambda fault: fault.line)


def _fault(file: str, source: bytes, start: int, end: int, new: ast.AST) -> Fault:
    text = ast.unparse(new)
    # The brackets keep the meaning of an expression in any context.
    planted = f"({text})" if isinstance(new, ast.expr) and not isinstance(new, ast.Starred) else text
    old = " ".join(source[start:end].decode().split())
    name = f"{_shown(old, text)}  =>  {_shown(text, old)}"
    return Fault(
        name=name,
        file=file,
        line=source.count(b"\n", 0, start) + 1,
        last_line=source.count(b"\n", 0, end) + 1,
        text=(source[:start] + planted.encode() + source[end:]).decode(),
    )


def _shown(text: str, beside: str) -> str:
    """The text; of a long one the part around the first difference."""
    text = " ".join(text.split())
    if len(text) <= _SHOWN:
        return text
    same = next((at for at, (one, other) in enumerate(zip(text, beside, strict=False)) if one != other), 0)
    first = max(0, min(same - _SHOWN // 3, len(text) - _SHOWN))
    return ("…" if first else "") + text[first : first + _SHOWN] + ("…" if first + _SHOWN < len(text) else "")


def _nodes(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """All nodes that may be faulty: no annotations, docstrings, imports, f-strings, or code for type checkers. A
    compound statement is only replaced by `pass`, because a replacement is written on one line."""
    for name, child in ast.iter_fields(tree):
        if name in {"annotation", "returns", "decorator_list", "bases", "type_comment"}:
            continue
        for node in child if isinstance(child, list) else [child]:
            if not isinstance(node, ast.AST) or _is_left_alone(node):
                continue
            if isinstance(node, ast.expr | ast.stmt):
                yield node
            yield from _nodes(node)


def _is_left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.keyword) and node.arg in _MEANT_AS_CHECKS:
        return True
    return isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Assert | ast.Raise)


def _alternatives(node: ast.expr | ast.stmt) -> Iterator[ast.AST]:
    for rule in _RULES:
        yield from rule(node)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    """A copy of the node with other fields."""
    made = copy.copy(node)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _compared(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            yield _with(node, ops=[*node.ops[:place], _COMPARED[type(operator)](), *node.ops[place + 1 :]])
        if len(node.ops) > 1:  # a <= b < c: only one bound
            yield _with(node, ops=node.ops[:-1], comparators=node.comparators[:-1])
            yield ast.Compare(node.comparators[0], node.ops[1:], node.comparators[1:])


def _clauses(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.BoolOp):
        for place in range(len(node.values)):
            left = node.values[:place] + node.values[place + 1 :]
            yield left[0] if len(left) == 1 else _with(node, values=left)
    if isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        yield node.operand
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        yield node.left
        yield node.right


def _computed(node: ast.AST) -> Iterator[ast.AST]:
    if (
        isinstance(node, ast.BinOp)
        and type(node.op) in _COMPUTED
        and not _is_text(node.left)
        and not _is_text(node.right)
    ):
        yield _with(node, op=_COMPUTED[type(node.op)]())
        if isinstance(node.right, ast.Constant):
            yield node.left
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value not in {0, 1}:
        yield ast.Constant(node.value + 1)
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield ast.Constant(not node.value)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr | ast.Tuple | ast.List) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _branches(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    if isinstance(node, ast.If) and not node.orelse:
        yield ast.Pass()
    if isinstance(node, ast.Continue | ast.Break):
        yield ast.Pass()


def _forgotten(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.AugAssign | ast.Delete) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)
    ):
        yield ast.Pass()
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript):
        yield ast.Pass()
    if isinstance(node, ast.Dict):
        for place in range(len(node.keys)):
            keys, values = node.keys[:place] + node.keys[place + 1 :], node.values[:place] + node.values[place + 1 :]
            yield _with(node, keys=keys, values=values)


def _called(node: ast.AST) -> Iterator[ast.AST]:
    if not isinstance(node, ast.Call):
        return
    for place, keyword in enumerate(node.keywords):
        if keyword.arg not in _MEANT_AS_CHECKS:
            yield _with(node, keywords=node.keywords[:place] + node.keywords[place + 1 :])
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name in _ONE_OF_TWO and len(node.args) > 1:
        yield from (one for one in node.args if not isinstance(one, ast.Starred))
    if name in _OTHER_NAME:
        yield _with(
            node, func=_with(node.func, **{"id" if isinstance(node.func, ast.Name) else "attr": _OTHER_NAME[name]})
        )
    if name == "sorted" and not node.keywords:
        yield _with(node, func=ast.Name("list"))


def _chosen(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        for place, part in enumerate(node.generators):
            if part.ifs:
                whole = _with(part, ifs=[])
                yield _with(node, generators=[*node.generators[:place], whole, *node.generators[place + 1 :]])
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and isinstance(node.ctx, ast.Load):
        for bound in ("lower", "upper"):
            if getattr(node.slice, bound) is not None:
                yield _with(node, slice=_with(node.slice, **{bound: None}))


_RULES: Final[tuple[Callable[[ast.AST], Iterator[ast.AST]], ...]] = (
    _compared,
    _clauses,
    _computed,
    _branches,
    _forgotten,
    _called,
    _chosen,
)
