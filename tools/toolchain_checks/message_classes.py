"""Apache Kafka's own message classes, compared with Klamm's declarations: every message in every version. Kafka's
generated classes read what Klamm writes of drawn values, with the same meaning, and write the same bytes again; of
changed bytes, both make the same message, or none. `klamm.protocol.codec.messages` lists where Klamm is stricter."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from klamm.protocol import Api, Message, ProtocolError, RecordType, decode_message, encode_message
from klamm.protocol.codec.json_form import message_to_json
from klamm.protocol.messages.headers import REQUEST_HEADER
from tools.fuzzing.codec_cases import all_kinds, declaration
from tools.fuzzing.mutations import mutated
from tools.fuzzing.pieces import message_pieces
from tools.fuzzing.values import Values
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.report import CheckFailed, Report, expect_none

SECONDS: Final = 600.0
FIRST_KEY_OF_OURS: Final = 10_000
DRAWN: Final = 6
CHANGED: Final = 20
"""The number of samples of each message and version."""
_NAMED_DATA: Final = ("Request", "Response", "Header")
_STRICTER: Final = ("string is no UTF-8", "tagged field of ", "varint exceeds 32 bits")
_ONLY_OURS: Final = ("is not valid for version", "Invalid raw tag field list")
"""A tag of a later version is unknown to Klamm, which can write every tag that it can read."""
_RECORDS: Final = frozenset({"records", "unalignedRecords"})
"""Fields whose bytes Kafka's form omits; they are compared as bytes."""


@dataclass(frozen=True, slots=True)
class Schema:
    """One message in one version; `java` is the class that Kafka has for it."""

    java: str
    message_class: type[Message]
    version: int
    flexible: bool


def check_message_classes(report: Report, java: Java) -> None:
    """Check both directions, for every message of Kafka. `java` has the class Messages of tools/conformance/java."""
    chance = Random(43)
    values = Values(chance, ())
    schemas = list(all_schemas())
    with report.check(f"Kafka's own classes read {DRAWN * len(schemas)} messages of ours, and write the same bytes"):
        cases = [(each, drawn(each, values)) for each in schemas for _ in range(DRAWN)]
        expect_none(differences(java, "drawn", cases), "differences")
    with report.check(f"Kafka's own classes make of {CHANGED * len(schemas)} changed messages what we make of them"):
        cases = [(each, changed(each, values, chance)) for each in schemas for _ in range(CHANGED)]
        expect_none(differences(java, "changed", cases), "differences")


def all_schemas() -> Iterator[Schema]:
    """Every message of Kafka in every version."""
    for kind, key in all_kinds():
        declared = declaration(kind, key)
        if declared is None or key >= FIRST_KEY_OF_OURS:
            continue
        if isinstance(declared, Api):
            message_class = declared.request if kind == "request" else declared.response
        else:
            message_class = declared.message
        java = java_class(kind, message_class.__name__)
        for version in _versions_of_4_3(declared):
            yield Schema(java, message_class, version, declared.flexible(version))


def _versions_of_4_3(declared: Api[Any, Any] | RecordType[Any]) -> range:
    """The versions without those that 4.0 removed: of requests, and version 0 of their header."""
    if isinstance(declared, Api):
        return declared.kept_versions
    return range(1, declared.versions.stop) if declared is REQUEST_HEADER else declared.versions


def java_class(kind: str, name: str) -> str:
    """The class that Kafka has for a message."""
    if kind == "record":
        return f"org.apache.kafka.common.metadata.{name}"
    if name == "QuorumStateData":
        return f"org.apache.kafka.raft.generated.{name}"
    return f"org.apache.kafka.common.message.{name}" + ("Data" if name.endswith(_NAMED_DATA) else "")


def drawn(schema: Schema, values: Values) -> bytes:
    """The bytes of a message with drawn values."""
    message = values.message(schema.message_class, schema.version)
    return encode_message(message, schema.version, schema.flexible)


def changed(schema: Schema, values: Values, chance: Random) -> bytes:
    """The bytes of a message, damaged."""
    message = values.message(schema.message_class, schema.version)
    return mutated(list(message_pieces(message, schema.version, schema.flexible, "")), chance)


def differences(java: Java, name: str, cases: list[tuple[Schema, bytes]]) -> list[str]:
    """What Kafka's classes make otherwise of the bytes. `java` has the class Messages of tools/conformance/java."""
    lines = "".join(f"{schema.java} {schema.version} {raw.hex()}\n" for schema, raw in cases)
    reported = _kafka_reads(java, name, lines)
    if len(reported) != len(cases):
        raise CheckFailed(f"{len(reported)} answers to {len(cases)} messages")
    return [
        f"{schema.message_class.__name__} v{schema.version} {raw.hex()}: {difference}"
        for (schema, raw), theirs in zip(cases, reported, strict=True)
        if (difference := _difference(schema, raw, theirs)) is not None
    ]


def _kafka_reads(java: Java, name: str, lines: str) -> list[dict[str, Any]]:
    requested = java.folder / f"{name}-messages.txt"
    requested.write_text(lines, encoding="ascii")
    output = java.run(f"{name}-messages", "Messages", [str(requested)], SECONDS)
    with output.open(encoding="utf-8") as answers:
        return [json.loads(line) for line in answers]


def _difference(schema: Schema, raw: bytes, theirs: dict[str, Any]) -> str | None:
    """How Kafka's class read the bytes differently from Klamm's; None if both agree."""
    refused = theirs.get("error") or (f"{theirs['left']} bytes left" if theirs["left"] else None)
    try:
        message = decode_message(schema.message_class, schema.version, schema.flexible, raw)
    except ProtocolError as error:
        if refused is not None or error.reason.startswith(_STRICTER):
            return None
        return f"only we refuse it: {error}"
    if refused is not None:
        return None if any(reported in refused for reported in _ONLY_OURS) else f"only Kafka refuses it: {refused}"
    again = encode_message(message, schema.version, schema.flexible).hex()
    if again != theirs["hex"]:
        return f"{again} and Kafka's {theirs['hex']}"
    ours, form = (_without_records(each) for each in (message_to_json(message, schema.version), theirs["json"]))
    return None if ours == form else f"{json.dumps(ours)} and Kafka's {json.dumps(form)}"


def _without_records(form: Any) -> Any:
    if isinstance(form, list):
        return [_without_records(each) for each in form]
    if not isinstance(form, dict):
        return form
    return {
        name: None if value is None else "" if name in _RECORDS else _without_records(value)
        for name, value in form.items()
    }
