"""Names of values that differ between runs, in the recordings of coordinators, and the comparison of answers by them.

`~` stands for the suffix of a run; `$uuid:N`, `$id:TOPIC`, `$id64:TOPIC`, `$pid:N` and `$node:X` for values that are
bound when they are met first. The recording's own rules are in the README of the project's shared facts.
"""

import base64
import re
import struct
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.behaviour.comparison import NOTHING, Difference, shown

SUFFIX: Final = "-r1"
NEVER_COMPARED: Final = frozenset(
    {
        "throttle_time",
        "host",
        "port",
        "node_endpoints",
        "current_leader",
        "client_host",
        "coordinator_epoch",
        "last_timestamp",
        "log_append_time",
        "transaction_start_time",
    }
)
SETS: Final = frozenset({"partitions", "partition_indexes", "subscribed_topic_names"})
_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_PATTERNS: Final = {"uuid": rf"{_UUID}|[A-Za-z0-9_-]{{22}}", "id": _UUID, "id64": r"[A-Za-z0-9_-]{22}"}
_TOKEN: Final = re.compile(r"\$(uuid|id64|id|pid|node|int):([A-Za-z0-9._~#-]+)")
_BLOBS: Final = frozenset({"text", "hex", "subscription", "assignment"})


@dataclass(slots=True)
class RunNames:
    """What the names of one run stand for."""

    values: dict[str, str | int] = field(default_factory=dict)
    suffix: str = SUFFIX

    def copy(self) -> "RunNames":
        return RunNames(dict(self.values), self.suffix)

    def bind(self, name: str, value: str | int) -> None:
        """Bind a name; a topic id also in its form of base64."""
        self.values[name] = value
        if name.startswith("$id:"):
            encoded = base64.urlsafe_b64encode(uuid.UUID(str(value)).bytes).decode().rstrip("=")
            self.values[name.replace("$id:", "$id64:")] = encoded

    def learn_topics(self, answer: Any) -> None:
        """Bind the ids of topics that stand in an answer beside the topics' names."""
        if isinstance(answer, Mapping):
            topic_id = answer.get("topic_id")
            name = answer.get("name", answer.get("topic_name", answer.get("topic")))
            if topic_id and name and topic_id not in self.values.values():
                name = name.replace(self.suffix, "~")
                earlier = sum(1 for known in self.values if re.fullmatch(rf"\$id:{re.escape(name)}(#\d+)?", known))
                self.bind(f"$id:{name}#{earlier + 1}" if earlier else f"$id:{name}", topic_id)
        for inner in answer.values() if isinstance(answer, Mapping) else answer if isinstance(answer, list) else ():
            self.learn_topics(inner)

    def resolve(self, value: Any) -> Any:
        """A recorded value with values in place of names, and bytes in place of what they mean. Names that are not
        bound stay."""
        if isinstance(value, str):
            whole = self.values.get(value)
            return _TOKEN.sub(self._value, value).replace("~", self.suffix) if whole is None else whole
        if isinstance(value, list):
            return [self.resolve(inner) for inner in value]
        if isinstance(value, Mapping):
            plain = {self.resolve(key): self.resolve(inner) for key, inner in value.items()}
            return {"hex": _encoded(plain).hex()} if _is_blob(plain) else plain
        return value

    def fits(self, recorded: str, ours: Any) -> bool:
        """Whether `ours` may be what was recorded. Binds names that are met here first."""
        expected = self.resolve(recorded)
        new = [found[0] for found in _TOKEN.finditer(expected)] if isinstance(expected, str) else []
        if not new:
            return bool(expected == ours)
        if new == [expected] and isinstance(ours, int):
            self.values[expected] = ours
            return True
        if not isinstance(ours, str):
            return False
        pattern, at = "", 0
        for found in _TOKEN.finditer(expected):
            pattern += re.escape(expected[at : found.start()]) + f"({_PATTERNS.get(found[1], '[0-9]+')})"
            at = found.end()
        match = re.fullmatch(pattern + re.escape(expected[at:]), ours)
        if match is None:
            return False
        for name, value in zip(new, match.groups(), strict=True):
            # The suffix has replaced `~` in the name as well.
            self.bind(name.replace(self.suffix, "~"), value)
        return True

    def _value(self, found: re.Match[str]) -> str:
        return str(self.values.get(found[0], found[0]))


