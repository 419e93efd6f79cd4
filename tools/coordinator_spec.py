#!/usr/bin/env python3
"""Writes spec/coordinator-records.tsv from the message schemas inside Kafka's coordinator jars.

    python tools/coordinator_spec.py JAR...      the jars kafka-group-coordinator, kafka-transaction-coordinator and
                                                 kafka-share-coordinator of one release

The columns are those of spec/messages.tsv. `kind` is `coordinator-key` or `coordinator-value`, and `key` is the number
that both have in the schemas: the first two bytes of a record's key.
"""

import csv
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "spec" / "coordinator-records.tsv"
Schema = dict[str, Any]


def schemas(jars: list[str]) -> Iterator[Schema]:
    """The schemas of coordinator records in these jars, by name."""
    found = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"common/message/\w+\.json", name):
                    lines = archive.read(name).decode().splitlines()
                    schema = json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))
                    if schema["type"].startswith("coordinator-"):
                        found[schema["name"]] = schema
    for name in sorted(found):
        yield found[name]


def closed(versions: str | None, last: int) -> str:
    """`0+` as `0-4` where 4 is the last version; `none` where there are none."""
    if versions in (None, "none"):
        return "none"
    first, dash, end = versions.replace("+", f"-{last}").partition("-")
    return first if not dash or first == end else f"{first}-{end}"


def default_of(field: Schema, is_struct: bool) -> str:
    value = field.get("default")
    if value is not None:  # Kafka's generator takes a JSON null for a missing default; the text "null" means null
        return str(value).lower() if isinstance(value, bool) else str(value)
    kind = field["type"]
    if kind.startswith("[]"):
        return "[]"
    if is_struct:
        return "{}"
    return {"string": "", "bytes": "", "uuid": "A" * 22, "bool": "false"}.get(kind, "0")


def rows_of(schema: Schema) -> Iterator[list[Any]]:
    last = int(re.split("[-+]", schema["validVersions"])[-1])
    common = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}
    head = [
        schema["name"],
        schema["type"],
        schema["apiKey"],
        closed(schema["validVersions"], last),
        closed(schema["flexibleVersions"], last),
    ]

    def walk(fields: list[Schema], depth: int, prefix: str) -> Iterator[list[Any]]:
        for field in fields:
            bare = field["type"].removeprefix("[]")
            inner = field.get("fields") or common.get(bare, ())
            path = prefix + field["name"]
            tagged = field.get("taggedVersions")
            yield [
                depth,
                path,
                field["name"][0].lower() + field["name"][1:],
                field["type"],
                closed(field.get("versions", tagged), last),
                closed(field.get("nullableVersions"), last),
                closed(tagged, last),
                field.get("tag", ""),
                default_of(field, bare[0].isupper()),
                "",
                0,
                int(field.get("ignorable", False)),
                "",
            ]
            yield from walk(inner, depth + 1, path + ("[]." if field["type"].startswith("[]") else "."))

    for number, row in enumerate(walk(schema["fields"], 0, "")):
        yield [*head, "", 0, number, *row]


def main() -> None:
    with (ROOT / "spec" / "messages.tsv").open() as table:
        columns = table.readline()
    with TARGET.open("w", newline="") as out:
        out.write(columns)
        writer = csv.writer(out, delimiter="\t", lineterminator="\n")
        for schema in schemas(sys.argv[1:]):
            writer.writerows(rows_of(schema))


if __name__ == "__main__":
    main()
