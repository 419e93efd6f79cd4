"""What a user does to a running cluster by hand: leaders, ISRs, replication, sessions, transactions, disks.

Each change is decided as the controller or a broker would decide it, and returns when its records are durable.
"""

import math
from collections.abc import Awaitable, Callable, Collection
from typing import Final, Literal

import trio

from klamm.broker.log_dirs.directories import LogDir
from klamm.broker.simulated_broker import SimulatedBroker
from klamm.controller.core import Call
from klamm.controller.log_records import Record
from klamm.controller.metadata.image import Topic
from klamm.controller.metadata.partition import NO_LEADER, Partition
from klamm.controller.transitions.isr_order import listed_isr
from klamm.protocol.errors import ErrorCode
from klamm.protocol.internal_topics import TRANSACTION_STATE
from klamm.protocol.messages.partitions import alter_partition
from klamm.protocol.messages.partitions.alter_partition import BrokerState, PartitionData, TopicData
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.server.brokers import BrokerLives
from klamm.server.flusher import Flusher
from klamm.server.parts import ServerParts
from klamm.server.turns import Turns

MOST_NAMED: Final = 5
"""The most log directories that a refusal names."""
MAX_RATE: Final = 10**9
"""The most messages per second of one broker's followers."""


class SteeringRefused(Exception):
    """The change is not possible. The text is one clause for users."""


class NotThere(SteeringRefused):
    """There is no such topic, partition or transaction."""


