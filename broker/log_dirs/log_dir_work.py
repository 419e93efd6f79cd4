"""What simulated brokers do about their log directories: they choose, report, move and lose them.

Each tick does a bounded part of it. The requests are those of real brokers, submitted within this process.
"""

from collections.abc import Mapping
from typing import Final

from klamm.broker.data.data_plane import DataPlane
from klamm.broker.log_dirs.directories import LogDir
from klamm.broker.log_dirs.moves import FutureReplica, Moves
from klamm.broker.log_dirs.placed_replicas import PlacedReplicas
from klamm.broker.simulated_broker import SimulatedBroker
from klamm.controller.busy import Busy
from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.image import BROKER_RESOURCE, MetadataImage
from klamm.controller.metadata.partition import LogKey
from klamm.controller.settings import Settings
from klamm.controller.transitions.config_changes import CORDONED_LOG_DIRS

MOVES_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
REPORTED_AT_ONCE: Final = 500
"""The most replicas whose directories all brokers report in one tick, at some 20 µs each."""


class LogDirWork:
    """The log directories of all simulated brokers."""

    def __init__(self, brokers: Mapping[int, SimulatedBroker], data: DataPlane, settings: Settings) -> None:
        self.placed = PlacedReplicas()
        """Which directory each replica is in, where the metadata do not say it."""
        self.moves = Moves(data.rates, settings.data_limits.replication_rate)
        """The moves between directories."""
        self._brokers = brokers
        self._data = data
        self._up: frozenset[int] = frozenset()
        self._cordoning: set[str] = set()
        """The brokers whose `cordoned.log.dirs` changed, as the resources are named."""
        self._has_read_configs = False

    def note_who_is_up(self, now_ms: int) -> None:
        """Moves pause while their broker is down. A broker that comes up chooses directories."""
        up = frozenset(broker_id for broker_id, broker in self._brokers.items() if broker.is_up)
        if up == self._up:
            return
        for broker_id in self._up - up:
            self.moves.pause(broker_id, self._data, now_ms)
        for broker_id in up - self._up:
            self.moves.resume(broker_id, now_ms)
        self._up = up
        self.placed.use({broker_id: self._brokers[broker_id].log_dirs for broker_id in up})

    def follow(self, image: MetadataImage, delta: Delta) -> None:
        """Apply the changes of a batch of the metadata log."""
        self.placed.follow(image, delta)
        for resource_type, resource_name, name in delta.configs:
            if resource_type == BROKER_RESOURCE and name == MOVES_RATE:
                self._throttle(image, resource_name)
            elif resource_type == BROKER_RESOURCE and name == CORDONED_LOG_DIRS:
                self._cordoning.add(resource_name)

    def lose(self, broker: SimulatedBroker, directory: LogDir, now_ms: int) -> None:
        """A directory goes offline: nothing is moved into it or out of it."""
        directory.is_online = False
        if broker.lost_directory_at_ms is None:
            broker.lost_directory_at_ms = now_ms
        self.moves.lose(broker.broker_id, directory.directory_id)

    def tick(self, image: MetadataImage, now_ms: int) -> None:
        """Choose directories, complete moves, and report both to the controller."""
        self._follow_configs(image)
        self.placed.step(image)
        for broker_id, key, future in self.moves.due(now_ms):
            self._follow_move(image, broker_id, key, future, now_ms)
        left = REPORTED_AT_ONCE
        for broker_id in self.placed.reporting:
            broker = self._brokers.get(broker_id)
            if broker is None or not broker.is_up or left <= 0:
                continue
            directories = self.placed.report(broker_id, left)
            try:
                refusal = broker.assign_replicas(directories)
            except Busy:
                return  # a long request is being decided
            if not refusal:
                self.placed.reported(broker_id, directories)
            left -= sum(len(topic.partitions) for directory in directories for topic in directory.topics)

    @property
    def next_due_ms(self) -> float:
        """When `tick` has something to do if nothing happens before; infinite: there is nothing."""
        if self._cordoning or not self._has_read_configs or self.placed.has_work:
            return 0
        return self.moves.next_due_ms

    def _follow_configs(self, image: MetadataImage) -> None:
        """Read the configs of a log that was there at the start, and let brokers report changed cordons."""
        if not self._has_read_configs:
            self._has_read_configs = True
            for resource_type, resource_name in image.configs:
                if resource_type == BROKER_RESOURCE:
                    self._throttle(image, resource_name)
        while self._cordoning:
            name = self._cordoning.pop()
            broker = self._brokers.get(int(name)) if name else None
            if broker is None or not broker.is_up:
                continue
            broker.read_cordons()
            try:
                broker.report_disks()
            except Busy:
                self._cordoning.add(name)
                return  # a long request is being decided

    def _throttle(self, image: MetadataImage, resource_name: str) -> None:
        value = image.config(BROKER_RESOURCE, resource_name).get(MOVES_RATE)
        self.moves.throttle(int(resource_name) if resource_name else None, None if value is None else int(value))

    def _follow_move(
        self, image: MetadataImage, broker_id: int, key: LogKey, future: FutureReplica, now_ms: int
    ) -> None:
        broker = self._brokers.get(broker_id)
        place = self.placed.directory_of(image, broker_id, key)
        directory = broker.log_dirs.find(place) if broker is not None and place is not None else None
        if directory is None or not directory.is_online:
            self.moves.cancel(broker_id, key)  # the replica is gone
            return
        found = self._data.find(*key)
        copied = self.moves.end_offset(broker_id, future, found, now_ms)
        there = found is not None and broker_id in found.replicas
        missing = found.log_end_offset(broker_id, now_ms) - copied if found is not None and there else 0
        if missing > 0 and found is not None:
            self.moves.postpone(broker_id, key, missing, found, now_ms)
            return
        self.moves.cancel(broker_id, key)
        self.placed.choose(broker_id, key, future.directory_id)
