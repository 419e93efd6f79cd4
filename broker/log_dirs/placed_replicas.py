"""Which log directory of a simulated broker each of its replicas is in, where the metadata do not say it yet.

The controller gives a new replica on a broker with several log directories no directory (KIP-858). The broker chooses
the one with the fewest replicas, or the one that AlterReplicaLogDirs named before, and reports its choice with
AssignReplicasToDirs; from then on the metadata have it. Both are done in steps with the deltas and ticks. Clusters
whose brokers have one directory each have no work here.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Final

import numpy as np

from klamm.broker.log_dirs.directories import LogDir, LogDirs
from klamm.controller.metadata.broker import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from klamm.controller.metadata.columns import among
from klamm.controller.metadata.delta import Delta, IntColumn, PartitionRows
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey
from klamm.protocol.messages.brokers.assign_replicas_to_dirs import DirectoryData, PartitionData, TopicData
from klamm.protocol.uuid import Uuid

CHOICES_AT_ONCE: Final = 1_000
"""The most partitions whose replicas get a directory in one step, at some 10 µs each."""
MAX_UNREPORTED: Final = 10_000
"""Choices that wait to be reported; with more of them, further choices wait."""
MAX_PREFERRED: Final = 10_000
"""The most directories that are named for replicas which do not exist yet."""
_NOWHERE: Final = (MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY)


class PlacedReplicas:
    """The directories that brokers have chosen, and those that they still have to choose."""

    def __init__(self) -> None:
        self._brokers: Mapping[int, LogDirs] = {}
        """The log directories of the simulated brokers that are up."""
        self._has_choice = False
        """Whether one of these brokers has several directories."""
        self._chosen: dict[int, dict[LogKey, Uuid]] = {}
        """By broker id: the directories that the metadata do not have yet."""
        self._preferred: dict[tuple[int, str, int], str] = {}
        """Directories for replicas that do not exist yet, by broker id, topic name and partition."""
        self._queue: deque[tuple[int, IntColumn]] = deque()
        """Partitions with replicas that may have no directory: topic rows and indexes."""
        self._counts: dict[Uuid, int] = {}
        """The replicas in each directory when the queue began to fill, and those that were added since then."""
        self._scan_is_due = False

    def use(self, brokers: Mapping[int, LogDirs]) -> None:
        """Choose directories for the replicas on these brokers, which are up. The next step searches all partitions for
        replicas without one."""
        self._brokers = brokers
        self._has_choice = any(len(log_dirs.all) > 1 for log_dirs in brokers.values())
        self._scan_is_due = True

    def follow(self, image: MetadataImage, delta: Delta) -> None:
        """Note the replicas of a replayed batch that have no directory, and choose directories for the first ones."""
        if not self._has_choice:
            return
        known = len(self._queue)
        self._queue.extend(delta.new_partitions.by_topic())
        if delta.has_new_replicas or delta.names_replicas:
            self._queue.extend(delta.changed_partitions.by_topic())
        if len(self._queue) > known:
            self.step(image)

    @property
    def has_work(self) -> bool:
        """Whether directories have to be chosen or reported."""
        return self._scan_is_due or bool(self._queue) or bool(self.reporting)

    def step(self, image: MetadataImage) -> None:
        """Choose the directories of some replicas that have none."""
        if self._scan_is_due:
            self._scan_is_due = False
            self._scan(image)
        if not self._queue:
            return
        self._counts = self._counts or self._count(image)
        left = min(CHOICES_AT_ONCE, MAX_UNREPORTED - sum(map(len, self._chosen.values())))
        while self._queue and left > 0:
            topic_row, indexes = self._queue.popleft()
            if len(indexes) > left:
                self._queue.appendleft((topic_row, indexes[left:]))
                indexes = indexes[:left]
            left -= len(indexes)
            self._choose(image, topic_row, indexes.tolist())
        if not self._queue:
            self._counts = {}

    def directory_of(self, image: MetadataImage, broker_id: int, key: LogKey) -> Uuid | None:
        """The directory of a broker's replica; None: there is no replica, or it has no directory yet."""
        chosen = self._chosen.get(broker_id)
        if chosen and (directory := chosen.get(key)) is not None:
            return directory
        topic = image.topics_by_id.get(key[0])
        try:
            partition = None if topic is None else image.partitions.read(topic.row, key[1])
        except KeyError:
            return None
        if partition is None or broker_id not in partition.replicas:
            return None
        directory = partition.directories[partition.replicas.index(broker_id)]
        if directory not in _NOWHERE:
            return directory
        log_dirs = self._brokers.get(broker_id)
        return log_dirs.all[0].directory_id if log_dirs is not None and len(log_dirs.all) == 1 else None

    @property
    def reporting(self) -> Collection[int]:
        """The brokers that have something to report."""
        return [broker_id for broker_id, chosen in self._chosen.items() if chosen]

    def chosen_of(self, broker_id: int) -> Mapping[LogKey, Uuid]:
        """The directories of a broker's replicas that the metadata do not have yet."""
        return self._chosen.get(broker_id, {})

    def choose(self, broker_id: int, key: LogKey, directory_id: Uuid) -> None:
        """Report that a broker's replica is in this directory from now on."""
        self._chosen.setdefault(broker_id, {})[key] = directory_id

    def prefer(self, broker_id: int, topic_name: str, partition_index: int, path: str) -> None:
        """Put a replica that does not exist yet into this directory when it is created."""
        self._preferred[broker_id, topic_name, partition_index] = path

    @property
    def preferred_count(self) -> int:
        """How many directories are named for replicas that do not exist."""
        return len(self._preferred)

    def report(self, broker_id: int, most: int) -> list[DirectoryData]:
        """What the broker's next AssignReplicasToDirs contains: up to `most` replicas; empty: none has to be
        reported."""
        by_directory: dict[Uuid, dict[Uuid, list[int]]] = {}
        for (topic_id, index), directory in islice(self._chosen.get(broker_id, {}).items(), most):
            by_directory.setdefault(directory, {}).setdefault(topic_id, []).append(index)
        return [
            DirectoryData(
                id=directory,
                topics=[
                    TopicData(topic_id=topic_id, partitions=[PartitionData(partition_index=one) for one in indexes])
                    for topic_id, indexes in topics.items()
                ],
            )
            for directory, topics in by_directory.items()
        ]

    def reported(self, broker_id: int, sent: Iterable[DirectoryData]) -> None:
        """Forget what the controller has answered for: the metadata have it, or the replica is gone."""
        chosen = self._chosen.get(broker_id, {})
        for directory in sent:
            for topic in directory.topics:
                for one in topic.partitions:
                    if chosen.get((topic.topic_id, one.partition_index)) == directory.id:
                        del chosen[topic.topic_id, one.partition_index]

    def _lost_numbers(self, image: MetadataImage) -> list[int]:
        """The numbers of directories that are those of no broker: a simulated one was started with fewer of them."""
        there = {directory for broker in image.brokers.values() for directory in broker.log_dirs}
        there.update(one.directory_id for log_dirs in self._brokers.values() for one in log_dirs.all)
        numbers = enumerate(image.partitions.directory_ids.ids)
        return [number for number, directory in numbers if directory not in there and directory not in _NOWHERE]

    def _scan(self, image: MetadataImage) -> None:
        """Add all partitions with a replica that has no directory, or had one that its broker has no longer."""
        wanted = self._lost_numbers(image)
        if self._has_choice:
            known = (image.partitions.directory_ids.known(directory) for directory in _NOWHERE)
            wanted += [number for number in known if number is not None]
        found = PartitionRows()
        for table in image.partitions.tables.values() if wanted else ():
            at = slice(0, table.count)
            has = (among(table.directories[at], wanted) & (table.replicas[at] >= 0)).any(axis=1)
            rows = np.flatnonzero(has)
            if len(rows):
                found.add_run(table.topic_row[rows], table.partition_index[rows])
        self._queue.extend(found.by_topic())

    def _choose(self, image: MetadataImage, topic_row: int, indexes: Iterable[int]) -> None:
        topic = image.topics_by_row.get(topic_row)
        for index in indexes if topic is not None else ():
            assert topic is not None, "checked above"
            try:
                partition = image.partitions.read(topic_row, index)
            except KeyError:
                continue
            for broker_id, directory in zip(partition.replicas, partition.directories, strict=True):
                log_dirs = self._brokers.get(broker_id)
                if log_dirs is None or (directory not in _NOWHERE and log_dirs.find(directory) is not None):
                    continue
                if len(log_dirs.all) == 1 and directory in _NOWHERE:
                    continue  # the only directory is where it is
                if (topic.topic_id, index) in self._chosen.get(broker_id, {}):
                    continue
                if (chosen := self._choice(broker_id, log_dirs, topic.name, index)) is not None:
                    self._counts[chosen.directory_id] = self._counts.get(chosen.directory_id, 0) + 1
                    self.choose(broker_id, (topic.topic_id, index), chosen.directory_id)

    def _choice(self, broker_id: int, log_dirs: LogDirs, topic_name: str, index: int) -> LogDir | None:
        path = self._preferred.pop((broker_id, topic_name, index), None) if self._preferred else None
        preferred = None if path is None else log_dirs.at(path)
        if preferred is not None and preferred.is_online:
            return preferred
        # As in Kafka: where all directories are cordoned, the first one is taken.
        open_ones = [one for one in log_dirs.online if not one.is_cordoned] or log_dirs.online[:1]
        return min(open_ones, key=lambda one: self._counts.get(one.directory_id, 0), default=None)

    def _count(self, image: MetadataImage) -> dict[Uuid, int]:
        """The number of replicas in each log directory. A topic that was deleted no longer counts: its rows have no
        replicas."""
        ids = image.partitions.directory_ids.ids
        counts = np.zeros(len(ids), dtype=np.int64)
        for table in image.partitions.tables.values():
            at = slice(0, table.count)
            held = table.directories[at][table.replicas[at] >= 0]
            counts += np.bincount(held, minlength=len(ids))
        found = dict(zip(ids, counts.tolist(), strict=True))
        for chosen in self._chosen.values():
            for directory in chosen.values():
                found[directory] = found.get(directory, 0) + 1
        return found
