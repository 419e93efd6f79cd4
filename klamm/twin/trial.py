"""Applies changes to a fork of a twin, step by step, by the requests that an operator's tools would send.

The fork is a simulated cluster in this process with a clock that is advanced by hand: the controller decides, refuses,
elects and moves as it would in the original, without its waiting times. The twin itself is only read.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from klamm.admin.client import AdminClient
from klamm.admin.partition_types import TopicPartition
from klamm.admin.types import (
    ConfigAlteration,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    NewPartitions,
    NewTopic,
    Result,
)
from klamm.assignment import NO_LIMIT, CannotPlace, ClusterView, JavaRandom, rebalance
from klamm.cluster.cluster import Cluster
from klamm.cluster.errors import ClusterError
from klamm.controller.configs import max_broker_partitions, max_partitions
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.settings import Settings
from klamm.twin import changes
from klamm.twin.affected import Named, affected_partitions, led_by, newly_affected
from klamm.twin.changes import Step
from klamm.twin.cluster_counts import ClusterCounts, count_cluster

PARTITIONS_IN_A_REQUEST: Final = 1_000
SESSION_IS_OVER: Final = "20s"
ONE_LOOK: Final = "1s"
MOST_LOOKS: Final = 120
"""Seconds of the fork's clock after which a reassignment that is not over counts as stuck."""
MOST_REFUSALS: Final = 1_000
"""Refusals of a step that are kept one by one; the others are counted."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the controller refuses, and why."""

    subject: str
    code: str
    message: str | None


@dataclass(slots=True)
class StepResult:
    """What a step does to the cluster."""

    step: str
    refusals: list[Refusal] = field(default_factory=list)
    refused: int = 0
    """The number of refusals, also of those that are not kept one by one."""
    moves: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    """The replicas that are copied, by partition: brokers that did not have it before."""
    unfinished: int = 0
    """Reassignments that cannot end, because a broker that they need is down."""
    during: ClusterCounts | None = None
    """The counts when the step has begun; None: it has no duration."""
    after: ClusterCounts | None = None
    newly_affected: Mapping[str, Named] = field(default_factory=dict)
    """The partitions that the step has affected, by the names of the counts."""
    affected_meanwhile: Mapping[str, Named] = field(default_factory=dict)
    """The partitions that it has affected when it has begun, which `during` counts."""
    led_by_lost: Named | None = None
    """The partitions whose leader crashes: they have none until the session of its broker is over."""
    session_timeout_ms: int = 0

    def add(self, results: Iterable[Result]) -> None:
        """Note the errors among the results of a request."""
        for result in results:
            if result.error is not None:
                self.refuse(result._subject, result.error.code.name, result.error.message)

    def refuse(self, subject: str, code: str, message: str | None = None) -> None:
        self.refused += 1
        if len(self.refusals) < MOST_REFUSALS:
            self.refusals.append(Refusal(subject, code, message))


@dataclass(frozen=True, slots=True)
class Trial:
    """The whole result."""

    cluster_id: str
    before: ClusterCounts
    steps: Sequence[StepResult]
    max_partitions: int | None = None
    """`max.partitions` at the end, of the whole cluster; None: no limit."""

    @property
    def has_limit(self) -> bool:
        """Whether a limit of KIP-578 was in force, at the beginning or after a step."""
        counts = (self.before, *(step.after for step in self.steps if step.after is not None))
        by_broker = any(broker.limit is not None for one in counts for broker in one.brokers)
        return by_broker or self.max_partitions is not None

    @property
    def after(self) -> ClusterCounts:
        return (self.steps[-1].after or self.before) if self.steps else self.before


async def run_trial(
    twin: Path,
    steps: Sequence[Step],
    profile: Literal["kip", "kafka"] = "kip",
    configs: Mapping[str, str] | None = None,
) -> Trial:
    """Apply the steps to a fork of the twin, whose brokers have these static configs. Raises ClusterError if the twin
    cannot be read or a config is invalid."""
    async with (
        Cluster(twin=twin, clock="manual", seed=0, profile=profile, configs=configs) as cluster,
        AdminClient(cluster.bootstrap_servers) as admin,
    ):
        fork = _Fork(cluster, admin)
        before = fork.counts()
        results = [await fork.apply(step) for step in steps]
        return Trial(fork.cluster_id, before, results, fork.max_partitions())


async def suggest(
    twin: Path, broker_ids: Sequence[int] | None = None, configs: Mapping[str, str] | None = None
) -> Mapping[TopicPartition, tuple[int, ...]]:
    """An even placement of all partitions on the brokers that are up, or on these, with few moves: the partitions that
    change. The brokers have these static configs. Raises ClusterError and CannotPlace."""
    async with Cluster(twin=twin, clock="manual", seed=0, configs=configs) as cluster:
        return _even(cluster._up.image, cluster._plan.settings, broker_ids)


