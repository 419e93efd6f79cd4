"""The JSON files of `klamm reassign-partitions`, in the formats of Apache Kafka's tool, version 1.

    {"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}
    {"version":1,"topics":[{"topic":"orders"}]}

An invalid file raises `InvalidFile`, and no part of it is used. Unknown members are refused, whereas Kafka's tool
ignores them, because a misspelt member would have no effect.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from klamm.admin.partition_types import TopicPartition
from klamm.console.strict_json import InvalidJson, decode_object, refuse, shown
from klamm.protocol.bounded_file import UnreadableFile, read_bounded
from klamm.protocol.near_names import did_you_mean

VERSION: Final = 1
MAX_FILE_BYTES: Final = 64 << 20
"""A larger file is refused before it is decoded; a file of a million partitions is smaller."""
ANY_LOG_DIR: Final = "any"
MAX_INT32: Final = 2**31 - 1
MAX_TOPIC_NAME_CHARACTERS: Final = 249

_TOPIC_NAME: Final = re.compile(rf"[a-zA-Z0-9._-]{{1,{MAX_TOPIC_NAME_CHARACTERS}}}", re.ASCII)
_MISSING: Final = object()


class InvalidFile(Exception):
    """The file cannot be read or is invalid. The text is one line with the file's path."""


class Target(NamedTuple):
    """The target of a partition, from a reassignment file."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...]
    """For each replica the path of a log directory, or "any"."""


def read_targets(path: Path) -> tuple[Target, ...]:
    """The targets in a reassignment file, in its order: at least one, and no partition twice. Raises `InvalidFile`."""
    try:
        return decode_targets(read_bounded(path, MAX_FILE_BYTES))
    except (UnreadableFile, InvalidJson) as error:
        raise InvalidFile(f"{path}: {error}") from None


def read_topics(path: Path) -> tuple[str, ...]:
    """The topic names in a file of topics to move, in its order: at least one, none twice. Raises `InvalidFile`."""
    try:
        return _decode_topics(read_bounded(path, MAX_FILE_BYTES))
    except (UnreadableFile, InvalidJson) as error:
        raise InvalidFile(f"{path}: {error}") from None


def as_file(assignment: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Any]:
    """The content of a reassignment file with this assignment, ordered by topic and partition."""
    return {
        "version": VERSION,
        "partitions": [
            {
                "topic": partition.topic_name,
                "partition": partition.partition_index,
                "replicas": list(assignment[partition]),
                "log_dirs": [ANY_LOG_DIR] * len(assignment[partition]),
            }
            for partition in sorted(assignment)
        ],
    }


def as_text(content: object) -> str:
    """JSON on one line without blanks, as Apache Kafka's tool prints it."""
    return json.dumps(content, separators=(",", ":"))


def decode_targets(text: bytes) -> tuple[Target, ...]:
    """The targets in the text of a reassignment file, as `read_targets`. Raises `InvalidJson`."""
    targets = [_target(one, f"partitions[{at}]") for at, one in enumerate(_listed(text, "partitions"))]
    _refuse_repeated((target.partition for target in targets), "partition")
    return tuple(targets)


def _decode_topics(text: bytes) -> tuple[str, ...]:
    names = []
    for at, one in enumerate(_listed(text, "topics")):
        members = _members(one, f"topics[{at}]", {"topic"})
        names.append(_topic_name(members, f"topics[{at}]"))
    _refuse_repeated(names, "topic")
    return tuple(names)


def _listed(text: bytes, name: str) -> list[Any]:
    members = _members(decode_object(text, "the file"), "", {"version", name})
    version = members.get("version", VERSION)
    if type(version) is not int or version != VERSION:
        refuse("version", version, str(VERSION))
    listed = _member(members, name, "", f"a list of {name}")
    if not isinstance(listed, list):
        refuse(name, listed, "a list")
    if not listed:
        raise InvalidJson(f"{name} is an empty list; there is nothing to do")
    return listed


def _target(found: Any, where: str) -> Target:
    members = _members(found, where, {"topic", "partition", "replicas", "log_dirs"})
    partition = TopicPartition(_topic_name(members, where), _number(members, "partition", where))
    replicas = _list(members, "replicas", where, "a list of broker ids")
    if not replicas:
        raise InvalidJson(f"{where}.replicas is an empty list; {partition} needs at least one broker")
    for at, broker_id in enumerate(replicas):
        _check_number(broker_id, f"{where}.replicas[{at}]")
    _refuse_repeated(replicas, f"{where}.replicas: broker")
    log_dirs = _list(members, "log_dirs", where, "a list") if "log_dirs" in members else [ANY_LOG_DIR] * len(replicas)
    for at, log_dir in enumerate(log_dirs):
        if not isinstance(log_dir, str):
            refuse(f"{where}.log_dirs[{at}]", log_dir, 'a path, or "any",')
    if len(log_dirs) != len(replicas):
        raise InvalidJson(f"{where} has {len(replicas)} replicas but {len(log_dirs)} log_dirs")
    return Target(partition, tuple(replicas), tuple(log_dirs))


def _members(found: Any, where: str, known: set[str]) -> dict[str, Any]:
    if not isinstance(found, dict):
        refuse(where, found, "a JSON object")
    for name in found:
        if name not in known:
            at = f"{where}: " if where else ""
            listed = ", ".join(sorted(known))
            raise InvalidJson(f"{at}unknown member {shown(name)} (known: {listed}){did_you_mean(name, known)}")
    return found


def _member(members: Mapping[str, Any], name: str, where: str, expected: str) -> Any:
    found = members.get(name, _MISSING)
    if found is _MISSING:
        raise InvalidJson(f"{where}{'.' if where else ''}{name} is missing; {expected} is expected")
    return found


def _list(members: Mapping[str, Any], name: str, where: str, expected: str) -> list[Any]:
    found = _member(members, name, where, expected)
    if not isinstance(found, list):
        refuse(f"{where}.{name}", found, expected)
    return found


def _topic_name(members: Mapping[str, Any], where: str) -> str:
    name = _member(members, "topic", where, "a topic's name")
    if not isinstance(name, str) or _TOPIC_NAME.fullmatch(name) is None:
        refuse(f"{where}.topic", name, f"a topic's name (up to {MAX_TOPIC_NAME_CHARACTERS} of a-z A-Z 0-9 . _ -)")
    return name


def _number(members: Mapping[str, Any], name: str, where: str) -> int:
    return _check_number(_member(members, name, where, "a whole number"), f"{where}.{name}")


def _check_number(number: Any, where: str) -> int:
    # Not isinstance, because it would accept true.
    if type(number) is not int or not 0 <= number <= MAX_INT32:
        refuse(where, number, f"a whole number from 0 to {MAX_INT32}")
    return number


def _refuse_repeated(named: Iterable[object], kind: str) -> None:
    seen: set[object] = set()
    for one in named:
        if one in seen:
            raise InvalidJson(f"{kind} {one} is given twice")
        seen.add(one)
