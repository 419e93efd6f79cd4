"""Applies changes to a fork of a twin, step by step, by the requests that an operator's tools would send.

The fork is a simulated cluster in this process with a clock that is advanced by hand: the controller decides, refuses,
elects and moves as it would in the original, without its waiting times. The twin itself is only read.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

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
from klamm.assignment import NO_LIMIT, ClusterView, JavaRandom, rebalance
from klamm.assignment.wording import counted
from klamm.cluster.cluster import Cluster
from klamm.cluster.errors import ClusterError
from klamm.controller.configs import max_broker_partitions, max_partitions
from klamm.controller.log.memory_log import MemoryLog
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.settings import Settings
from klamm.twin import changes
from klamm.twin.affected import Named, affected_partitions, led_by, newly_affected
from klamm.twin.changes import InvalidChanges, Step
from klamm.twin.cluster_counts import ClusterCounts, count_cluster
from klamm.twin.decommission import NoRoom, away_from
from klamm.twin.known_names import listed, refuse_unknown, unknown_config_lines

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
    done: list[str] = field(default_factory=list)
    """What the step did beside moves, one line each."""
    warnings: list[str] = field(default_factory=list)
    moves: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    """The replicas that are copied, by partition: brokers that did not have it before."""
    sources: dict[TopicPartition, int] = field(default_factory=dict)
    """The leaders from which these replicas are copied; a partition without a leader has none."""
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


class CopyEnd(NamedTuple):
    """Which metadata the fork began with."""

    path: str = "-"
    """As it was given."""
    end_offset: int = 0
    last_timestamp_ms: int | None = None
    """The time of its last record; None: the copy does not say it."""


NO_COPY: Final = CopyEnd()


@dataclass(frozen=True, slots=True)
class Trial:
    """The whole result."""

    cluster_id: str
    before: ClusterCounts
    steps: Sequence[StepResult]
    copy: CopyEnd = NO_COPY
    profile: str = "kip"
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
    cannot be read or a config is invalid, and InvalidChanges if a step names a broker or a rack that is unknown."""
    unknown: InvalidChanges | None = None
    async with (
        Cluster(twin=twin, clock="manual", seed=0, profile=profile, configs=configs) as cluster,
        AdminClient(cluster.bootstrap_servers) as admin,
    ):
        fork = _Fork(cluster, admin)
        before = fork.counts()
        try:
            refuse_unknown(steps, fork.brokers)
        except InvalidChanges as error:
            unknown = error  # raised outside, because the cluster would put it into a group
        else:
            results = [await fork.apply(step) for step in steps]
            end = fork.copy_end(twin)
            return Trial(fork.cluster_id, before, results, end, profile, fork.max_partitions())
    assert unknown is not None, "the cluster has ended without an error"
    raise unknown


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

    @property
    def brokers(self) -> Mapping[int, str | None]:
        """The rack of each broker."""
        return {broker_id: self._image.brokers[broker_id].rack for broker_id in sorted(self._image.brokers)}

    def copy_end(self, twin: Path) -> CopyEnd:
        log = self._cluster._up._parts.log
        assert isinstance(log, MemoryLog), "a fork has no directory of its own"
        assert log.past_end is not None, "it goes on from the copy"
        return CopyEnd(str(twin), *log.past_end)

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
                self._note_new(name, 0, "created", result)
            case changes.AddPartitions(topic_name, to):
                first = self._partition_count(topic_name)
                result.add(await self._admin.create_partitions([NewPartitions(topic_name, to)]))
                self._note_new(topic_name, first, "added", result)
            case changes.SetConfigs():
                await self._set_configs(step, result)
            case changes.LoseBroker(broker_id):
                await self._lose([broker_id], result)
            case changes.LoseRack(rack):
                await self._lose(self._up_in(rack), result)
            case changes.ReturnBroker(broker_id):
                await self._cluster.start_broker(broker_id)
                await self._cluster.advance(SESSION_IS_OVER)
                result.done.append(f"started: broker {broker_id}")
            case changes.Decommission(broker_id):
                await self._decommission(broker_id, result)
            case changes.ElectPreferredLeaders():
                elected = await self._admin.elect_leaders()
                result.add(elected)
                changed = sum(one.error is None for one in elected)
                result.done.append(f"elected: {counted(changed, 'leader')}")

    def _partition_count(self, topic_name: str) -> int:
        topic = self._image.topics_by_name.get(topic_name)
        return 0 if topic is None else self._image.partition_count(topic)

    def _note_new(self, topic_name: str, first: int, verb: str, result: StepResult) -> None:
        """The partitions of a topic from index `first` on, if they were not refused."""
        if result.refused:
            return
        indexes = range(first, self._partition_count(topic_name))
        row = self._image.topics_by_name[topic_name].row
        replicas = sum(len(self._image.partitions.read(row, index).replicas) for index in indexes)
        result.done.append(f"{verb}: {counted(len(indexes), 'partition')}, {counted(replicas, 'replica')}")

    async def _set_configs(self, step: changes.SetConfigs, result: StepResult) -> None:
        kind = ConfigResourceType.TOPIC if step.topic else ConfigResourceType.BROKER
        name = step.topic or ("" if step.broker_id is None else str(step.broker_id))
        edits = [
            ConfigAlteration(config, value, ConfigOperation.DELETE if value is None else ConfigOperation.SET)
            for config, value in step.configs.items()
        ]
        result.add(await self._admin.incremental_alter_configs({ConfigResource(kind, name): edits}))
        if not result.refused:
            result.done.append(step.done())
        if kind is ConfigResourceType.BROKER:
            result.warnings += unknown_config_lines(step.configs)

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
        result.done.append(f"crashed: {'broker' if len(broker_ids) == 1 else 'brokers'} {listed(broker_ids)}")

    async def _reassign(self, targets: Mapping[TopicPartition, Sequence[int]], result: StepResult) -> None:
        wanted = list(targets.items())
        held = {partition: self._replicas_of(partition) for partition, _ in wanted}
        leaders = {partition: self._leader_of(partition) for partition, _ in wanted}
        refused_before = result.refused
        for first in range(0, len(wanted), PARTITIONS_IN_A_REQUEST):
            piece = dict(wanted[first : first + PARTITIONS_IN_A_REQUEST])
            found = await self._admin.alter_partition_reassignments(piece)
            result.add(found)
            for one in found:
                new = tuple(sorted(set(targets[one.partition]) - held[one.partition]))
                if one.error is None and new:
                    result.moves[one.partition] = new
                    if leaders[one.partition] >= 0:
                        result.sources[one.partition] = leaders[one.partition]
        accepted = len(wanted) - (result.refused - refused_before)
        if accepted > len(result.moves):
            result.done.append(f"reassigned without a copy: {counted(accepted - len(result.moves), 'partition')}")
        result.during = self.counts()
        meanwhile = affected_partitions(self._image, self._settings)
        result.affected_meanwhile = newly_affected(self._affected, meanwhile)
        if accepted:
            result.unfinished = await self._until_moved()

    def _replicas_of(self, partition: TopicPartition) -> set[int]:
        topic = self._image.topics_by_name.get(partition.topic_name)
        if topic is None or partition.partition_index >= self._image.partition_count(topic):
            return set()
        return set(self._image.partitions.read(topic.row, partition.partition_index).replicas)

    def _leader_of(self, partition: TopicPartition) -> int:
        topic = self._image.topics_by_name.get(partition.topic_name)
        if topic is None or partition.partition_index >= self._image.partition_count(topic):
            return -1
        return self._image.partitions.read(topic.row, partition.partition_index).leader

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
        try:
            targets = away_from(self._image, self._settings, broker_id)
        except NoRoom as error:
            result.refuse(f"broker {broker_id}", "CANNOT_PLACE", str(error))
            return
        if targets:
            await self._reassign(targets, result)
        if not result.refused and not result.unfinished:
            await self._cluster.remove_broker(broker_id)
            result.done.append(f"removed: broker {broker_id}")


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
