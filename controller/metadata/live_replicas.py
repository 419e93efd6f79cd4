"""The replicas that could lead: their broker may lead, and has their log directory online (KIP-858)."""

import numpy as np
from numpy.typing import NDArray

from klamm.controller.metadata.broker import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from klamm.controller.metadata.broker_set import BrokerSet
from klamm.controller.metadata.columns import ColumnTable
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import Partition


class AcceptableLeaders:
    """The replicas of one partition that could lead. Each one is checked when it is tested for membership."""

    __slots__ = ("_brokers", "_partition")

    def __init__(self, image: MetadataImage, partition: Partition) -> None:
        self._brokers, self._partition = image.brokers, partition

    def __contains__(self, broker_id: object) -> bool:
        if broker_id not in self._partition.replicas:
            return False
        position = self._partition.replicas.index(broker_id)
        broker = self._brokers.get(broker_id)
        return broker is not None and broker.live and broker.has_directory(self._partition.directories[position])


_NO_BROKER, _ANY_BROKER = -1, -2


class LiveReplicas:
    """The replicas on a set of brokers that could lead, for many rows of columns at a time."""

    __slots__ = ("_brokers", "_owners")

    def __init__(self, image: MetadataImage, brokers: BrokerSet) -> None:
        self._brokers = brokers
        directories = image.partitions.directory_ids
        self._owners = np.full(len(directories.ids), _NO_BROKER, dtype=np.int64)
        for broker in image.brokers.values():
            for directory in broker.log_dirs:
                self._own(directories.known(directory), broker.broker_id)
        # A replica whose directory is not known yet counts as online.
        for anywhere in (MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY):
            self._own(directories.known(anywhere), _ANY_BROKER)

    def _own(self, number: int | None, broker_id: int) -> None:
        if number is not None:
            self._owners[number] = broker_id

    def holds(self, table: ColumnTable, rows: NDArray[np.int64] | slice) -> NDArray[np.bool_]:
        """For each replica of `rows`, shape (rows, width), whether it could lead."""
        replicas = table.replicas[rows]
        on_broker = self._brokers.holds(replicas)
        owners = self._owners[np.where(on_broker, table.directories[rows], 0)]
        there: NDArray[np.bool_] = (owners == replicas) | (owners == _ANY_BROKER)
        return on_broker & there

    def of_row(self, table: ColumnTable, row: int) -> set[int]:
        """The replicas of one row that could lead."""
        found = set()
        for replica, directory in zip(table.replicas[row].tolist(), table.directories[row].tolist(), strict=True):
            if replica in self._brokers and self._owners[directory] in (replica, _ANY_BROKER):
                found.add(replica)
        return found