class _Fork:
    """The fork, with what its steps need."""

    def __init__(self, cluster: Cluster, admin: AdminClient) -> None:
        self._cluster = cluster
        self._admin = admin
        self._image = cluster._up.image
        self._settings = cluster._plan.settings
        self.cluster_id = cluster._up.identity.cluster_id
        self._affected = affected_partitions(self._image, self._settings)

    def _even(self, broker_ids: Sequence[int]) -> dict[TopicPartition, tuple[int, ...]]:
        return _even(self._image, self._settings, broker_ids)

    def counts(self) -> ClusterCounts:
        return count_cluster(self._image, self._settings)

    def max_partitions(self) -> int | None:
        limit = max_partitions(self._image.configs, self._settings)
        return None if limit >= NO_LIMIT else limit

    async def apply(self, step: Step) -> StepResult:
        result = StepResult(str(step))
        try:
            await self._apply(step, result)
        except ClusterError as error:
            result.refuse(str(step), "IMPOSSIBLE", str(error))
        result.after = self.counts()
        before, self._affected = self._affected, affected_partitions(self._image, self._settings)
        result.newly_affected = newly_affected(before, self._affected)
        return result

    async def _apply(self, step: Step, result: StepResult) -> None:
        match step:
            case changes.Reassign(targets):
                await self._reassign(targets, result)
            case changes.CreateTopic(name, partitions, replication_factor, configs):
                topic = NewTopic(name, partitions, replication_factor, configs)
                result.add(await self._admin.create_topics([topic]))
            case changes.AddPartitions(topic_name, to):
                result.add(await self._admin.create_partitions([NewPartitions(topic_name, to)]))
            case changes.SetConfigs():
                await self._set_configs(step, result)
            case changes.LoseBroker(broker_id):
                await self._lose([broker_id], result)
            case changes.LoseRack(rack):
                await self._lose(self._up_in(rack), result)
            case changes.ReturnBroker(broker_id):
                await self._cluster.start_broker(broker_id)
                await self._cluster.advance(SESSION_IS_OVER)
            case changes.Decommission(broker_id):
                await self._decommission(broker_id, result)
            case changes.ElectPreferredLeaders():
                result.add(await self._admin.elect_leaders())

    async def _set_configs(self, step: changes.SetConfigs, result: StepResult) -> None:
        kind = ConfigResourceType.TOPIC if step.topic else ConfigResourceType.BROKER
        name = step.topic or ("" if step.broker_id is None else str(step.broker_id))
        edits = [
            ConfigAlteration(config, value, ConfigOperation.DELETE if value is None else ConfigOperation.SET)
            for config, value in step.configs.items()
        ]
        result.add(await self._admin.incremental_alter_configs({ConfigResource(kind, name): edits}))

    def _up_in(self, rack: str) -> list[int]:
        found = [one.broker_id for one in self._image.brokers.values() if one.rack == rack and not one.fenced]
        if not found:
            raise ClusterError(f"no broker of rack {rack} is up")
        return sorted(found)

    async def _lose(self, broker_ids: Sequence[int], result: StepResult) -> None:
        """All of them at once: their sessions end together."""
        result.led_by_lost = led_by(self._image, broker_ids)
        result.session_timeout_ms = self._settings.broker_session_timeout_ms
        for broker_id in broker_ids:
            await self._cluster.stop_broker(broker_id, "crash")
        await self._cluster.advance(SESSION_IS_OVER)

    async def _reassign(self, targets: Mapping[TopicPartition, Sequence[int]], result: StepResult) -> None:
        wanted = list(targets.items())
        held = {partition: self._replicas_of(partition) for partition, _ in wanted}
        refused_before = result.refused
        for first in range(0, len(wanted), PARTITIONS_IN_A_REQUEST):
            piece = dict(wanted[first : first + PARTITIONS_IN_A_REQUEST])
            found = await self._admin.alter_partition_reassignments(piece)
            result.add(found)
            for one in found:
                new = tuple(sorted(set(targets[one.partition]) - held[one.partition]))
                if one.error is None and new:
                    result.moves[one.partition] = new
        result.during = self.counts()
        meanwhile = affected_partitions(self._image, self._settings)
        result.affected_meanwhile = newly_affected(self._affected, meanwhile)
        if len(wanted) > result.refused - refused_before:
            result.unfinished = await self._until_moved()

    def _replicas_of(self, partition: TopicPartition) -> set[int]:
        topic = self._image.topics_by_name.get(partition.topic_name)
        if topic is None or partition.partition_index >= self._image.partition_count(topic):
            return set()
        return set(self._image.partitions.read(topic.row, partition.partition_index).replicas)

    async def _until_moved(self) -> int:
        """Let time pass until no reassignment is in progress. Returns how many are left when nothing moves any more."""
        for _ in range(MOST_LOOKS):
            await self._cluster.advance(ONE_LOOK)
            if not self._image.partitions.reassigning:
                return 0
        return len(self._image.partitions.reassigning)

    async def _decommission(self, broker_id: int, result: StepResult) -> None:
        if broker_id not in self._image.brokers:
            raise ClusterError(f"there is no broker {broker_id}")
        others = [
            one.broker_id for one in self._image.brokers.values() if not one.fenced and one.broker_id != broker_id
        ]
        try:
            targets = {
                partition: replicas
                for partition, replicas in self._even(others).items()
                if broker_id in self._replicas_of(partition)
            }
        except CannotPlace as error:
            result.refuse(f"broker {broker_id}", "CANNOT_PLACE", str(error))
            return
        if targets:
            await self._reassign(targets, result)
        if not result.refused and not result.unfinished:
            await self._cluster.remove_broker(broker_id)


