#!/usr/bin/env python3
"""Writes protocol/messages/, protocol/records/, protocol/error_codes.py and protocol/release_apis.py from spec/.

    python tools/generate_messages.py           writes the modules
    python tools/generate_messages.py --check   exits 1 if a module differs from what would be written

The modules are committed: readers, type checkers and import see plain declarations; CI runs --check for drift.
"""

import csv
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.message_files import COORDINATOR_FILES, FAMILIES, RECORD_FILES  # noqa: E402
from tools.old_versions import joined, release_apis  # noqa: E402

PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "uuid": "Uuid",
    "records": "bytes",
}
RECORD_TITLES = {
    "cluster": "Metadata records about the cluster",
    "control": "Control records of the raft log",
    "data": "Versioned blobs that travel inside other messages",
}
ORIGIN = "Written by tools/generate_messages.py from spec/.\n"
LINE_LENGTH = 120
Row = dict[str, str]


def load(name: str) -> list[Row]:
    with (ROOT / "spec" / name).open(newline="") as table:
        return list(csv.DictReader(table, delimiter="\t"))


def bounds(text: str) -> tuple[int, int] | None:
    if text in ("", "none"):
        return None
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def snake(name: str) -> str:
    """`timeoutMs` -> `timeout_ms`; a leading single letter stays with its word (`kRaftVersion` -> `kraft_version`)."""
    name = re.sub(r"^k(?=Raft)", "k", name).replace("kRaft", "kraft").replace("KRaft", "Kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


class Declarations:
    """The message classes of one module, inner structs first."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self.uses_uuid = self.uses_sequence = False

    def add(self, rows: list[Row], class_name: str, prefix: str, valid: tuple[int, int]) -> str:
        depth = int(rows[0]["depth"]) if rows and rows[0]["path"] else 0
        lines = [f"@message\nclass {class_name}(Message):"]
        for index, row in enumerate(rows):
            if not row["path"] or int(row["depth"]) != depth:
                continue
            inner = []
            for following in rows[index + 1 :]:
                if int(following["depth"]) <= depth:
                    break
                inner.append(following)
            versions = bounds(row["versions"])
            if versions is None:
                continue
            lines.append(self.declare(row, inner, versions, prefix, valid))
        if len(lines) == 1:
            lines.append("    pass")
        source = "\n".join(lines)
        if self.sources.get(class_name, source) != source:
            # Two structs of one name with different fields: the later one gets its message's name as prefix.
            if class_name.startswith(prefix):
                raise SystemExit(f"{class_name} declared twice, differently")
            return self.add(rows, prefix + class_name, prefix, valid)
        self.sources[class_name] = source
        return class_name

    def declare(
        self, row: Row, inner: list[Row], versions: tuple[int, int], prefix: str, valid: tuple[int, int]
    ) -> str:
        name, wire = snake(row["json"]), row["type"].removeprefix("[]")
        array = row["type"].startswith("[]")
        if inner or wire[0].isupper():
            wire = annotation = self.add(inner, wire, prefix, valid)
        else:
            annotation = PYTHON_TYPES.get(wire, "int")
            self.uses_uuid |= wire == "uuid"
            wire = f'"{wire}"'
        if array:
            self.uses_sequence = True
            annotation, wire = f"Sequence[{annotation}]", f"[{wire}]"
        if bounds(row["nullable"]):
            annotation += " | None"
        words = [wire, f"default={self.default(row, array, wire)}", *qualifiers(row, versions, valid)]
        if camel(name) != row["json"]:
            words.append(f'json_name="{row["json"]}"')
        return call(f"    {name}: {annotation} = field", words)

    def default(self, row: Row, array: bool, wire: str) -> str:
        text = row["default"]
        if text == "null":
            return "None"
        if array:
            return "()"
        if text == "{}":
            return wire
        kind = row["type"]
        if kind == "uuid":
            self.uses_uuid = True
            return "ZERO_UUID"
        if kind == "string":
            return f'"{text}"'
        if kind in ("bytes", "records"):
            return 'b""'
        return {"true": "True", "false": "False"}.get(text, text)

    def header(self, docstring: str, api_import: str) -> str:
        imports = []
        if self.uses_sequence:
            imports.append("from collections.abc import Sequence\n")
        imports.append(f"from klamm.protocol.api import {api_import}")
        imports.append("from klamm.protocol.fields import Message, field, message")
        if self.uses_uuid:
            names = [name for name in ("ZERO_UUID", "Uuid") if re.search(rf"\b{name}\b", self.text())]
            imports.append(f"from klamm.protocol.uuid import {', '.join(names)}")
        return f'"""{docstring}"""\n\n' + "\n".join(imports) + "\n\n\n"

    def text(self) -> str:
        return "\n\n\n".join(self.sources.values()) + "\n\n\n"


def qualifiers(row: Row, versions: tuple[int, int], valid: tuple[int, int]) -> list[str]:
    """The further arguments of `field`, where they differ from its defaults."""
    words = []
    if versions[0] > valid[0]:
        words.append(f"since={versions[0]}")
    if versions[1] < valid[1]:
        words.append(f"until={versions[1]}")
    if nullable := bounds(row["nullable"]):
        words.append(f"nullable_since={nullable[0]}")
    if row["tag"]:
        words.append(f"tag={row['tag']}")
    if row["ignorable"] == "1":
        words.append("ignorable=True")
    if row["flex_override"] == "none":
        words.append("never_flexible=True")
    return words


def call(head: str, arguments: list[str], *, exploded: bool = False) -> str:
    """`head(arguments)` in the layout of the formatter: on one line, otherwise the arguments on one line, otherwise one
    per line."""
    indent = " " * (len(head) - len(head.lstrip()))
    joined = ", ".join(arguments)
    if not exploded and len(f"{head}({joined})") <= LINE_LENGTH:
        return f"{head}({joined})"
    if not exploded and len(f"{indent}    {joined}") <= LINE_LENGTH:
        return f"{head}(\n{indent}    {joined}\n{indent})"
    lines = "".join(f"{indent}    {argument},\n" for argument in arguments)
    return f"{head}(\n{lines}{indent})"


def flexible_since(row: Row) -> int | None:
    flexible = bounds(row["flexible"])
    return flexible[0] if flexible else None


def span_text(text: str) -> str:
    first, last = bounds(text) or (0, -1)
    return f"span({first}, {last})"


def versions_text(text: str) -> str:
    first, last = bounds(text) or (0, -1)
    return f"version {first}" if first == last else f"versions {first} to {last}"


def flexible_text(since: int | None) -> str:
    return "never flexible" if since is None else f"flexible from {since}"


def constant_name(record: str) -> str:
    return re.sub(r"_(record|message)$", "", snake(record)).upper()


def record_type(head: Row, name: str) -> str:
    arguments = [
        f"id={head['key'] or -1}",
        f'name="{name}"',
        f"versions={span_text(head['valid'])}",
        f"flexible_since={flexible_since(head)}",
        f"message={name}",
    ]
    return call(f"{constant_name(name)} = RecordType", arguments, exploded=True) + "\n"


def api_module(name: str, by_message: dict[str, list[Row]], apis: dict[str, Row], kept_since: dict[str, int]) -> str:
    request, response = by_message[f"{name}Request"], by_message[f"{name}Response"]
    head = request[0]
    valid = bounds(head["valid"]) or (0, 0)
    declarations = Declarations()
    declarations.add(request, f"{name}Request", f"{name}Request", valid)
    declarations.add(response, f"{name}Response", f"{name}Response", valid)
    since = flexible_since(head)
    listeners = ", ".join(f'"{listener}"' for listener in head["listeners"].split(","))
    stable = (apis[name]["latest_stable"] if name in apis else "") or str(valid[1])
    kept = kept_since.get(f"{name}Request", 0)
    ours = "" if name in apis else " Ours, after KIP-179: Apache Kafka never gave it a key."
    removed = f"\n\nApache Kafka 4.0 removed {versions_text(f'{valid[0]}-{kept - 1}')} (KIP-896)." if kept else ""
    title = f"{name}: API key {head['key']}, {versions_text(head['valid'])}, {flexible_text(since)}.{ours}{removed}"
    arguments = [
        f"key={head['key']}",
        f'name="{name}"',
        f"versions={span_text(head['valid'])}",
        f"flexible_since={since}",
        f"listeners=frozenset({{{listeners}}})",
        f"latest_stable={stable}",
        *([f"removed_before={kept}"] if kept else []),
        f"request={name}Request",
        f"response={name}Response",
    ]
    tail = call("API = Api", arguments, exploded=True) + "\n"
    return declarations.header(f"{title}\n\n{ORIGIN}", "Api, span") + declarations.text() + tail


def record_module(title: str, names: list[str], by_message: dict[str, list[Row]]) -> str:
    declarations, tails = Declarations(), []
    for name in names:
        rows = by_message[name]
        declarations.add(rows, name, name, bounds(rows[0]["valid"]) or (0, 0))
        tails.append(record_type(rows[0], name))
    header = declarations.header(f"{title}.\n\n{ORIGIN}", "RecordType, span")
    return header + declarations.text() + "\n".join(tails)


def record_index(by_message: dict[str, list[Row]]) -> str:
    tables: dict[str, list[tuple[int, str]]] = {"record": [], "control": []}
    for file, names in RECORD_FILES.items():
        for name in names.split():
            head = by_message[name][0]
            if head["kind"] in tables:
                key = int(head["key"])
                entry = f'    {key}: ("klamm.protocol.records.{file}", "{constant_name(name)}"),\n'
                tables[head["kind"]].append((key, entry))
    entries = {kind: "".join(line for _, line in sorted(table)) for kind, table in tables.items()}
    title = "Where each metadata and control record is declared, by id; modules are imported when asked for."
    return (
        f'"""{title}\n\n{ORIGIN}"""\n\n'
        f"METADATA: dict[int, tuple[str, str]] = {{\n{entries['record']}}}\n\n"
        f"CONTROL: dict[int, tuple[str, str]] = {{\n{entries['control']}}}\n"
    )


def coordinator_records(by_message: dict[str, list[Row]]) -> dict[tuple[str, str], dict[int, str]]:
    """The names of the coordinator records by topic and module, and by number."""
    found: dict[tuple[str, str], dict[int, str]] = {place: {} for place in COORDINATOR_FILES.values()}
    for message, rows in by_message.items():
        if rows[0]["kind"] == "coordinator-key":
            place = next(at for prefix, at in COORDINATOR_FILES.items() if message.startswith(prefix))
            found[place][int(rows[0]["key"])] = message.removesuffix("Key")
    return found


def coordinator_index(by_message: dict[str, list[Row]]) -> str:
    tables: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for (topic, file), records in coordinator_records(by_message).items():
        module = f"klamm.protocol.records.coordinator.{file}"
        for number, name in records.items():
            tables[topic].append((number, f'        {number}: ("{module}", "{constant_name(name)}"),\n'))
    entries = "".join(
        f'    "{topic}": {{\n{"".join(line for _, line in sorted(lines))}    }},\n' for topic, lines in tables.items()
    )
    title = "Where each coordinator record is declared, by internal topic and number; imported when asked for."
    names = "Each entry has the module and the first part of the names of two constants, `…_KEY` and `…_VALUE`."
    table = f"COORDINATOR: dict[str, dict[int, tuple[str, str]]] = {{\n{entries}}}\n"
    return f'"""{title}\n\n{names}\n\n{ORIGIN}"""\n\n{table}'


def api_index(by_message: dict[str, list[Row]]) -> str:
    entries = []
    for family, names in FAMILIES.items():
        for name in names.split():
            key = int(by_message[f"{name}Request"][0]["key"])
            entries.append((key, f'    {key}: "klamm.protocol.messages.{family}.{snake(name)}",\n'))
    lines = "".join(line for _, line in sorted(entries))
    title = "Where each API is declared, by key; modules are imported when asked for."
    return f'"""{title}\n\n{ORIGIN}"""\n\nMODULES: dict[int, str] = {{\n{lines}}}\n'


def error_codes() -> str:
    rows = load("errors.tsv")
    members = "".join(f"    {row['name']} = {row['code']}\n" for row in rows)
    retriable = "".join(f"        ErrorCode.{row['name']},\n" for row in rows if row["retriable"] == "1")
    return (
        f'"""Kafka\'s error codes.\n\n{ORIGIN}"""\n\nfrom enum import IntEnum\n\n\nclass ErrorCode(IntEnum):\n'
        '    """The code in responses. `retriable` is whether a retry may succeed."""\n\n'
        f"{members}\n    @property\n    def retriable(self) -> bool:\n        return self in _RETRIABLE\n\n\n"
        f"_RETRIABLE = frozenset(\n    {{\n{retriable}    }}\n)\n"
    )


