"""The coordinators of all simulated brokers: one shard for each partition of an internal topic, on its leader.

A key (a group id, a transactional id) belongs to the partition `abs(hash) % partitions` of the internal topic of its
kind, where `hash` is Java's `String.hashCode`. The leader of that partition is the key's coordinator. A shard begins
when its broker becomes leader, loads the partition, and ends when another broker becomes leader.
"""

from collections import deque
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final, Protocol, TypeAlias

from klamm.broker.coordinator.answer import CoordinatorAnswer, Part, Step
from klamm.broker.coordinator.budget import Budget
from klamm.broker.coordinator.outbox import CoordinatorState, Outbox
from klamm.broker.coordinator.shard import Shard
from klamm.broker.data.data_plane import DataPlane
from klamm.controller.config_definitions.hash_order import java_hash
from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.settings import Settings
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE

NewState: TypeAlias = Callable[[int], CoordinatorState]
"""Makes the empty state machine of a shard on the broker of this id."""
Follow: TypeAlias = Callable[[MetadataImage, Shard, int], bool]
"""What a shard calls after its operations, see `Shard`."""
_WRITE_TIMEOUTS: Final = {
    CONSUMER_OFFSETS: "offsets.commit.timeout.ms",
    SHARE_GROUP_STATE: "share.coordinator.write.timeout.ms",
}
_DEFAULT_WRITE_TIMEOUT_MS: Final = 5_000


def partition_of(key: str, partition_count: int) -> int:
    """The partition of an internal topic that a key belongs to."""
    code = java_hash(key)
    return (0 if code == -(2**31) else abs(code)) % partition_count


class _MetadataLog(Protocol):
    """What is used of the controller's log: its end, and the end of what survives a crash."""

    @property
    def end_offset(self) -> int: ...

    @property
    def durable_offset(self) -> int: ...