def _even(
    image: MetadataImage, settings: Settings, broker_ids: Sequence[int] | None
) -> dict[TopicPartition, tuple[int, ...]]:
    """The partitions that an even placement changes, with their new replicas. Partitions of one replication factor are
    placed together; each group counts what the others hold."""
    groups: dict[int, list[tuple[TopicPartition, tuple[int, ...]]]] = {}
    for topic in image.topics_by_name.values():
        for index in range(image.partition_count(topic)):
            replicas = image.partitions.read(topic.row, index).replicas
            groups.setdefault(len(replicas), []).append((TopicPartition(topic.name, index), replicas))
    held = Counter(replica for rows in groups.values() for _, replicas in rows for replica in replicas if replica >= 0)
    brokers = [image.brokers[broker_id] for broker_id in sorted(image.brokers)]
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for _, rows in sorted(groups.items()):
        view = ClusterView(
            broker_ids=np.array([one.broker_id for one in brokers], dtype=np.int32),
            racks=tuple(one.rack for one in brokers),
            fenced=np.array([one.fenced for one in brokers], dtype=np.bool_),
            replica_counts=np.array([held[one.broker_id] for one in brokers], dtype=np.int64),
            replica_limit=max_broker_partitions(image.configs, settings),
        )
        placement = np.array([replicas for _, replicas in rows], dtype=np.int32)
        placed = rebalance(view, placement, JavaRandom(0), broker_ids).placement.tolist()
        for (partition, replicas), new in zip(rows, placed, strict=True):
            held.subtract(one for one in replicas if one >= 0)
            held.update(one for one in new if one >= 0)
            if tuple(new) != replicas:
                found[partition] = tuple(new)
    return found


def moved_bytes(trial: Trial, sizes: Mapping[TopicPartition, int]) -> dict[int, int]:
    """The bytes that each broker receives in all steps."""
    received: dict[int, int] = {}
    for step in trial.steps:
        for partition, brokers in step.moves.items():
            for broker_id in brokers:
                received[broker_id] = received.get(broker_id, 0) + sizes.get(partition, 0)
    return received


def _named(affected: Mapping[str, Named]) -> dict[str, Any]:
    return {kind: {"partitions": list(named.names), "more": named.more} for kind, named in affected.items()}


def as_json(trial: Trial, received: Mapping[int, int] | None) -> dict[str, Any]:
    """The result as a JSON object. `received`: the bytes by broker; None: sizes are not known."""
    return {
        "cluster_id": trial.cluster_id,
        "before": trial.before.as_json(),
        "steps": [
            {
                "step": one.step,
                "refused": one.refused,
                "refusals": [{"subject": r.subject, "code": r.code, "message": r.message} for r in one.refusals],
                "copied_replicas": sum(map(len, one.moves.values())),
                "unfinished_reassignments": one.unfinished,
                "newly_affected": _named(one.newly_affected),
                "affected_meanwhile": _named(one.affected_meanwhile),
                "leader_lost_meanwhile": None
                if one.led_by_lost is None
                else {
                    **_named({"": one.led_by_lost})[""],
                    "session_timeout_ms": one.session_timeout_ms,
                },
                "during": None if one.during is None else one.during.as_json(),
                "after": None if one.after is None else one.after.as_json(),
            }
            for one in trial.steps
        ],
        "received_bytes": None
        if received is None
        else {str(broker): size for broker, size in sorted(received.items())},
    }
