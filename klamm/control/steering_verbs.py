"""Steering verbs and waits from Python, for `klamm.ControlClient`, `klamm.ServerProcess` and the fixture.

Standard library alone.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from klamm.control.fault_verbs import WAIT_SECONDS, waited

__tracebackhide__ = True
"""pytest shows the line of the test that called, not the frames of this module."""


class SteeringVerbs:
    """The methods that steer a cluster by hand, and that wait for a state of it."""

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        """The JSON of the answer to a request of the control interface."""
        raise NotImplementedError

    def move_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """Make a member of the ISR the leader of a partition."""
        self.ask("POST", f"{_partition(topic, partition)}/leader", {"broker": broker_id})

    def shrink_isr(self, topic: str, partition: int, broker_id: int) -> None:
        """Remove a follower from the ISR, and keep it out until `grow_isr`."""
        self.ask("POST", f"{_partition(topic, partition)}/isr", {"remove": broker_id})

    def grow_isr(self, topic: str, partition: int, broker_id: int) -> None:
        """Add a replica to the ISR."""
        self.ask("POST", f"{_partition(topic, partition)}/isr", {"add": broker_id})

    def isr(self, topic: str, partition: int) -> list[int]:
        """The ISR of a partition."""
        found: list[int] = self.ask("GET", _partition(topic, partition))["isr"]
        return found

    def leader(self, topic: str, partition: int) -> int:
        """The leader of a partition. -1 means that it has no leader."""
        found: int = self.ask("GET", _partition(topic, partition))["leader"]
        return found

    def partition_limit(self) -> int:
        """The smallest limit of KIP-578: `max.broker.partitions` of a broker, or `max.partitions`. Raises
        `ControlRefused` if no limit is set."""
        found: int = self.ask("GET", "/partition-limit")["limit"]
        return found

    def set_replication_rate(self, broker_id: int, rate: int | None) -> None:
        """Set the number of messages per second that the followers on a broker fetch from each partition. None means
        the rate of the other brokers."""
        self.ask("POST", f"/brokers/{broker_id}/replication", {"rate": rate})

    def expire_session(self, broker_id: int) -> None:
        """Fence a broker as if its session had expired. If the broker is up, its next heartbeat unfences it."""
        self.ask("POST", f"/brokers/{broker_id}/expire-session")

    def fence_broker(self, broker_id: int) -> None:
        """Fence a broker that is up, and stop its heartbeats. Its listeners stay open."""
        self.ask("POST", f"/brokers/{broker_id}/fence")

    def unfence_broker(self, broker_id: int) -> None:
        """Let a broker send heartbeats again. Returns when it is unfenced."""
        self.ask("POST", f"/brokers/{broker_id}/unfence")

    def take_disk(self, broker_id: int) -> None:
        """Take the disk of a broker away. It answers KAFKA_STORAGE_ERROR to requests for records, and its leaderships
        move."""
        self.ask("POST", f"/brokers/{broker_id}/disk", {"away": True})

    def return_disk(self, broker_id: int) -> None:
        """Bring the disk of a broker back."""
        self.ask("POST", f"/brokers/{broker_id}/disk", {"away": False})

    def log_dirs(self, broker_id: int) -> list[dict[str, Any]]:
        """The log directories of a broker: `log_dir`, `directory_id`, `online`, `failed`."""
        found: list[dict[str, Any]] = self.ask("GET", f"/brokers/{broker_id}/log-dirs")["log_dirs"]
        return found

    def take_log_dir_offline(self, broker_id: int, log_dir: str) -> None:
        """Let a log directory fail. Its leaderships move. The broker stops if it has no other log directory."""
        self.ask("POST", f"/brokers/{broker_id}/log-dirs", {"log_dir": log_dir, "failed": True})

    def repair_log_dir(self, broker_id: int, log_dir: str) -> None:
        """Repair a log directory. The broker uses it after its next start."""
        self.ask("POST", f"/brokers/{broker_id}/log-dirs", {"log_dir": log_dir, "failed": False})

    def rehash_coordinators(self, of: str | None = None) -> int:
        """Move the coordinators of groups, transactional ids and share groups to other brokers. `of` selects "groups",
        "transactions" or "share groups". Returns the number of moved partitions of internal topics."""
        moved: int = self.ask("POST", "/coordinators/rehash", {} if of is None else {"of": of})["moved"]
        return moved

    def clean_logs(self) -> None:
        """Apply retention and compaction at once, by the configs of each topic."""
        self.ask("POST", "/logs/clean")

    def time_out_transaction(self, transactional_id: str) -> None:
        """Abort an open transaction as if it had timed out."""
        self.ask("POST", f"/transactions/{quote(transactional_id, safe='')}/time-out")

    def wait_for_topic(self, topic: str, num_partitions: int = 1, timeout_seconds: float = WAIT_SECONDS) -> None:
        """Wait until a topic exists and has at least `num_partitions` partitions. Raises `TimeoutError`."""
        body = {"num_partitions": num_partitions, "timeout_ms": round(timeout_seconds * 1000)}
        waited(self, f"{_topic(topic)}/wait", body)

    def wait_for_isr(self, topic: str, partition: int | None = None, timeout_seconds: float = WAIT_SECONDS) -> None:
        """Wait until all replicas of a topic, or of one partition, are in sync. Raises `TimeoutError`."""
        waited(self, f"{_topic(topic)}/isr/wait", {"partition": partition, "timeout_ms": round(timeout_seconds * 1000)})

    def wait_for_group(
        self, group: str, members: int = 1, state: str = "Stable", timeout_seconds: float = WAIT_SECONDS
    ) -> None:
        """Wait until a group is in this state and has this number of members. Raises `TimeoutError`."""
        body = {"members": members, "state": state, "timeout_ms": round(timeout_seconds * 1000)}
        waited(self, f"/groups/{quote(group, safe='')}/wait", body)

    def wait_for_reassignments(self, topic: str | None = None, timeout_seconds: float = WAIT_SECONDS) -> None:
        """Wait until no reassignment is in progress. `topic` None means all topics. Raises `TimeoutError`."""
        waited(self, "/reassignments/wait", {"topic": topic, "timeout_ms": round(timeout_seconds * 1000)})


def _topic(topic: str) -> str:
    return f"/topics/{quote(topic, safe='')}"


def _partition(topic: str, partition: int) -> str:
    return f"{_topic(topic)}/partitions/{partition}"
