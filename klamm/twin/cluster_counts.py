"""Counts of a cluster at one moment: replicas and leaders of its brokers and racks, and partitions that lack some."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from klamm.assignment import NO_LIMIT
from klamm.controller.configs import max_broker_partitions, min_insync_replicas
from klamm.controller.metadata.columns import ColumnTable
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition_table import RowRange
from klamm.controller.settings import Settings

NO_RACK: Final = "-"


@dataclass(frozen=True, slots=True)
class BrokerCounts:
    """A broker with what it holds."""

    broker_id: int
    rack: str | None
    is_up: bool
    replicas: int
    leaders: int
    limit: int | None
    """`max.broker.partitions` as the cluster has it now; None: no limit."""

    @property
    def is_over_limit(self) -> bool:
        return self.limit is not None and self.replicas > self.limit


@dataclass(frozen=True, slots=True)
class ClusterCounts:
    """The brokers by id, and how many partitions there are of each kind."""

    brokers: tuple[BrokerCounts, ...]
    partitions: int
    offline: int
    """Partitions without a leader."""
    under_min_isr: int
    """Partitions with fewer replicas in sync than `min.insync.replicas`: producers with acks=all are refused."""
    under_replicated: int
    placeholders: int
    """Replicas that wait for a broker (KIP-409)."""
    few_racks: int
    """Partitions whose replicas are in fewer racks than they could be."""

    @property
    def racks(self) -> Mapping[str, tuple[int, int]]:
        """Replicas and leaders by rack."""
        found: dict[str, tuple[int, int]] = {}
        for broker in self.brokers:
            replicas, leaders = found.get(broker.rack or NO_RACK, (0, 0))
            found[broker.rack or NO_RACK] = replicas + broker.replicas, leaders + broker.leaders
        return dict(sorted(found.items()))

    def as_json(self) -> dict[str, Any]:
        """The same as a JSON object."""
        racks = {rack: {"replicas": replicas, "leaders": leaders} for rack, (replicas, leaders) in self.racks.items()}
        return {**asdict(self), "racks": racks}


def count_cluster(image: MetadataImage, settings: Settings) -> ClusterCounts:
    """Count everything once: a few ms for each 100,000 partitions."""
    broker_ids = sorted(image.brokers)
    highest = max(broker_ids, default=0)
    held, led = np.zeros(highest + 1, np.int64), np.zeros(highest + 1, np.int64)
    rack_of, rack_count = _racks(image, highest)
    offline = under_min_isr = under_replicated = placeholders = few_racks = 0
    for min_isr, rows, table in _ranges(image, settings):
        leader, isr, counts = table.leader[rows], table.isr_count[rows], table.replica_count[rows]
        replicas = table.replicas[rows]
        used = np.arange(replicas.shape[1]) < counts[:, None]
        real = used & (replicas >= 0) & (replicas <= highest)
        held += np.bincount(replicas[real], minlength=highest + 1)
        led += np.bincount(leader[(leader >= 0) & (leader <= highest)], minlength=highest + 1)
        offline += int((leader < 0).sum())
        under_min_isr += int((isr < min_isr).sum())
        under_replicated += int((isr < counts).sum())
        placeholders += int((used & (replicas < 0)).sum())
        few_racks += _in_few_racks(replicas, real, rack_of, rack_count)
    return ClusterCounts(
        brokers=tuple(_broker(image, settings, broker_id, held, led) for broker_id in broker_ids),
        partitions=image.total_partitions(),
        offline=offline,
        under_min_isr=under_min_isr,
        under_replicated=under_replicated,
        placeholders=placeholders,
        few_racks=few_racks,
    )


def _ranges(image: MetadataImage, settings: Settings) -> Iterator[tuple[int, slice, ColumnTable]]:
    for topic in image.topics_by_name.values():
        min_isr = min_insync_replicas(image.configs, settings, topic.name)
        found: RowRange
        for found, table in image.partitions.topic_ranges(topic.row):
            yield min_isr, found.rows, table


def _racks(image: MetadataImage, highest: int) -> tuple[NDArray[np.int64], int]:
    """The number of each broker's rack, and how many there are. Without a rack anywhere, there is one."""
    numbers = {rack: at for at, rack in enumerate(sorted({one.rack or "" for one in image.brokers.values()}))}
    rack_of = np.zeros(highest + 1, np.int64)
    for broker_id, broker in image.brokers.items():
        rack_of[broker_id] = numbers[broker.rack or ""]
    return rack_of, len(numbers)


def _in_few_racks(replicas: NDArray[Any], real: NDArray[np.bool_], rack_of: NDArray[np.int64], rack_count: int) -> int:
    if rack_count < 2:
        return 0
    racks = np.where(real, rack_of[np.where(real, replicas, 0)], -1)
    racks.sort(axis=1)
    is_new = np.ones(racks.shape, np.bool_)
    is_new[:, 1:] = racks[:, 1:] != racks[:, :-1]
    distinct = (is_new & (racks >= 0)).sum(axis=1)
    return int((distinct < np.minimum(real.sum(axis=1), rack_count)).sum())


def _broker(
    image: MetadataImage, settings: Settings, broker_id: int, held: NDArray[np.int64], led: NDArray[np.int64]
) -> BrokerCounts:
    broker = image.brokers[broker_id]
    limit = max_broker_partitions(image.configs, settings, broker_id)
    return BrokerCounts(
        broker_id=broker_id,
        rack=broker.rack,
        is_up=not broker.fenced,
        replicas=int(held[broker_id]),
        leaders=int(led[broker_id]),
        limit=None if limit >= NO_LIMIT else limit,
    )
