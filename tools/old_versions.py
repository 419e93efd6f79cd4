"""What former releases spoke: makes one table of the messages of two releases, and the module of their APIs.

The two tables are that of Apache Kafka 4.3, and that of messages with versions that 4.0 removed (KIP-896).
spec/old-messages.tsv is taken from Apache Kafka 3.9.1. Between it and 4.3.0 no field changed its type, default or tag,
so the rows of both are joined by message and path. A field that 4.0 removed keeps its place in the order.
"""

from collections import defaultdict
from collections.abc import Iterable

Row = dict[str, str]


def joined(rows: list[Row], old_rows: list[Row]) -> tuple[list[Row], dict[str, int]]:
    """All rows, and for each message with removed versions the first version that was kept."""
    new_by_message, old_by_message = _by_message(rows), _by_message(old_rows)
    kept_since: dict[str, int] = {}
    for message, old in old_by_message.items():
        new = new_by_message.get(message)
        if new is None or new[0]["valid"] == "none":
            kept_since[message] = _bounds(old[0]["valid"])[1] + 1
            new_by_message[message] = [{**row, "listeners": _listeners(row["listeners"])} for row in old]
        else:
            kept_since[message] = _bounds(new[0]["valid"])[0]
            new_by_message[message] = _join(new, old)
    return [row for found in new_by_message.values() for row in found], kept_since


def _by_message(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["message"]].append(row)
    return dict(found)


def _join(new: list[Row], old: list[Row]) -> list[Row]:
    """The rows of one message in the order of the newer table; what only the older one has follows its predecessor."""
    former = {row["path"]: row for row in old}
    head = {
        "valid": _union(new[0]["valid"], old[0]["valid"]),
        "flexible": _union(new[0]["flexible"], old[0]["flexible"]),
    }
    joined_rows = [_joined_row(row, former.get(row["path"]), head) for row in new]
    known = {row["path"] for row in new}
    before = ""
    for row in old:
        if row["path"] not in known:
            place = _place([one["path"] for one in joined_rows], before, row["path"])
            joined_rows.insert(place, {**joined_rows[0], **row, **head, "listeners": new[0]["listeners"]})
        before = row["path"]
    return joined_rows


def _place(paths: list[str], before: str, path: str) -> int:
    """The place of `path`: behind `before`, its predecessor, and behind what is inside of that unless it is, too."""
    if not before:
        return 0
    place = paths.index(before) + 1
    while not _is_inside(path, before) and place < len(paths) and _is_inside(paths[place], before):
        place += 1
    return place


def _is_inside(path: str, outer: str) -> bool:
    return path.startswith((f"{outer}.", f"{outer}[]."))


def _joined_row(new: Row, old: Row | None, head: dict[str, str]) -> Row:
    row = {**new, **head}
    if old is not None:
        for column in ("versions", "nullable", "tagged"):
            row[column] = _union(new[column], old[column])
        row["ignorable"] = max(new["ignorable"], old["ignorable"])
    return row


def _bounds(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _union(one: str, other: str) -> str:
    spans = [_bounds(text) for text in (one, other) if text not in ("", "none")]
    if not spans:
        return one or other
    first, last = min(span[0] for span in spans), max(span[1] for span in spans)
    return f"{first}-{last}" if first != last else str(first)


def _listeners(text: str) -> str:
    """Brokers with ZooKeeper are simulated by the same listener as brokers without."""
    names = {"zkBroker": "broker"}
    return ",".join(dict.fromkeys(names.get(name, name) for name in text.split(",")))


def release_apis(rows: list[Row], origin: str) -> str:
    """The APIs and versions of former releases, for each of their listeners."""
    listed: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        number, span_of_api = row["api_key"], f"{row['min_version']}-{row['max_version']}"
        listed[row["release"], row["listener"]].append(f"{number}:{span_of_api}")
    entries = "".join(
        f'    ("{release}", "{listener}"): (\n{_wrapped(words)}    ),\n'
        for (release, listener), words in listed.items()
    )
    return (
        f'"""The stable API versions of releases of Apache Kafka, for each kind of listener.\n\n{origin}"""\n\n'
        "# Each word is KEY:FIRST-LAST. `zkBroker` is a broker with ZooKeeper.\n"
        f"RELEASE_APIS: dict[tuple[str, str], str] = {{\n{entries}}}\n"
    )


def _wrapped(words: list[str]) -> str:
    lines, line = [], ""
    for word in words:
        if len(line) + len(word) > 100:
            lines.append(line)
            line = ""
        line += f"{word} "
    lines.append(line.rstrip())
    return "".join(f'        "{text}"\n' for text in lines)