class Coordinators:
    """The shards by topic and partition."""

    def __init__(self, settings: Settings, data: DataPlane, states: Mapping[str, NewState]) -> None:
        """`states` has the state machines by internal topic. Topics that are not in it have no coordinators."""
        self._settings = settings
        self._data = data
        self._states = states
        self._follows: dict[str, Follow] = {}
        self._shards: dict[tuple[str, int], Shard] = {}
        self._broker_ids: frozenset[int] = frozenset()
        """The brokers that have shards."""
        self._loading: list[Shard] = []
        self._is_outdated = True
        """Whether leaders may have changed since the shards were last compared with the image."""
        self._removed_topics: deque[tuple[int, str]] = deque()
        """Names of deleted topics, each with the end offset of the metadata log behind its deletion."""
        self.metadata_log: _MetadataLog | None = None
        """The log of the controller. None: every deletion is durable."""
        self._serial = 0
        self.budget = Budget()
        """The live records of all shards."""

    def after_operations(self, topic_name: str, follow: Follow) -> None:
        """Call `follow` after each operation of a shard of this internal topic, and whenever time has passed."""
        self._follows[topic_name] = follow

    def follow(self, delta: Delta) -> None:
        """Note the changes of a batch of the metadata log. They are applied before the next operation."""
        if delta.has_new_leaders or delta.new_topics or delta.removed_topics or len(delta.new_partitions):
            self._is_outdated = True
        if delta.removed_topics:
            end_offset = 0 if self.metadata_log is None else self.metadata_log.end_offset
            self._removed_topics += [(end_offset, topic.name) for topic in delta.removed_topics]

    def new_answer(self, part_count: int, finish: Callable[[list[Any]], Message]) -> CoordinatorAnswer:
        """An answer of so many parts. `finish` makes the response of their results."""
        self._serial = (self._serial + 1) % 2**31
        return CoordinatorAnswer(self._data.watches, self._serial, part_count, finish)

    def find(
        self, image: MetadataImage, topic_name: str, key: str, broker_id: int | None, now_ms: int
    ) -> Shard | ErrorCode:
        """The loaded shard of a key on this broker; NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS if there is
        none."""
        topic = image.topics_by_name.get(topic_name)
        if topic is None:
            return ErrorCode.NOT_COORDINATOR
        index = partition_of(key, image.partition_count(topic))
        return self.find_at(image, topic_name, index, broker_id, now_ms)

    def find_at(
        self, image: MetadataImage, topic_name: str, index: int, broker_id: int | None, now_ms: int
    ) -> Shard | ErrorCode:
        """The same for a partition."""
        self._update(image, now_ms)
        shard = self._shards.get((topic_name, index))
        if shard is None or shard.broker_id != broker_id:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def leader_of(self, image: MetadataImage, topic_name: str, key: str) -> int | None:
        """The broker that coordinates a key; None: the internal topic does not exist."""
        topic = image.topics_by_name.get(topic_name)
        if topic is None:
            return None
        return image.partitions.read(topic.row, partition_of(key, image.partition_count(topic))).leader

    def apply_marker(self, partition: int, producer_id: int, *, committed: bool) -> None:
        """Apply a marker that was written to a partition of `__consumer_offsets`. A shard that is not loaded yet reads
        it there."""
        shard = self._shards.get((CONSUMER_OFFSETS, partition))
        if shard is not None and shard.is_loaded:
            shard.replay_end_of_transaction(producer_id, committed=committed)

    def loaded_states(self, topic_name: str) -> list[CoordinatorState]:
        """The state machines of the loaded shards of an internal topic, in the order of its partitions. Read them
        only."""
        return [shard.state for shard in self.loaded_shards(topic_name)]

    def loaded_shards(self, topic_name: str) -> list[Shard]:
        """The loaded shards of an internal topic, in the order of its partitions. Read them only."""
        found = [(at, shard) for (name, at), shard in self._shards.items() if name == topic_name and shard.is_loaded]
        return [shard for _, shard in sorted(found, key=lambda one: one[0])]

    def led_partitions(
        self, image: MetadataImage, broker_id: int | None, topic_name: str = CONSUMER_OFFSETS
    ) -> list[int]:
        """The partitions of an internal topic that a broker leads."""
        topic = image.topics_by_name.get(topic_name)
        count = 0 if topic is None else image.partition_count(topic)
        return [at for at in range(count) if topic and image.partitions.read(topic.row, at).leader == broker_id]

    def leaders_may_have_changed(self) -> None:
        """Note that brokers went down or came up, which no record says."""
        self._is_outdated = True

    def submit(
        self,
        image: MetadataImage,
        where: tuple[str, str, int | None],
        part: Part | Step,
        operation: Callable[[Any], Outbox],
        now_ms: int,
    ) -> None:
        """Run an operation on the state machine of a key's shard; `where` is the internal topic, the key and the broker
        asked. Without a loaded shard there, the part is refused."""
        self._run(image, self.find(image, *where, now_ms), part, operation, now_ms)

    def submit_at(
        self,
        image: MetadataImage,
        where: tuple[str, int, int | None],
        part: Part | Step,
        operation: Callable[[Any], Outbox],
        now_ms: int,
    ) -> None:
        """The same on the shard of a partition."""
        self._run(image, self.find_at(image, *where, now_ms), part, operation, now_ms)

    @staticmethod
    def _run(
        image: MetadataImage,
        found: Shard | ErrorCode,
        part: Part | Step,
        operation: Callable[[Any], Outbox],
        now_ms: int,
    ) -> None:
        if isinstance(found, ErrorCode):
            part.refuse(found)
            return
        part.wait_on(found)
        found.run(image, lambda: operation(found.state), now_ms)

    def tick(self, image: MetadataImage, now_ms: int) -> None:
        """Load shards, fire timers and deliver replies that are due. To be called regularly."""
        self._update(image, now_ms)
        for shard in list(self._shards.values()):
            shard.advance(image, now_ms)

    def next_due_ms(self, now_ms: int) -> float:
        """When `tick` may have something to do if nothing happens before; infinite: there is nothing."""
        if self._is_outdated or self._removed_topics or not self._broker_ids.isdisjoint(self._data.down):
            return now_ms
        return min((shard.next_tick_ms(now_ms) for shard in self._shards.values()), default=inf)

    def _update(self, image: MetadataImage, now_ms: int) -> None:
        if self._is_outdated or not self._broker_ids.isdisjoint(self._data.down):
            self._is_outdated = False
            self._follow_leaders(image)
            self._broker_ids = frozenset(shard.broker_id for shard in self._shards.values())
            self._loading = [shard for shard in self._shards.values() if not shard.is_loaded]
        if self._loading and (not self._removed_topics or self._is_durable(self._removed_topics[-1])):
            for shard in self._loading:
                shard.load_step(image, now_ms)
            self._loading = [shard for shard in self._loading if not shard.is_loaded]
        if not self._loading:
            self._forget_removed_topics(image, now_ms)

    def _forget_removed_topics(self, image: MetadataImage, now_ms: int) -> None:
        """What shards keep about deleted topics goes when the deletion is durable. Else a crash could undo the deletion
        of a topic, but not the records without value that remove its state. Loading waits for the same reason: it
        forgets topics that the image lacks."""
        names = []
        while self._removed_topics and self._is_durable(self._removed_topics[0]):
            names.append(self._removed_topics.popleft()[1])
        if names:
            for shard in self._shards.values():
                shard.topics_removed(image, names, now_ms)

    def _is_durable(self, removal: tuple[int, str]) -> bool:
        return self.metadata_log is None or removal[0] <= self.metadata_log.durable_offset

    def _follow_leaders(self, image: MetadataImage) -> None:
        wanted: dict[tuple[str, int], tuple[object, int]] = {}
        for topic_name in self._states:
            topic = image.topics_by_name.get(topic_name)
            if topic is None:
                continue
            for index in range(image.partition_count(topic)):
                leader = image.partitions.read(topic.row, index).leader
                if self._is_here(leader):
                    wanted[topic_name, index] = topic.topic_id, leader
        for at, shard in list(self._shards.items()):
            if wanted.get(at) != (shard.topic.topic_id, shard.broker_id):
                del self._shards[at]
                shard.close()
        for (topic_name, index), (_, leader) in wanted.items():
            if (topic_name, index) not in self._shards:
                self._begin(image, topic_name, index, leader)

    def _is_here(self, broker_id: int) -> bool:
        """Whether the broker is a simulated one that is up. Real brokers have coordinators of their own."""
        simulated = self._data.simulated
        return (simulated is None or broker_id in simulated) and broker_id not in self._data.down

    def _begin(self, image: MetadataImage, topic_name: str, index: int, broker_id: int) -> None:
        state = self._states[topic_name](broker_id)
        config = _WRITE_TIMEOUTS.get(topic_name)
        timeout_ms = self._settings.static_int(config, broker_id) if config else _DEFAULT_WRITE_TIMEOUT_MS
        topic = image.topics_by_name[topic_name]
        self._shards[topic_name, index] = Shard(
            topic, index, broker_id, state, self._data, timeout_ms, self._follows.get(topic_name), self.budget
        )
