"""Which partitions lack a leader or replicas in sync at one moment, and those that a step adds to them.

The indexes of each topic are kept as an array, because a lost rack of a large cluster affects most partitions.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from klamm.controller.configs import min_insync_replicas
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.settings import Settings

MOST_NAMES: Final = 10_000
"""Partitions of a kind that are named; the others are counted."""

Affected = Mapping[str, Mapping[str, NDArray[np.int64]]]
"""The indexes of the partitions by kind and topic. The kinds have the names of the members of `ClusterCounts`."""


@dataclass(frozen=True, slots=True)
class Named:
    """The partitions that a step has affected."""

    names: tuple[str, ...]
    """The first ones, as TOPIC-INDEX."""
    more: int
    """How many others there are."""


def affected_partitions(image: MetadataImage, settings: Settings) -> Affected:
    """The affected partitions of a cluster, in the order of the topics' names."""
    found: dict[str, dict[str, NDArray[np.int64]]] = {"offline": {}, "under_min_isr": {}, "under_replicated": {}}
    for name in sorted(image.topics_by_name):
        min_isr = min_insync_replicas(image.configs, settings, name)
        pieces: dict[str, list[NDArray[Any]]] = {kind: [] for kind in found}
        for owned, table in image.partitions.topic_ranges(image.topics_by_name[name].row):
            isr = table.isr_count[owned.rows]
            masks = {
                "offline": table.leader[owned.rows] < 0,
                "under_min_isr": isr < min_isr,
                "under_replicated": isr < table.replica_count[owned.rows],
            }
            for kind, mask in masks.items():
                pieces[kind].append(np.flatnonzero(mask) + owned.first_index)
        for kind, indexes in pieces.items():
            if any(piece.size for piece in indexes):
                found[kind][name] = np.sort(np.concatenate(indexes))
    return found


def led_by(image: MetadataImage, broker_ids: Collection[int]) -> Named:
    """The partitions whose leader is one of these brokers, in the order of the topics' names."""
    names: list[str] = []
    total = 0
    for name in sorted(image.topics_by_name):
        ranges = image.partitions.topic_ranges(image.topics_by_name[name].row)
        pieces = [np.flatnonzero(np.isin(table.leader[one.rows], list(broker_ids))) + one.first_index
                  for one, table in ranges]  # fmt: skip
        indexes = np.sort(np.concatenate(pieces))
        total += len(indexes)
        names += [f"{name}-{index}" for index in indexes[: MOST_NAMES - len(names)].tolist()]
    return Named(tuple(names), total - len(names))


def newly_affected(before: Affected, after: Affected) -> dict[str, Named]:
    """The partitions that are affected after a step and were not before it, by kind."""
    found: dict[str, Named] = {}
    for kind, topics in after.items():
        names: list[str] = []
        total = 0
        for name, indexes in topics.items():
            old = before[kind].get(name)
            new = indexes if old is None else np.setdiff1d(indexes, old, assume_unique=True)
            total += len(new)
            names += [f"{name}-{index}" for index in new[: MOST_NAMES - len(names)].tolist()]
        if names:
            found[kind] = Named(tuple(names), total - len(names))
    return found
