"""The methods of `klamm.Cluster` that steer it by hand: those of `klamm.control.steering_verbs`, on trio."""

from collections.abc import Awaitable
from typing import Any, TypeVar

import trio

from klamm.broker.simulated_broker import BrokerError
from klamm.cluster.errors import ClusterError
from klamm.cluster.steered import (
    coordinated_topics,
    described_log_dirs,
    described_partition,
    partition_limit,
    set_disk,
    wait_for_group,
    wait_for_isr,
    wait_for_reassignments,
    wait_for_topic,
)
from klamm.control.fault_verbs import WAIT_SECONDS
from klamm.server.server import Server
from klamm.server.steering import NotThere, SteeringRefused

T = TypeVar("T")


class SteeringMethods:
    """The methods that steer a cluster by hand, and that wait for a state of it."""

    @property
    def _up(self) -> Server:
        raise NotImplementedError

    async def move_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """Make a member of the ISR the leader of a partition."""
        await _steered(self._up.steering.move_leader(topic, partition, broker_id))

    async def shrink_isr(self, topic: str, partition: int, broker_id: int) -> None:
        """Remove a follower from the ISR, and keep it out until `grow_isr`."""
        await _steered(self._up.steering.shrink_isr(topic, partition, broker_id))

    async def grow_isr(self, topic: str, partition: int, broker_id: int) -> None:
        """Add a replica to the ISR."""
        await _steered(self._up.steering.grow_isr(topic, partition, broker_id))

    async def isr(self, topic: str, partition: int) -> list[int]:
        """The ISR of a partition."""
        return [int(one) for one in (await self._partition(topic, partition))["isr"]]

    async def leader(self, topic: str, partition: int) -> int:
        """The leader of a partition. -1 means that it has no leader."""
        return int((await self._partition(topic, partition))["leader"])

    async def _partition(self, topic: str, partition: int) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        try:
            return described_partition(self._up, topic, partition)
        except NotThere as error:
            raise ClusterError(str(error)) from None

    async def partition_limit(self) -> int:
        """The smallest limit of KIP-578: `max.broker.partitions` of a broker, or `max.partitions`. Raises
        `ClusterError` if no limit is set."""
        await trio.lowlevel.checkpoint()
        try:
            return partition_limit(self._up)
        except SteeringRefused as error:
            raise ClusterError(str(error)) from None

    async def set_replication_rate(self, broker_id: int, rate: int | None) -> None:
        """Set the number of messages per second that the followers on a broker fetch from each partition. None means
        the rate of the other brokers."""
        await _steered(self._up.steering.set_replication_rate(broker_id, rate))

    async def expire_session(self, broker_id: int) -> None:
        """Fence a broker as if its session had expired. If the broker is up, its next heartbeat unfences it."""
        await _steered(self._up.steering.expire_session(broker_id))

    async def fence_broker(self, broker_id: int) -> None:
        """Fence a broker that is up, and stop its heartbeats. Its listeners stay open."""
        await _steered(self._up.steering.fence(broker_id))

    async def unfence_broker(self, broker_id: int) -> None:
        """Let a broker send heartbeats again. Returns when it is unfenced."""
        await _steered(self._up.steering.unfence(broker_id))

    async def take_disk(self, broker_id: int) -> None:
        """Take the disk of a broker away. It answers KAFKA_STORAGE_ERROR to requests for records, and its leaderships
        move."""
        await _steered(set_disk(self._up, broker_id, is_away=True))

    async def return_disk(self, broker_id: int) -> None:
        """Bring the disk of a broker back."""
        await _steered(set_disk(self._up, broker_id, is_away=False))

    async def log_dirs(self, broker_id: int) -> list[dict[str, Any]]:
        """The log directories of a broker: `log_dir`, `directory_id`, `online`, `failed`."""
        await trio.lowlevel.checkpoint()
        try:
            return described_log_dirs(self._up, broker_id)
        except BrokerError as error:
            raise ClusterError(str(error)) from None

    async def take_log_dir_offline(self, broker_id: int, log_dir: str) -> None:
        """Let a log directory fail. Its leaderships move. The broker stops if it has no other log directory."""
        await _steered(self._up.steering.fail_log_dir(broker_id, log_dir))

    async def repair_log_dir(self, broker_id: int, log_dir: str) -> None:
        """Repair a log directory. The broker uses it after its next start."""
        await _steered(self._up.steering.repair_log_dir(broker_id, log_dir))

    async def rehash_coordinators(self, of: str | None = None) -> int:
        """Move the coordinators of groups, transactional ids and share groups to other brokers. `of` selects "groups",
        "transactions" or "share groups". Returns the number of moved partitions of internal topics."""
        try:
            topic_names = coordinated_topics(of)
        except ValueError as error:
            raise ClusterError(str(error)) from None
        return await _steered(self._up.steering.rehash_coordinators(topic_names))

    async def clean_logs(self) -> None:
        """Apply retention and compaction at once, by the configs of each topic."""
        await _steered(self._up.steering.clean_logs())

    async def time_out_transaction(self, transactional_id: str) -> None:
        """Abort an open transaction as if it had timed out."""
        await _steered(self._up.steering.time_out_transaction(transactional_id))

    async def wait_for_topic(self, topic: str, num_partitions: int = 1, timeout_seconds: float = WAIT_SECONDS) -> None:
        """Wait until a topic exists and has at least `num_partitions` partitions. Raises `TimeoutError`."""
        await _steered(wait_for_topic(self._up, topic, num_partitions, timeout_seconds))

    async def wait_for_isr(
        self, topic: str, partition: int | None = None, timeout_seconds: float = WAIT_SECONDS
    ) -> None:
        """Wait until all replicas of a topic, or of one partition, are in sync. Raises `TimeoutError`."""
        await _steered(wait_for_isr(self._up, topic, partition, timeout_seconds))

    async def wait_for_group(
        self, group: str, members: int = 1, state: str = "Stable", timeout_seconds: float = WAIT_SECONDS
    ) -> None:
        """Wait until a group is in this state and has this number of members. Raises `TimeoutError`."""
        try:
            await _steered(wait_for_group(self._up, group, members, state, timeout_seconds))
        except ValueError as error:
            raise ClusterError(str(error)) from None

    async def wait_for_reassignments(self, topic: str | None = None, timeout_seconds: float = WAIT_SECONDS) -> None:
        """Wait until no reassignment is in progress. `topic` None means all topics. Raises `TimeoutError`."""
        await _steered(wait_for_reassignments(self._up, topic, timeout_seconds))


async def _steered(change: Awaitable[T]) -> T:
    try:
        return await change
    except (SteeringRefused, BrokerError) as error:
        raise ClusterError(str(error)) from None
