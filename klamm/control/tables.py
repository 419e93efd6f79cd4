"""Answers of the control interface as text for people. The standard library alone."""

from collections.abc import Callable, Mapping
from typing import Any

from klamm.control.clock_commands import clock_text
from klamm.control.fault_commands import fault_text, faults_text
from klamm.control.recorded import LoggedRequest, Record
from klamm.control.steering_commands import log_dirs_text, partition_text
from klamm.control.twin_commands import twin_text
from klamm.protocol.printable import printable

COLUMNS = ("id", "rack", "host", "port", "state", "fenced", "broker_epoch", "replicas")
NUMBERS = frozenset({"id", "port", "broker_epoch", "replicas"})


def as_text(content: Any) -> str:
    """The text of an answer: brokers in columns, all others in lines."""
    if isinstance(content, dict):
        for member, text in _TEXTS.items():
            if member in content:
                return text(content)
    return _brokers(content if isinstance(content, list) else [content])


def _brokers(brokers: list[Mapping[str, Any]]) -> str:
    """Brokers as columns; a removed broker has fewer members in the answer."""
    columns = [name for name in COLUMNS if all(name in broker for broker in brokers)]
    rows = [columns, *([_cell(broker[name]) for name in columns] for broker in brokers)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.rjust(width) if name in NUMBERS else cell.ljust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        ).rstrip()
        for row in rows
    )
    return "".join(f"{line}\n" for line in lines)


def _records(content: Mapping[str, Any]) -> str:
    """A line for each record: partition, offset, key, value, and headers."""
    lines = []
    for record in map(Record.from_json, content["records"]):
        headers = " ".join(f"{name}={_data(value)}" for name, value in record.headers)
        cells = (str(record.partition), str(record.offset), _data(record.key), _data(record.value), printable(headers))
        lines.append("  ".join(cells).rstrip())
    return "".join(f"{line}\n" for line in lines)


def _requests(content: Mapping[str, Any]) -> str:
    """A line for each request: seq, time, API, version, client, broker, and error codes."""
    lines = []
    for request in map(LoggedRequest.from_json, content["requests"]):
        codes = ",".join(sorted({str(error["error_code"]) for error in request.errors}))
        receiver = "controller" if request.broker_id is None else f"broker {request.broker_id}"
        cells = (request.time, request.api, f"v{request.api_version}", _cell(request.client_id), receiver)
        lines.append("  ".join((str(request.seq), *cells, *([f"errors {codes}"] if codes else ()))))
    return "".join(f"{line}\n" for line in lines)


def _clients(content: Mapping[str, Any]) -> str:
    """A line for each client that pushed metrics: instance id, client id, software, pushes, metrics."""
    lines = []
    for one in content["clients"]:
        software = f"{one['client_software_name']} {one['client_software_version']}".strip()
        counts = f"{one['pushes']} pushes", f"{one['metric_count']} metrics"
        cells = (one["client_instance_id"], one["client_id"], software, *counts)
        lines.append("  ".join((*map(printable, cells), *(["terminated"] if one["terminated"] else ()))))
    return "".join(f"{line}\n" for line in lines)


def _metrics(content: Mapping[str, Any]) -> str:
    """A line for each metric of a client: name, attributes, value, unit, kind."""
    lines = []
    for one in sorted(content["metrics"], key=lambda one: (one["name"], sorted(one["attributes"].items()))):
        attributes = " ".join(f"{name}={value}" for name, value in sorted(one["attributes"].items()))
        value = "-" if one["value"] is None else f"{one['value']}{one['unit']}"
        lines.append("  ".join(filter(None, map(printable, (one["name"], attributes, value, one["kind"])))))
    return "".join(f"{line}\n" for line in lines)


_TEXTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "clock": clock_text,
    "isr": partition_text,
    "partitions": lambda content: "".join(map(partition_text, content["partitions"])),
    "twin": twin_text,
    "metrics": _metrics,
    "clients": _clients,
    "faults": faults_text,
    "rule": fault_text,
    "removed": lambda content: (
        f"{content['removed']} {'rule is' if content['removed'] == 1 else 'rules are'} removed\n"
    ),
    "end_offset": lambda content: f"snapshot of {content['records']} records, up to offset {content['end_offset']}\n",
    "records": _records,
    "requests": _requests,
    "log_dirs": log_dirs_text,
    "moved": lambda content: f"{content['moved']} coordinators are elsewhere\n",
    "rate": lambda content: f"broker {content['id']}: rate {_cell(content['rate'])}\n",
    "away": lambda content: f"the disk of broker {content['id']} is {'away' if content['away'] else 'back'}\n",
    "cleaned": lambda _: "retention and compaction are done\n",
    "transactional_id": lambda content: f"transaction {_cell(content['transactional_id'])} is timed out\n",
    "members": lambda content: f"group {_cell(content['group'])} is {content['state']}, members {content['members']}\n",
    "num_partitions": lambda content: f"topic {_cell(content['topic'])} has {content['num_partitions']} partitions\n",
    "reassigning": lambda _: "no reassignment is in progress\n",
    "name": lambda content: f"topic {_cell(content['name'])} is created\n",
    "deleted": lambda content: f"topic {_cell(content['deleted'])} is deleted\n",
}
"""By a member that only this kind of answer has."""


def _data(data: bytes | None) -> str:
    return "-" if data is None else printable(data.decode(errors="backslashreplace"))


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else printable(str(value))
