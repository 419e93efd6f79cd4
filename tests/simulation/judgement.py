"""What requests are answered, in plain Python: order of checks and codes of each profile, topic by topic.

Several topics of one request are judged in turn, each with what the former ones took. A judgement is the set of codes
that are right: one, except where it depends on chance that no record tells of.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics.create_partitions import CreatePartitionsTopic
from klamm.protocol.messages.topics.create_topics import CreatableTopic
from tests.simulation.model import Model
from tests.simulation.model_configs import MIN_ISR, NO_LIMIT, TOPIC, UNLIMITED_TOPICS, Alteration, ModelLimits

NUM_PARTITIONS, REPLICATION_FACTOR = 2, 2
MAX_PLACEHOLDERS = 16
Codes = frozenset[ErrorCode]
NONE: Final = frozenset({ErrorCode.NONE})
REFUSED: Final = frozenset({ErrorCode.POLICY_VIOLATION})


@dataclass
class Asked:
    """One request: whom it was sent to, and what its topics took so far."""

    model: Model
    broker_id: int | None
    replicas: Counter[int] = field(default_factory=Counter)
    partitions: int = 0
    untold: bool = False
    """Whether replicas were placed of which nobody knows where: validate_only writes nothing."""

    def take(self, name: str, rows: Collection[Sequence[int]] | None, partitions: int) -> None:
        if name in UNLIMITED_TOPICS:
            return
        self.partitions += partitions
        if rows is None:
            self.untold = True
        else:
            self.replicas.update(replica for row in rows for replica in row if replica >= 0)

    def limits(self, name: str) -> ModelLimits:
        return ModelLimits() if name in UNLIMITED_TOPICS else self.model.configs.limits(self.broker_id)

    def room(self, name: str) -> dict[int, int]:
        """How many replicas each registered broker can still take by its limit."""
        limit, held = self.limits(name).replicas, self.model.held()
        return {
            broker_id: max(0, limit - held[broker_id] - self.replicas[broker_id]) for broker_id in self.model.brokers
        }

    def _has_room_for_partitions(self, name: str, partitions: int) -> bool:
        return self.model.partition_count() + self.partitions + partitions <= self.limits(name).partitions

    # Creation

    def judge_creation(self, topic: CreatableTopic, version: int) -> Codes:
        return self._judge_name(topic.name) or (
            frozenset({ErrorCode.INVALID_CONFIG})
            if any(config.name == "no.such" for config in topic.configs)
            else self._judge_by_hand(topic)
            if topic.assignments
            else self._judge_counts(topic, version)
        )

    def _judge_name(self, name: str) -> Codes:
        code = None
        if name == "__cluster_metadata":
            code = ErrorCode.INVALID_REQUEST
        elif not is_good_name(name):
            code = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif name in self.model.topics:
            code = ErrorCode.TOPIC_ALREADY_EXISTS
        elif any(name.replace(".", "_") == other.replace(".", "_") for other in self.model.topics):
            code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return frozenset() if code is None else frozenset({code})

    def _judge_counts(self, topic: CreatableTopic, version: int) -> Codes:
        old = version < 4 and self.model.profile == "kip"
        bad_partitions = frozenset({ErrorCode.INVALID_PARTITIONS})
        bad_factor = frozenset({ErrorCode.INVALID_REPLICATION_FACTOR})
        if old and topic.num_partitions == -1:
            return bad_partitions
        if old and topic.replication_factor == -1:
            return bad_factor
        if topic.replication_factor < -1 or topic.replication_factor == 0:
            return bad_factor
        if topic.num_partitions < -1 or topic.num_partitions == 0:
            return bad_partitions
        partitions, replication_factor = wanted_counts(topic)
        own = [int(config.value or 0) for config in topic.configs if config.name == MIN_ISR]
        return self.judge_placement(topic.name, partitions, replication_factor, own[-1] if own else None)

    def judge_placement(self, name: str, partitions: int, replication_factor: int, own_min_isr: int | None) -> Codes:
        """First the number of brokers decides, then the limits."""
        model = self.model
        usable = model.usable()
        live = [broker_id for broker_id in usable if model.brokers[broker_id].live]
        missing = replication_factor - len(usable)
        min_isr = model.configs.min_isr(self.broker_id) if own_min_isr is None else own_min_isr
        under_replicated = (
            model.configs.under_replicated(self.broker_id)
            and len(live) >= min(min_isr, replication_factor)
            and missing <= MAX_PLACEHOLDERS
        )
        if not live or (missing > 0 and not under_replicated):
            return frozenset({ErrorCode.INVALID_REPLICATION_FACTOR})
        if not self._has_room_for_partitions(name, partitions):
            return REFUSED
        room = self.room(name)
        return self._judge_room(
            [min(room[broker_id], partitions) for broker_id in live],
            [min(room[broker_id], partitions) for broker_id in usable if broker_id not in live],
            partitions,
            min(replication_factor, len(usable)),
            self.limits(name).replicas,
        )

    def _judge_room(self, live: list[int], fenced: list[int], partitions: int, width: int, limit: int) -> Codes:
        """Σ min(room, P) ≥ P · R over all that may be used, and at least one live broker for each row."""
        if sum(live) < partitions or sum(live) + sum(fenced) < partitions * width:
            return REFUSED
        return REFUSED | NONE if self.untold and limit < NO_LIMIT else NONE

    def _judge_by_hand(self, topic: CreatableTopic) -> Codes:
        if topic.replication_factor != -1 or topic.num_partitions != -1:
            return frozenset({ErrorCode.INVALID_REQUEST})
        indexes = [assignment.partition_index for assignment in topic.assignments]
        rows = [assignment.broker_ids for assignment in topic.assignments]
        if sorted(indexes) != list(range(len(rows))) or not self._rows_are_good(rows, len(rows[0])):
            return frozenset({ErrorCode.INVALID_REPLICA_ASSIGNMENT})
        return self._judge_rows(topic.name, rows)

    def _rows_are_good(self, rows: Iterable[Sequence[int]], replication_factor: int) -> bool:
        brokers = self.model.brokers
        return all(
            len(row) == replication_factor == len(set(row))
            and all(broker_id in brokers for broker_id in row)
            and any(brokers[broker_id].live for broker_id in row)
            for row in rows
        )

    def _judge_rows(self, name: str, rows: Sequence[Sequence[int]]) -> Codes:
        if not self._has_room_for_partitions(name, len(rows)):
            return REFUSED
        room, limit = self.room(name), self.limits(name).replicas
        added = Counter(broker_id for row in rows for broker_id in row)
        if limit < NO_LIMIT and any(more > room[broker_id] for broker_id, more in added.items()):
            return REFUSED
        return REFUSED | NONE if self.untold and limit < NO_LIMIT else NONE

    # Enlargement

    def judge_growth(self, topic: CreatePartitionsTopic) -> Codes:
        known = self.model.topics.get(topic.name)
        kip = self.model.profile == "kip"
        if known is None:
            unknown = ErrorCode.INVALID_TOPIC_EXCEPTION if kip else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return frozenset({unknown})
        adding = topic.count - len(known.partitions)
        if adding <= 0:
            return frozenset({ErrorCode.INVALID_PARTITIONS})
        replication_factor = len(known.partitions[0].replicas)
        if topic.assignments is None:
            return self.judge_placement(topic.name, adding, replication_factor, known.min_isr)
        if len(topic.assignments) != adding:
            return frozenset({ErrorCode.INVALID_REQUEST if kip else ErrorCode.INVALID_REPLICA_ASSIGNMENT})
        rows = [assignment.broker_ids for assignment in topic.assignments]
        if not self._rows_are_good(rows, replication_factor):
            return frozenset({ErrorCode.INVALID_REPLICA_ASSIGNMENT})
        return self._judge_rows(topic.name, rows)

    # The rest

    def judge_auto_creation(self, name: str) -> Codes:
        """The code that Metadata gives a name: of what it makes, it does not know yet."""
        if name in self.model.topics:
            return NONE
        if not is_good_name(name):
            return frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION})
        codes = self.judge_creation(CreatableTopic(name=name, num_partitions=-1, replication_factor=-1), 7)
        return frozenset({code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for code in codes})

    def judge_alteration(self, alteration: Alteration) -> ErrorCode:
        kind, name, edits = alteration
        if kind != TOPIC:
            return self.model.configs.judge_broker_edits(name, edits, self.broker_id, self.model.brokers)
        if not is_good_name(name):
            return ErrorCode.INVALID_TOPIC_EXCEPTION if name else ErrorCode.INVALID_REQUEST
        if any(edit.value == "0" for edit in edits):
            return ErrorCode.INVALID_CONFIG
        return ErrorCode.NONE if name in self.model.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def judge_deletion(model: Model, names: Sequence[str]) -> dict[str, int]:
    """The code of each name."""
    times = Counter(names)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {
        name: int(ErrorCode.INVALID_REQUEST if times[name] > 1 else ErrorCode.NONE if name in model.topics else unknown)
        for name in names
    }


def is_good_name(name: str) -> bool:
    return re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) is not None and name not in (".", "..")


def wanted_counts(topic: CreatableTopic) -> tuple[int, int]:
    """Partitions and replication factor, defaults included (KIP-464)."""
    return (
        NUM_PARTITIONS if topic.num_partitions == -1 else topic.num_partitions,
        REPLICATION_FACTOR if topic.replication_factor == -1 else topic.replication_factor,
    )