class Steering:
    """The changes by hand of one server."""

    def __init__(
        self,
        parts: ServerParts,
        lives: BrokerLives,
        flusher: Flusher,
        turns: Turns,
        settle: Callable[[], None],
        stop: Callable[[int, Literal["crash"]], Awaitable[None]],
    ) -> None:
        """`settle` does what is due with a manual clock; `stop` stops a broker."""
        self._controller = parts.controller
        self._brokers = parts.brokers
        self._clock_ms = parts.clock_ms
        self._lives = lives
        self._flusher = flusher
        self._turns = turns
        self._settle = settle
        self._stop = stop
        self._events = parts.events

    def find(self, topic_name: str, partition_index: int) -> tuple[Topic, Partition]:
        """A topic and its partition, as they are now. Raises NotThere."""
        image = self._controller.image
        topic = image.topics_by_name.get(topic_name)
        if topic is None:
            raise NotThere(f"there is no topic {topic_name[:40]!r}")
        if not 0 <= partition_index < image.partition_count(topic):
            raise NotThere(f"topic {topic_name[:40]!r} has no partition {partition_index}")
        return topic, image.partitions.read(topic.row, partition_index)

    async def move_leader(self, topic_name: str, partition_index: int, broker_id: int) -> None:
        """Make a member of the ISR the leader of a partition. Raises SteeringRefused."""
        async with self._turns.of_changes:
            topic, partition = self.find(topic_name, partition_index)
            if broker_id not in partition.isr:
                raise SteeringRefused(f"broker {broker_id} is not in the ISR {_list(partition.isr)}")
            self._refuse_fenced(broker_id)
            if partition.leader != broker_id:
                record = PartitionChangeRecord(partition_id=partition_index, topic_id=topic.topic_id, leader=broker_id)
                self._controller.commit_steered([record])
        await self._settled()

    async def shrink_isr(self, topic_name: str, partition_index: int, broker_id: int) -> None:
        """Remove a follower from an ISR, and keep it out although it is caught up. Raises SteeringRefused."""
        async with self._turns.of_changes:
            topic, partition = self.find(topic_name, partition_index)
            if broker_id not in partition.isr:
                raise SteeringRefused(f"broker {broker_id} is not in the ISR {_list(partition.isr)}")
            if broker_id == partition.leader:
                raise SteeringRefused(
                    f"broker {broker_id} is the leader, which is always in sync: move the leader first"
                )
            isr = tuple(replica for replica in partition.isr if replica != broker_id)
            self._alter(topic, partition_index, partition, isr)
            self._brokers.data.held_out.add(((topic.topic_id, partition_index), broker_id))
        await self._settled()

    async def grow_isr(self, topic_name: str, partition_index: int, broker_id: int) -> None:
        """Add a replica to an ISR, and let it join by itself from now on. Raises SteeringRefused."""
        async with self._turns.of_changes:
            topic, partition = self.find(topic_name, partition_index)
            if broker_id not in partition.replicas:
                raise SteeringRefused(f"broker {broker_id} is no replica: {_list(partition.replicas)} are")
            self._brokers.data.held_out.discard(((topic.topic_id, partition_index), broker_id))
            if broker_id not in partition.isr:
                self._refuse_fenced(broker_id)
                self._alter(topic, partition_index, partition, (*partition.isr, broker_id))
        await self._settled()

    async def set_replication_rate(self, broker_id: int, rate: int | None) -> None:
        """Set how many messages per second the followers on a broker fetch of each partition; None: the cluster's
        rate. Raises BrokerError."""
        self._brokers.find(broker_id)
        self._brokers.data.set_rate(broker_id, rate, self._clock_ms())
        await self._settled()

    async def expire_session(self, broker_id: int) -> None:
        """Fence a broker as if its session were over. If it is up, its next heartbeat unfences it."""
        broker = self._brokers.find(broker_id)
        async with self._turns.of_changes:
            broker.expire_session()
            self._controller.tick()
        await self._settled()

    async def fence(self, broker_id: int) -> None:
        """Fence a broker that is up, and let it send no heartbeats until `unfence`. Its listeners stay open."""
        broker = self._up(broker_id)
        async with self._turns.of_changes:
            self._lives.fence(broker)
            self._controller.tick()
        await self._settled()

    async def unfence(self, broker_id: int) -> None:
        """Let a broker send heartbeats again; returns when it is unfenced."""
        broker = self._up(broker_id)
        if broker.disk_is_away:
            raise SteeringRefused(f"the disk of broker {broker_id} is away, so the controller fences it")
        await self._lives.unfence(broker)
        await self._settled()

    async def fail_log_dir(self, broker_id: int, path: str) -> None:
        """Let the disk of a log directory fail. If the broker is up, the directory goes offline: its leaderships move.
        The broker stops, as Kafka's halts, if no directory is left, or if it was that of the metadata log."""
        broker, directory = self._log_dir(broker_id, path)
        if not directory.is_whole:
            raise SteeringRefused(f"log directory {path[:200]} of broker {broker_id} has failed already")
        directory.is_whole = False
        if broker.is_up:
            self._brokers.log_dir_work.lose(broker, directory, self._clock_ms())
            if (reason := broker.log_dirs.reason_to_halt) is not None:
                self._events.warning("a broker stops: " + reason, broker_id=broker_id)
                await self._stop(broker_id, "crash")
            else:
                async with self._turns.of_changes:
                    broker.report_disks()
        await self._settled()

    async def repair_log_dir(self, broker_id: int, path: str) -> None:
        """Repair the disk of a log directory. The broker uses it from its next start on."""
        _broker, directory = self._log_dir(broker_id, path)
        if directory.is_whole:
            raise SteeringRefused(f"log directory {path[:200]} of broker {broker_id} is whole")
        directory.is_whole = True
        await self._settled()

    def _log_dir(self, broker_id: int, path: str) -> tuple[SimulatedBroker, LogDir]:
        broker = self._brokers.find(broker_id)
        directory = broker.log_dirs.at(path)
        if directory is None:
            known = ", ".join(one.path for one in broker.log_dirs.all[:MOST_NAMED])
            raise NotThere(f"broker {broker_id} has no log directory {path[:200]!r}: it has {known}")
        return broker, directory

    async def set_disk(self, broker_id: int, *, is_away: bool) -> None:
        """Take all log directories of a broker away, or bring them back: the controller fences the broker meanwhile,
        and its leaderships move. The broker stays up (`klamm.cluster.steered` lets it answer KAFKA_STORAGE_ERROR)."""
        broker = self._brokers.find(broker_id)
        broker.disk_is_away = is_away
        if is_away:
            async with self._turns.of_changes:
                broker.report_disks()
        elif broker.is_up and math.isfinite(broker.next_heartbeat_at):
            await self._lives.unfence(broker)
        await self._settled()

    async def time_out_transaction(self, transactional_id: str) -> None:
        """Abort an open transaction as if its timeout were over. Raises SteeringRefused."""
        image, now_ms = self._controller.image, self._clock_ms()
        coordinators = self._brokers.coordinators
        leader = coordinators.leader_of(image, TRANSACTION_STATE, transactional_id)
        if leader is None:
            raise NotThere(f"there is no transactional id {transactional_id[:40]!r}: there was no transaction yet")
        shard = coordinators.find(image, TRANSACTION_STATE, transactional_id, leader, now_ms)
        if isinstance(shard, ErrorCode):
            raise NotThere(f"the coordinator of transactional id {transactional_id[:40]!r} answers {shard.name}")
        state = shard.state
        known = state.by_id.get(transactional_id)  # type: ignore[attr-defined]  # the state is that of transactions
        if known is None:
            raise NotThere(f"there is no transactional id {transactional_id[:40]!r}")
        outbox = state.time_out(transactional_id, now_ms)  # type: ignore[attr-defined]
        if not outbox.records:
            raise SteeringRefused(
                f"transactional id {transactional_id[:40]!r} has no open transaction: it is {known.state}"
            )
        shard.run(image, lambda: outbox, now_ms)
        await self._settled()

    async def rehash_coordinators(self, topic_names: Collection[str]) -> int:
        """Move the leaders of these internal topics, and with them the coordinators of groups, transactional ids or
        share groups: each to the next replica in sync. Returns how many moved. Raises SteeringRefused."""
        async with self._turns.of_changes:
            image = self._controller.image
            there = [image.topics_by_name[name] for name in topic_names if name in image.topics_by_name]
            if not there:
                raise NotThere("there are no coordinators yet: their internal topics are created with the first use")
            records: list[Record] = []
            for topic in there:
                for index in range(image.partition_count(topic)):
                    leader = self._next_leader(image.partitions.read(topic.row, index))
                    if leader is not None:
                        change = PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=leader)
                        records.append(change)
            if not records:
                raise SteeringRefused("no coordinator has another replica in sync to move to")
            self._controller.commit_steered(records)
        await self._settled()
        return len(records)

    def _next_leader(self, partition: Partition) -> int | None:
        """The replica in sync behind the leader, in the order of the replicas; None: there is no other."""
        brokers, replicas = self._controller.image.brokers, partition.replicas
        at = replicas.index(partition.leader) + 1 if partition.leader in replicas else 0
        for replica in (*replicas[at:], *replicas[:at]):
            if replica in partition.isr and replica != partition.leader and brokers[replica].live:
                return replica
        return None

    async def clean_logs(self) -> None:
        """Apply retention and compaction now, to all topics whose configs say so. Returns when that is done."""
        self._brokers.make_cleanup_due()
        self._brokers.tick()
        while self._brokers.is_cleaning:
            await trio.lowlevel.checkpoint()
            self._brokers.tick()
        await self._settled()

    def _alter(self, topic: Topic, partition_index: int, partition: Partition, isr: tuple[int, ...]) -> None:
        """Ask the controller for another ISR in the name of the leader, as leaders do."""
        brokers = self._controller.image.brokers
        leader = brokers.get(partition.leader)
        if partition.leader == NO_LEADER or leader is None:
            raise SteeringRefused("the partition has no leader, which asks for changes of the ISR")
        listed = listed_isr(isr, partition.isr)
        states = [BrokerState(broker_id=one, broker_epoch=brokers[one].broker_epoch) for one in listed]
        wanted = PartitionData(
            partition_index=partition_index,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=states,
            leader_recovery_state=partition.leader_recovery_state,
            partition_epoch=partition.partition_epoch,
        )
        request = alter_partition.AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=leader.broker_epoch,
            topics=[TopicData(topic_id=topic.topic_id, partitions=[wanted])],
        )
        call = Call(alter_partition.API, 3, request, "controller", client_id=str(partition.leader))
        response = self._controller.submit(call).response
        assert isinstance(response, alter_partition.AlterPartitionResponse), "this API answers at once"
        code = response.error_code or response.topics[0].partitions[0].error_code
        if code:
            raise SteeringRefused(f"the controller refuses the ISR {_list(isr)}: {ErrorCode(code).name}")

    def _up(self, broker_id: int) -> SimulatedBroker:
        broker = self._brokers.find(broker_id)
        if not broker.is_up:
            raise SteeringRefused(f"broker {broker_id} is down")
        return broker

    def _refuse_fenced(self, broker_id: int) -> None:
        broker = self._controller.image.brokers.get(broker_id)
        if broker is None or not broker.live:
            raise SteeringRefused(f"broker {broker_id} is fenced or shutting down")

    async def _settled(self) -> None:
        self._settle()
        self._flusher.notice()
        await self._flusher.wait_all_durable()


def _list(broker_ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, broker_ids)) or "none"
