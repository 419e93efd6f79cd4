"""Makes plausible or nearly plausible messages of any class and version from a random source.

The name of a field decides its values: existing and missing topics, partitions and brokers, and values at the bounds of
the allowed range. The source is a `random.Random`, or hypothesis behind the same interface.
"""

from random import Random
from typing import Any, Final

from klamm.protocol import Message, Uuid
from klamm.protocol.fields import Array, WireField, wire_fields
from klamm.protocol.record_batch import encode_batch
from klamm.protocol.records.topics import TopicRecord

TOPICS: Final = ("alpha", "beta", "gamma")
"""Created before the first session; sessions may delete them."""
TEXTS: Final = (
    *TOPICS, "new", "new.one", "new_one", "", ".", "..", "a" * 249, "a" * 250, "Ü", "a b", "*", "__consumer_offsets",
    "1", "2", "-1", "4", "retention.ms", "cleanup.policy", "compact,delete", "min.insync.replicas", "User:a",
    "max.broker.partitions", "User:*", "7" * 40, "metadata.version", "ANONYMOUS", "\0", "x" * 300,
)  # fmt: skip
NUMBERS: Final = (0, 0, 1, 1, 2, 3, -1, -2, -3, 4, 5, 7, 10, 100, 127)
BORDERS: Final = (
    -3, -128, 128, 255, 1000, 10_000, 10_001, 32767, -32768, 65535, 65536, 2**31 - 1, -(2**31), 2**32, 2**53,
    2**63 - 1, -(2**63),
)  # fmt: skip
MAX_WAIT_MS: Final = 20
MAX_DEPTH: Final = 6
_RANGES: Final = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_WAITS: Final = frozenset({"max_wait_ms", "timeout_ms"})


class Values:
    """Draws messages. `topic_ids` are those of `TOPICS`."""

    def __init__(self, chance: Random, topic_ids: tuple[Uuid, ...]) -> None:
        self._chance = chance
        self._topic_ids = topic_ids

    def message(self, message_class: type[Message], version: int, depth: int = 0) -> Message:
        """A message that this version can have."""
        return message_class(
            **{
                wire.name: self._field(wire, version, depth)
                for wire in wire_fields(message_class)
                if wire.in_version(version) and (wire.tag is None or self._chance.random() < 0.5)
            }
        )

    def _field(self, wire: WireField, version: int, depth: int) -> Any:
        if wire.nullable_in(version) and self._chance.random() < 0.15:
            return None
        if not isinstance(wire.type, Array):
            return self._value(wire.type, wire.name, version, depth)
        count = 0 if depth >= MAX_DEPTH else self._chance.choice((0, 1, 1, 1, 2, 3))
        return [self._value(wire.type.of, wire.name, version, depth) for _ in range(count)]

    def _value(self, kind: Any, name: str, version: int, depth: int) -> Any:
        chance = self._chance
        if isinstance(kind, type):
            return self.message(kind, version, depth + 1)
        if kind in _RANGES:
            return self._number(kind, name)
        match kind:
            case "bool":
                return chance.random() < 0.5
            case "float64":
                return chance.choice((0.0, 1.5, -1.0, float("inf"), float("nan")))
            case "uuid":
                return chance.choice((*self._topic_ids, *self._topic_ids, Uuid(bytes(16)), Uuid(b"\xff" * 16)))
            case "string":
                return chance.choice(TOPICS if name in {"topic", "topic_name"} and chance.random() < 0.7 else TEXTS)
            case "records":
                return _RECORDS if chance.random() < 0.7 else b"\0" * 70
        return chance.choice((b"", b"\0", b"\xff" * 40))

    def _number(self, kind: str, name: str) -> int:
        low, high = _RANGES[kind]
        if name in _WAITS:  # Otherwise the client would wait for days.
            return self._chance.choice((0, MAX_WAIT_MS))
        drawn = self._chance.choice(NUMBERS if self._chance.random() < 0.75 else BORDERS)
        return min(max(drawn, low), high)


_RECORDS: Final = encode_batch(0, 0, 1_700_000_000_000, [TopicRecord(name="x", topic_id=Uuid(bytes(15) + b"\1"))])
