#!/usr/bin/env python3
"""Writes docs/protocol.md from the declarations of messages and the list of served APIs.

python tools/protocol_page.py           writes the page
python tools/protocol_page.py --check   exits 1 if the page differs from what would be written
"""

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from klamm.broker.dispatch import SERVED  # noqa: E402 - found once the path is set
from klamm.controller.served_apis import KIP_578_API_KEYS  # noqa: E402
from klamm.protocol import Api, Message, RecordType, load_api  # noqa: E402
from klamm.protocol.messages.index import MODULES  # noqa: E402
from klamm.protocol.record_versions import load_control_type, load_record_type  # noqa: E402
from klamm.protocol.records.index import CONTROL, METADATA  # noqa: E402

PAGE = ROOT / "docs" / "protocol.md"
HEAD = """\
# Protocol: APIs and versions

Klamm encodes and decodes all requests and responses of Apache Kafka 4.3, in all versions. It also has the two APIs of
KIP-179, which Kafka never released.

The column "Served" has the versions that ApiVersions lists. The column "On" has the kind of the listener. If a client
uses another API or version, the server closes the connection, as Apache Kafka does. An unknown version of ApiVersions
gets the error UNSUPPORTED_VERSION (KIP-511).

- [klamm wire](wire.md) prints messages in a shell.
- [Protocol library](protocol-library.md) shows how to use messages in Python.

`tools/protocol_page.py` writes this page.
"""
NOTES = {
    "Produce": "ApiVersions lists version 0, as in Kafka; librdkafka needs it",
    "Fetch": "with fetch sessions (KIP-227)",
    "ApiVersions": "responses always have the header of version 0",
    "BrokerRegistration": "for brokers that are not simulated",
    "BrokerHeartbeat": "for brokers that are not simulated",
    "AlterPartition": "for brokers that are not simulated",
    "AlterTopics": "KIP-179, never released by Kafka; the key is Klamm's own",
    "ReplicaStatus": "KIP-179, never released by Kafka; the key is Klamm's own",
}


def page() -> str:
    """The whole page."""
    apis = [api for api in map(load_api, sorted(MODULES)) if api is not None]
    served = {key for table in SERVED.tables.values() for key in table}
    records = [found for found in map(load_record_type, sorted(METADATA)) if found is not None]
    controls = [found for found in map(load_control_type, sorted(CONTROL)) if found is not None]
    return "\n".join(
        [
            HEAD,
            f"## APIs: {len(apis)} declared, {len(served)} served",
            "",
            *_table(("Key", "API", "Decoded", "Flexible since", "Served", "On", "Notes"), map(_api_row, apis)),
            "",
            f"## Metadata records: {len(records)}",
            "",
            *_table(("Id", "Record", "Versions"), map(_record_row, records)),
            "",
            f"## Control records: {len(controls)}",
            "",
            *_table(("Id", "Record", "Versions"), map(_record_row, controls)),
            "",
        ]
    )


def _api_row(api: Api[Message, Message]) -> tuple[str, ...]:
    listeners = [listener for listener, table in SERVED.tables.items() if api.key in table]
    newest, kept = api.latest_stable, api.kept_versions
    notes = [NOTES[api.name]] if api.name in NOTES else []
    if api.key in KIP_578_API_KEYS:
        notes.append(f"{newest + 1} with `--kip-578-versions`")
    if listeners and newest < api.versions[-1]:
        notes.append(f"{_versions(newest + 1, api.versions[-1])} is not stable in Kafka 4.3")
    if api.removed_before:
        notes.append(f"{_versions(api.versions[0], api.removed_before - 1)} with `--kafka-version`")
    return (
        str(api.key),
        api.name,
        _versions(api.versions[0], api.versions[-1]),
        "never" if api.flexible_since is None else str(api.flexible_since),
        _versions(kept[0], newest) if listeners else "",
        ", ".join(listeners),
        "; ".join(notes),
    )


def _record_row(of: RecordType[Message]) -> tuple[str, ...]:
    return str(of.id), of.name, _versions(of.versions[0], of.versions[-1])


def _versions(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [_line(head), "|" + "---|" * len(head), *map(_line, rows)]


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    if sys.argv[1:] == ["--check"]:
        if PAGE.exists() and PAGE.read_text() == page():
            return 0
        print("docs/protocol.md is not what tools/protocol_page.py writes")
        return 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