def _is_blob(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and value.keys() <= _BLOBS


def _encoded(blob: Mapping[str, Any]) -> bytes:
    """The bytes of `text`, `hex`, or a subscription or assignment of the consumer protocol."""
    ((kind, value),) = blob.items()
    if kind == "text":
        return str(value).encode()
    if kind == "hex":
        return bytes.fromhex(value)
    version: int = value["version"]
    front, user_data = struct.pack(">h", version), _sized(value.get("user_data"), "i")
    if kind == "assignment":
        return front + _partitions(value["partitions"]) + user_data
    front += struct.pack(">i", len(value["topics"])) + b"".join(_sized(topic, "h") for topic in value["topics"])
    owned = _partitions(value.get("owned", {})) if version >= 1 else b""
    generation = struct.pack(">i", value.get("generation", -1)) if version >= 2 else b""
    rack = _sized(value.get("rack"), "h") if version >= 3 else b""
    return front + user_data + owned + generation + rack


def _sized(text: str | None, size: str) -> bytes:
    return struct.pack(f">{size}", -1) if text is None else struct.pack(f">{size}", len(text)) + text.encode()


def _partitions(topics: Mapping[str, list[int]]) -> bytes:
    each = (_sized(name, "h") + struct.pack(f">i{len(at)}i", len(at), *at) for name, at in topics.items())
    return struct.pack(">i", len(topics)) + b"".join(each)


def differences(
    recorded: Any, ours: Any, volatile: Mapping[str, Any], names: RunNames, path: str = ""
) -> Iterator[Difference]:
    """Every difference of an answer. `volatile` has rules by path. Binds `names`."""
    pattern = re.sub(r"\[\d+\]", "[]", path)
    rule, name = volatile.get(pattern), pattern.rpartition(".")[2].removesuffix("[]")
    if rule == "any" or (rule is None and name in NEVER_COMPARED):
        return
    is_plain = rule == "nonneg" or isinstance(rule, list)
    if not is_plain and isinstance(recorded, Mapping) and isinstance(ours, Mapping) and not _is_blob(recorded):
        yield from _of_objects(recorded, ours, volatile, names, path)
    elif not is_plain and isinstance(recorded, list) and isinstance(ours, list):
        yield from _of_arrays(recorded, ours, volatile, names, path)
    elif not _fits(recorded, ours, rule, names):
        yield Difference(path, shown(recorded), shown(ours))


def _fits(recorded: Any, ours: Any, rule: Any, names: RunNames) -> bool:
    """Whether one value is as recorded, by its rule if it has one."""
    if isinstance(rule, list):
        return ours in rule
    if rule == "nonneg":
        return isinstance(ours, int) and ours >= 0
    if isinstance(recorded, str):
        return names.fits(recorded, ours)
    if isinstance(recorded, Mapping):
        return bool(names.resolve(recorded) == ours)
    return bool(recorded == ours) and isinstance(recorded, bool) == isinstance(ours, bool)


def _of_objects(
    recorded: Mapping[str, Any], ours: Mapping[str, Any], volatile: Mapping[str, Any], names: RunNames, path: str
) -> Iterator[Difference]:
    for key in dict.fromkeys((*recorded, *ours)):
        inner = f"{path}.{key}" if path else key
        if key not in ours:
            yield Difference(inner, shown(recorded[key]), NOTHING)
        elif key not in recorded:
            yield Difference(inner, NOTHING, shown(ours[key]))
        else:
            yield from differences(recorded[key], ours[key], volatile, names, inner)


def _of_arrays(
    recorded: list[Any], ours: list[Any], volatile: Mapping[str, Any], names: RunNames, path: str
) -> Iterator[Difference]:
    pattern = re.sub(r"\[\d+\]", "[]", path)
    if volatile.get(pattern) == "own":
        recorded = [each for each in recorded if "~" in str(each)]
        ours = [each for each in ours if names.suffix in str(each)]
    if all(isinstance(each, Mapping) for each in (*recorded, *ours)):
        left = list(ours)
        missing = [each for each in recorded if not _take(each, left, volatile, names, path)]
        for index in range(max(len(missing), len(left))):
            inner = f"{path}[{index}]"
            if index >= len(left):
                yield Difference(inner, shown(missing[index]), NOTHING)
            elif index >= len(missing):
                yield Difference(inner, NOTHING, shown(left[index]))
            else:
                yield from differences(missing[index], left[index], volatile, names, inner)
        return
    expected = names.resolve(recorded)
    is_set = pattern.rpartition(".")[2].removesuffix("[]") in SETS
    if is_set:
        expected, ours = sorted(expected, key=str), sorted(ours, key=str)
    if expected != ours:
        yield Difference(path, shown(recorded), shown(ours))


def _take(recorded: Any, left: list[Any], volatile: Mapping[str, Any], names: RunNames, path: str) -> bool:
    """Remove the first element that is equal to a recorded one. Binds `names` by it."""
    for index, each in enumerate(left):
        trial = names.copy()
        if not any(differences(recorded, each, volatile, trial, f"{path}[0]")):
            names.values = trial.values
            del left[index]
            return True
    return False
