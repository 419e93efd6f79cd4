"""What the model takes configs to be: texts on levels, the strongest of which counts (KIP-226, KIP-578, KIP-409).

Only the configs that the simulation alters stand here, and whose word counts: the value of the broker that was asked,
the cluster-wide one on the controller's listener.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from klamm.protocol.errors import ErrorCode

NO_LIMIT: Final = 2**63 - 1
CONTROLLER_ID: Final = 3000
MAX_BROKER_PARTITIONS: Final = "max.broker.partitions"
MAX_PARTITIONS: Final = "max.partitions"
UNDER_REPLICATED: Final = "enable.under.replicated.topic.creation"
MIN_ISR: Final = "min.insync.replicas"
UNLIMITED_TOPICS: Final = ("__consumer_offsets", "__transaction_state")
TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
_DEFAULTS: Final = {
    MAX_BROKER_PARTITIONS: str(NO_LIMIT),
    MAX_PARTITIONS: str(NO_LIMIT),
    UNDER_REPLICATED: "false",
    MIN_ISR: "1",
}


class Edit(NamedTuple):
    """One operation on one config; no value: it is deleted."""

    name: str
    value: str | None


class Alteration(NamedTuple):
    """What is asked of one topic, of one broker, or of all brokers (no name)."""

    resource_type: int
    resource_name: str
    edits: Sequence[Edit]


class ModelLimits(NamedTuple):
    replicas: int = NO_LIMIT
    """On one broker."""
    partitions: int = NO_LIMIT
    """In the cluster."""

    def __str__(self) -> str:
        return f"{MAX_BROKER_PARTITIONS}={self.replicas}, {MAX_PARTITIONS}={self.partitions}"


@dataclass
class ModelConfigs:
    static: Mapping[str, str]
    static_of_broker: Mapping[int, Mapping[str, str]]
    dynamic: dict[str, dict[str, str]] = field(default_factory=dict)
    """By broker id as text; those for all brokers have none."""

    def __post_init__(self) -> None:
        # What a new cluster with eligible leader replicas begins with.
        self.dynamic[""] = {MIN_ISR: self.static[MIN_ISR]}

    def in_force(self, name: str, asked: int | None) -> str:
        own: tuple[Mapping[str, str], ...] = ({}, {})
        if asked is not None:
            own = (self.dynamic.get(str(asked), {}), self.static_of_broker.get(asked, {}))
        for level in (own[0], self.dynamic.get("", {}), own[1], self.static, _DEFAULTS):
            if name in level:
                return level[name]
        raise KeyError(name)

    def limits(self, asked: int | None) -> ModelLimits:
        return ModelLimits(*(int(self.in_force(name, asked)) for name in (MAX_BROKER_PARTITIONS, MAX_PARTITIONS)))

    def under_replicated(self, asked: int | None) -> bool:
        return self.in_force(UNDER_REPLICATED, asked) == "true"

    def min_isr(self, asked: int | None = None) -> int:
        return int(self.in_force(MIN_ISR, asked))

    def judge_broker_edits(
        self, name: str, edits: Sequence[Edit], asked: int | None, registered: Collection[int]
    ) -> ErrorCode:
        """Whether the configs of a broker, or of all, may be edited so."""
        bad = any(edit.value is not None and not _is_good(edit.name, edit.value) for edit in edits)
        if asked is not None and (bad or (name and name != str(asked))):
            return ErrorCode.INVALID_REQUEST
        if any(edit.name == MIN_ISR and (name or edit.value is None) for edit in edits):
            return ErrorCode.INVALID_CONFIG
        if name and int(name) not in (*registered, CONTROLLER_ID):
            return ErrorCode.BROKER_ID_NOT_REGISTERED
        return ErrorCode.INVALID_REQUEST if bad else ErrorCode.NONE

    def edit(self, name: str, edits: Sequence[Edit]) -> None:
        own = self.dynamic.setdefault(name, {})
        for edit in edits:
            if edit.value is None:
                own.pop(edit.name, None)
            else:
                own[edit.name] = edit.value


def _is_good(name: str, value: str) -> bool:
    if name == UNDER_REPLICATED:
        return value in ("true", "false")
    return value.isdecimal() and 1 <= int(value) <= NO_LIMIT
