"""Follows a real Apache Kafka 4.3 cluster of a controller and three brokers for some minutes, while it works and both
sides are restarted. Then compares the copy with the controller's own files, and a twin with the cluster.

    python -m tools.real_clusters.follow_cluster --seconds 600

The work is topics, moves, transactions, ACLs, quotas and SCRAM credentials. In turn the follower is killed, the
controller is stopped or killed and started again, and a broker shuts down or is killed and returns. By hand; it needs
Java and about 1.5 GB of memory.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import trio

from klamm import AdminClient, AdminError, ConfigAlteration, ConfigResource, ElectionType, NewTopic, TopicPartition
from tools.real_clusters.copies import compare_copy
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.kafka_jars import fetch_class_path, find_program
from tools.toolchain_checks.real_cluster import BROKERS, CONTROLLER, LOG_FOLDER, RealCluster, real_cluster
from tools.toolchain_checks.report import CheckFailed, expect
from tools.toolchain_checks.security_metadata import SECURE, change_security, commit_transaction
from tools.toolchain_checks.twins import expect_same, seen, seen_of_twin

ROOT: Final = Path(__file__).resolve().parents[2]
CONFIGS: Final = {
    **SECURE,
    "broker.session.timeout.ms": "6000",
    "metadata.log.max.record.bytes.between.snapshots": "200000",
}
"""Static configs of the nodes: a lost broker is fenced soon, and there are snapshots."""
MOST_TOPICS: Final = 12
ATTEMPT_SECONDS: Final = 120.0
PAUSE_SECONDS: Final = 0.5
SETTLED_SECONDS: Final = 3.0
END_SECONDS: Final = 120


def main(arguments: Sequence[str]) -> int:
    """Follow for the given time, and compare. Raises CheckFailed."""
    parser = argparse.ArgumentParser(prog="python -m tools.real_clusters.follow_cluster", allow_abbrev=False)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="klamm-follow-") as name:
        folder = Path(name)
        java = Java(find_program("java", "default-jre-headless"), fetch_class_path(), folder)
        with real_cluster(java, own_controller=True, configs=CONFIGS) as cluster:
            run = _Run(cluster, folder / "copy", Random(given.seed))
            run.play(given.seconds)
            compared = compare_copy(cluster.metadata_log, folder / "copy" / LOG_FOLDER)
            real = trio.run(partial(seen, cluster.bootstrap_servers, has_users=True))
            expect_same(trio.run(partial(seen_of_twin, folder / "copy", has_users=True)), real)
        done = ", ".join(f"{count} {what}" for what, count in sorted(run.done.items()))
    sys.stdout.write(f"{done}: {compared}, and clients see of a twin what they see of the cluster\n")
    return 0


class _Run:
    """The cluster with its follower."""

    def __init__(self, cluster: RealCluster, copy: Path, rng: Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._number = 0
        self.done: Counter[str] = Counter()
        self._follow = [sys.executable, "-m", "klamm", "follow", "--bootstrap-controller", cluster.controller]
        self._follow += ["--data-dir", str(copy)]
        self._follower = self._new_follower()

    def play(self, seconds: int) -> None:
        """Work and restart in turn, and let the copy catch up at the end."""
        events = (self._restart_follower, self._lose_broker, self._restart_controller)
        ends, number = time.monotonic() + seconds, 0
        try:
            while time.monotonic() < ends:
                self._work()
                events[number % len(events)]()
                number += 1
                self._work()
            trio.run(self._settle)
            expect(self._follower.poll() is None, f"the follower has ended: {self._follower.returncode}")
            self._follower.terminate()
            self._follower.wait()
            subprocess.run([*self._follow, "--once"], check=True, timeout=END_SECONDS, cwd=ROOT)
        finally:
            self._follower.kill()

    async def _settle(self) -> None:
        """Wait until all moves are over and all replicas are in sync, so that the cluster is what its log says.

        A twin elects leaders of all partitions when its brokers start. Here the tool elects them, because Apache Kafka
        leaves a partition without a leader whose eligible leader was removed (docs/known-differences.md)."""
        async with AdminClient(self._cluster.bootstrap_servers) as admin:
            with trio.fail_after(ATTEMPT_SECONDS):
                while True:
                    partitions = [partition for one in (await admin.metadata()).topics for partition in one.partitions]
                    if any(partition.leader is None for partition in partitions):
                        await admin.elect_leaders(None, ElectionType.UNCLEAN)
                    elif all(len(partition.isr) == len(partition.replicas) for partition in partitions):
                        break
                    await trio.sleep(PAUSE_SECONDS)
            await trio.sleep(SETTLED_SECONDS)

    def _new_follower(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(self._follow, cwd=ROOT)

    def _restart_follower(self) -> None:
        self._follower.kill()
        self._follower.wait()
        self._work()
        self._follower = self._new_follower()
        self.done["restarts of the follower"] += 1

    def _restart_controller(self) -> None:
        self._cluster.stop(CONTROLLER, self._rng.choice(("shutdown", "crash")))
        self._cluster.start(CONTROLLER)
        self.done["restarts of the controller"] += 1

    def _lose_broker(self) -> None:
        broker_id = self._rng.choice(BROKERS)
        self._cluster.stop(broker_id, self._rng.choice(("shutdown", "crash")))
        self._work()
        self._cluster.start(broker_id)
        self.done["lost brokers"] += 1

    def _work(self) -> None:
        """Some of each kind of work. What a restart has interrupted is tried again."""
        deadline = time.monotonic() + ATTEMPT_SECONDS
        while True:
            try:
                trio.run(self._administrate)
                break
            except (AdminError, CheckFailed):
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_SECONDS)
        if len(self._cluster.processes) == len(BROKERS) + 1:
            commit_transaction(self._cluster.bootstrap_servers, f"topic-{self._number - 1}", f"t-{self._number % 5}")
            self.done["transactions"] += 1

    async def _administrate(self) -> None:
        async with AdminClient(self._cluster.bootstrap_servers) as admin:
            self._number += 1
            topic = NewTopic(f"topic-{self._number - 1}", 20, 3, {"retention.ms": str(self._number)})
            for made in await admin.create_topics([topic]):
                made.raise_for_error()
            self.done["topics"] += 1
            await change_security(admin, self._number)
            self.done["changes of ACLs, quotas and credentials"] += 1
            await self._move(admin)
            resource = ConfigResource.topic(topic.name)
            edit = ConfigAlteration("min.insync.replicas", str(self._rng.randint(1, 2)))
            for altered in await admin.incremental_alter_configs({resource: [edit]}):
                altered.raise_for_error()
            if self._number > MOST_TOPICS:
                await admin.delete_topics([f"topic-{self._number - MOST_TOPICS}"])

    async def _move(self, admin: AdminClient) -> None:
        topics = (await admin.metadata()).topics
        partitions = [
            TopicPartition(one.topic_name or "", partition.partition_index)
            for one in topics
            if (one.topic_name or "").startswith("topic-")
            for partition in one.partitions
        ]
        targets = {
            partition: tuple(self._rng.sample(BROKERS, self._rng.randint(1, 3)))
            for partition in self._rng.sample(sorted(partitions), 10)
        }
        moved = await admin.alter_partition_reassignments(targets)
        self.done["moves"] += sum(one.error is None for one in moved)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