def check_families(by_message: dict[str, list[Row]]) -> None:
    requests = {name for name in by_message if name.endswith("Request") and by_message[name][0]["valid"] != "none"}
    listed = {f"{name}Request" for names in FAMILIES.values() for name in names.split()}
    if requests != listed:
        raise SystemExit(f"families and spec differ: {sorted(requests ^ listed)}")


def modules() -> dict[str, str]:
    """The source of every generated module, by path."""
    by_message: dict[str, list[Row]] = defaultdict(list)
    rows, kept_since = joined(load("messages.tsv"), load("old-messages.tsv"))
    for row in rows + load("extensions.tsv") + load("coordinator-records.tsv"):
        by_message[row["message"]].append(row)
    check_families(by_message)
    apis = {row["name"]: row for row in load("apis.tsv")}
    written: dict[str, str] = {}
    for family, names in FAMILIES.items():
        written[f"protocol/messages/{family}/__init__.py"] = ""
        for name in names.split():
            written[f"protocol/messages/{family}/{snake(name)}.py"] = api_module(name, by_message, apis, kept_since)
    for file, names in RECORD_FILES.items():
        title = RECORD_TITLES.get(file, f"Metadata records about {file}")
        written[f"protocol/records/{file}.py"] = record_module(title, names.split(), by_message)
    written["protocol/records/coordinator/__init__.py"] = ""
    for (_, file), records in coordinator_records(by_message).items():
        title = f"Coordinator records: {file.replace('_', ' ')}"
        messages = [f"{name}{part}" for _, name in sorted(records.items()) for part in ("Key", "Value")]
        written[f"protocol/records/coordinator/{file}.py"] = record_module(title, messages, by_message)
    written["protocol/records/coordinator/index.py"] = coordinator_index(by_message)
    headers = ["RequestHeader", "ResponseHeader"]
    title = "The headers in front of every request and response"
    written["protocol/messages/headers.py"] = record_module(title, headers, by_message)
    written["protocol/messages/index.py"] = api_index(by_message)
    written["protocol/records/index.py"] = record_index(by_message)
    written["protocol/error_codes.py"] = error_codes()
    written["protocol/release_apis.py"] = release_apis(load("releases.tsv"), ORIGIN)
    return written


def main() -> int:
    drift = []
    for path, source in modules().items():
        target = ROOT / path
        if "--check" in sys.argv:
            if not target.exists() or target.read_text() != source:
                drift.append(path)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(source)
    if drift:
        print("differs from spec/: " + ", ".join(drift), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
