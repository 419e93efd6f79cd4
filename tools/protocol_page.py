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

Klamm can encode and decode all requests and responses of Apache Kafka 4.3 in all versions. Klamm can also encode and
decode the requests and responses of two APIs of KIP-179 that Apache Kafka never released: AlterTopics and
ReplicaStatus.

The table "APIs" on this page contains one row for each API:

- The column "Decoded" contains the versions of the API whose requests and responses Klamm can encode and decode.
- The column "Flexible since" contains the first version of the API that uses compact encodings and tagged fields
  (KIP-482). The word "never" means that no version of the API uses compact encodings and tagged fields.
- The column "Served" contains the versions of the API in which Klamm's brokers or Klamm's controller accept requests.
  If Klamm accepts no request of the API, the cell is empty.
- The column "Listener" contains "broker" if the listeners of Klamm's brokers accept requests of the API. The column
  contains "controller" if the listener of Klamm's controller accepts requests of the API.

If a client sends a request of an API or a version that Klamm does not serve, Klamm closes the connection, as
Apache Kafka does. ApiVersions is an exception: if Klamm does not serve the version of an ApiVersions request, Klamm
returns UNSUPPORTED_VERSION (KIP-511).

Klamm can also encode and decode the records in the metadata log. The tables "Metadata records" and "Control records"
on this page contain one row for each type of these records, with the id and the versions of the type.

Two tools of Klamm encode and decode requests, responses and these records:

- The shell command [klamm wire](wire.md) converts the bytes of requests, responses and records to JSON, and JSON to
  bytes.
- The [protocol library](protocol-library.md) encodes and decodes requests, responses and records in Python programs.

The script `tools/protocol_page.py` generates this page.
"""
API_COLUMNS = ("API key", "API", "Decoded", "Flexible since", "Served", "Listener", "Notes")
NOTES = {
    "Produce": "Like Apache Kafka, Klamm lists versions 0 to 13 of Produce in ApiVersions responses, because "
    "librdkafka requires version 0 in these responses",
    "Fetch": "Klamm supports fetch sessions (KIP-227)",
    "ApiVersions": "In every version of this API, Klamm encodes the response with version 0 of the response header",
    "BrokerRegistration": "Brokers of Apache Kafka send this request to Klamm's controller",
    "BrokerHeartbeat": "Brokers of Apache Kafka send this request to Klamm's controller",
    "AlterPartition": "Brokers of Apache Kafka send this request to Klamm's controller",
    "AlterTopics": "API of KIP-179. Apache Kafka never released this API, so Klamm's developers chose the API key",
    "ReplicaStatus": "API of KIP-179. Apache Kafka never released this API, so Klamm's developers chose the API key",
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
            *_table(API_COLUMNS, map(_api_row, apis)),
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
        notes.append(f"Klamm serves {_named(newest + 1, newest + 1)} only with the option `--kip-578-versions`")
    if listeners and newest < api.versions[-1]:
        unstable = _named(newest + 1, api.versions[-1])
        notes.append(f"Klamm does not serve {unstable}, because Apache Kafka 4.3 marks {unstable} as unstable")
    if api.removed_before and listeners:
        removed = _named(api.versions[0], api.removed_before - 1)
        notes.append(f"Klamm serves {removed} only if `--kafka-version` sets a Kafka release before 4.0")
    if api.removed_before and not listeners:
        notes.append("Apache Kafka 4.0 removed this API. If `--kafka-version` sets Kafka release 3.0 or an older one, "
                     "Klamm's brokers refuse requests of this API with CLUSTER_AUTHORIZATION_FAILED")  # fmt: skip
    return (
        str(api.key),
        api.name,
        _versions(api.versions[0], api.versions[-1]),
        "never" if api.flexible_since is None else str(api.flexible_since),
        _versions(kept[0], newest) if listeners else "",
        ", ".join(listeners),
        ". ".join(notes),
    )


def _record_row(of: RecordType[Message]) -> tuple[str, ...]:
    return str(of.id), of.name, _versions(of.versions[0], of.versions[-1])


def _versions(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _named(first: int, last: int) -> str:
    return f"version {first}" if first == last else f"versions {first} to {last}"


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
