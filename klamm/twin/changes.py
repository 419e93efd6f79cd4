"""The changes that `klamm try` applies, from a file: a reassignment file of Kafka's tool, or a list of steps.

    steps:
      - create-topic: {name: new-orders, partitions: 12, replication-factor: 3}
      - lose-rack: b

Each step is an object with one member. An invalid file raises InvalidChanges, whose text is one line.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from klamm.admin.partition_types import TopicPartition
from klamm.cluster.options import MAX_BROKER_ID
from klamm.console.documents import STDIN, YAML_SUFFIXES, read_document_or_stdin
from klamm.console.strict_json import InvalidJson
from klamm.protocol.near_names import did_you_mean, suggestion
from klamm.reassign.files import InvalidFile, decode_targets, read_targets

MAX_COUNT: Final = 2**31 - 1
MAX_STEPS: Final = 10_000
_ALSO_CALLED: Final[Mapping[object, str]] = {
    "replicas": "replication-factor",
    "rf": "replication-factor",
    "topic": "name",
    "name": "topic",
    "partitions": "to",
}
"""What other tools call a member, and its name here."""


class InvalidChanges(Exception):
    """The file cannot be read or is invalid."""


@dataclass(frozen=True, slots=True)
class Reassign:
    """Move partitions to these brokers, as `kafka-reassign-partitions --execute` does."""

    targets: Mapping[TopicPartition, tuple[int, ...]]

    def __str__(self) -> str:
        return f"reassign {len(self.targets)} partition{'s' if len(self.targets) != 1 else ''}"


@dataclass(frozen=True, slots=True)
class CreateTopic:
    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"create topic {self.name}"


@dataclass(frozen=True, slots=True)
class AddPartitions:
    topic: str
    to: int

    def __str__(self) -> str:
        return f"enlarge topic {self.topic} to {self.to} partitions"


@dataclass(frozen=True, slots=True)
class SetConfigs:
    """Set configs of all brokers, of one, or of a topic; None deletes one."""

    configs: Mapping[str, str | None]
    broker_id: int | None = None
    topic: str | None = None

    def __str__(self) -> str:
        named = ", ".join(
            f"{name}={value}" if value is not None else f"no {name}" for name, value in self.configs.items()
        )
        return f"set {named} for {self._where}"

    def done(self) -> str:
        """What is said when the configs are in force."""
        deleted = sum(value is None for value in self.configs.values())
        parts = ((len(self.configs) - deleted, "set"), (deleted, "deleted"))
        counts = ", ".join(f"{count} config{'s' if count > 1 else ''} {verb}" for count, verb in parts if count)
        return f"done: {counts} for {self._where}"

    @property
    def _where(self) -> str:
        if self.topic:
            return f"topic {self.topic}"
        return "all brokers" if self.broker_id is None else f"broker {self.broker_id}"


@dataclass(frozen=True, slots=True)
class LoseBroker:
    broker_id: int

    def __str__(self) -> str:
        return f"lose broker {self.broker_id}"


@dataclass(frozen=True, slots=True)
class LoseRack:
    rack: str

    def __str__(self) -> str:
        return f"lose rack {self.rack}"


@dataclass(frozen=True, slots=True)
class ReturnBroker:
    broker_id: int

    def __str__(self) -> str:
        return f"return broker {self.broker_id}"


@dataclass(frozen=True, slots=True)
class Decommission:
    """Move all replicas away from a broker, and remove it."""

    broker_id: int

    def __str__(self) -> str:
        return f"decommission broker {self.broker_id}"


@dataclass(frozen=True, slots=True)
class ElectPreferredLeaders:
    def __str__(self) -> str:
        return "elect preferred leaders"


Step: TypeAlias = (
    Reassign
    | CreateTopic
    | AddPartitions
    | SetConfigs
    | LoseBroker
    | LoseRack
    | ReturnBroker
    | Decommission
    | ElectPreferredLeaders
)


def read_changes(path: Path) -> Sequence[Step]:
    """The steps in a file; `-` is stdin. Raises InvalidChanges."""
    try:
        content = read_document_or_stdin(path, "the changes")
    except ValueError as error:
        raise InvalidChanges(str(error)) from None
    if isinstance(content, dict) and "partitions" in content:
        # What `klamm try --suggest` writes of an even cluster: there is nothing to move.
        return [Reassign({}) if content["partitions"] == [] else _targets(path, content)]
    if isinstance(content, list):
        raise InvalidChanges(f"{path}: begin with `steps:`, and write the list under it")
    steps = _members(content, f"{path}", {"steps"}).get("steps")
    if not isinstance(steps, list) or not steps:
        raise InvalidChanges(f"{path}: steps is a list with at least one step")
    if len(steps) > MAX_STEPS:
        raise InvalidChanges(f"{path}: at most {MAX_STEPS} steps are possible")
    return [_step(path, step, f"{path}: step {number}") for number, step in enumerate(steps, 1)]


def _step(path: Path, step: object, where: str) -> Step:
    if not isinstance(step, dict) or len(step) != 1:
        raise InvalidChanges(f"{where}: an object with one member is expected, such as lose-broker: 3")
    ((kind, content),) = step.items()
    if kind == "reassign":
        if not isinstance(content, str):
            raise InvalidChanges(f"{where}: reassign: the path of a reassignment file is expected")
        return _reassign(path.parent / content)
    decode = _DECODERS.get(kind)
    if decode is None:
        raise InvalidChanges(f"{where}: there is no step {kind!r}{did_you_mean(str(kind), (*_DECODERS, 'reassign'))}")
    return decode(content, f"{where}: {kind}")


def _targets(path: Path, content: object) -> Reassign:
    """Those of a whole file. What came from stdin, or was YAML, cannot be read again as JSON."""
    if path != STDIN and path.suffix not in YAML_SUFFIXES:
        return _reassign(path)
    try:
        return Reassign({target.partition: target.replicas for target in decode_targets(json.dumps(content).encode())})
    except (InvalidJson, TypeError, ValueError) as error:
        raise InvalidChanges(f"{path}: {error}") from None


def _reassign(path: Path) -> Reassign:
    try:
        return Reassign({target.partition: target.replicas for target in read_targets(path)})
    except InvalidFile as error:
        raise InvalidChanges(str(error)) from None


def _members(content: object, where: str, known: set[str]) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise InvalidChanges(f"{where}: an object is expected")
    for name in content:
        if name not in known:
            meant, listed = _ALSO_CALLED.get(name), ", ".join(sorted(known))
            near = suggestion(meant) if meant in known else did_you_mean(str(name), sorted(known))
            raise InvalidChanges(f"{where}: unknown member {name!r} (known: {listed}){near}")
    return content


def _text(content: object, where: str) -> str:
    if isinstance(content, int | float):
        raise InvalidChanges(f"{where}: a name is expected: write it in quotes, as {str(content)!r}")
    if not isinstance(content, str) or not content:
        raise InvalidChanges(f"{where}: a name is expected")
    return content


def _number(content: object, where: str, lowest: int, highest: int) -> int:
    if isinstance(content, str) and content.isascii() and content.isdigit():
        raise InvalidChanges(f"{where}: a number is expected: write {content[:20]} without quotes")
    if not isinstance(content, int) or isinstance(content, bool) or not lowest <= content <= highest:
        raise InvalidChanges(f"{where}: a whole number from {lowest} to {highest} is expected")
    return content


def _broker_id(content: object, where: str) -> int:
    return _number(content, where, 0, MAX_BROKER_ID)


def _values(content: object, where: str, *, may_delete: bool) -> dict[str, Any]:
    if not isinstance(content, dict) or not content:
        raise InvalidChanges(f"{where}: an object with configs is expected")
    found: dict[str, Any] = {}
    for name, value in content.items():
        if value is None and may_delete:
            found[str(name)] = None
        elif isinstance(value, bool):
            found[str(name)] = str(value).lower()
        elif isinstance(value, str | int | float):
            found[str(name)] = str(value)
        else:
            raise InvalidChanges(f"{where}: {name}: a text, a number or a boolean is expected")
    return found


def _create_topic(content: object, where: str) -> Step:
    given = _members(content, where, {"name", "partitions", "replication-factor", "configs"})
    return CreateTopic(
        _text(given.get("name"), f"{where}: name"),
        _number(given.get("partitions", -1), f"{where}: partitions", -1, MAX_COUNT),
        _number(given.get("replication-factor", -1), f"{where}: replication-factor", -1, 32767),
        _values(given["configs"], f"{where}: configs", may_delete=False) if "configs" in given else {},
    )


def _add_partitions(content: object, where: str) -> Step:
    given = _members(content, where, {"topic", "to"})
    return AddPartitions(
        _text(given.get("topic"), f"{where}: topic"), _number(given.get("to"), f"{where}: to", 1, MAX_COUNT)
    )


def _set_configs(content: object, where: str) -> Step:
    given = _members(content, where, {"configs", "broker", "topic"})
    if {"broker", "topic"} <= given.keys():
        raise InvalidChanges(f"{where}: configs are those of a broker or of a topic")
    return SetConfigs(
        _values(given.get("configs"), f"{where}: configs", may_delete=True),
        _broker_id(given["broker"], f"{where}: broker") if "broker" in given else None,
        _text(given["topic"], f"{where}: topic") if "topic" in given else None,
    )


def _elect(content: object, where: str) -> Step:
    if content != "all":
        raise InvalidChanges(f"{where}: all is expected")
    return ElectPreferredLeaders()


_DECODERS: Final[Mapping[str, Callable[[object, str], Step]]] = {
    "create-topic": _create_topic,
    "add-partitions": _add_partitions,
    "set-configs": _set_configs,
    "lose-broker": lambda content, where: LoseBroker(_broker_id(content, where)),
    "lose-rack": lambda content, where: LoseRack(_text(content, where)),
    "return-broker": lambda content, where: ReturnBroker(_broker_id(content, where)),
    "decommission": lambda content, where: Decommission(_broker_id(content, where)),
    "elect-preferred-leaders": _elect,
}
