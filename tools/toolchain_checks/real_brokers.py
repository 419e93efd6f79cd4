"""Real 4.3 brokers join Klamm (docs/real-brokers.md): clients work on them, a broker and Klamm are killed, and a topic
with a placeholder (KIP-409) gets its replica when the broker returns.
"""

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka import ElectionType, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.joined_brokers import BROKERS, JoinedBrokers, joined_brokers
from tools.toolchain_checks.real_brokers_acls import USERS, Acls
from tools.toolchain_checks.real_brokers_admin import Administration
from tools.toolchain_checks.real_brokers_beside_simulated import BesideSimulated
from tools.toolchain_checks.real_brokers_clients import (
    CLIENT_SECONDS,
    PARTITIONS,
    POLL_SECONDS,
    RECORDS,
    RECOVERY_SECONDS,
    Clients,
    exchange_records,
)
from tools.toolchain_checks.real_brokers_elections import UncleanElections
from tools.toolchain_checks.real_brokers_refused import AHEAD, Strangers, wipe
from tools.toolchain_checks.real_brokers_takeover import Takeover
from tools.toolchain_checks.report import Report, expect, expect_none

CONFIGS: Final = (
    "broker.session.timeout.ms=12000",
    "enable.under.replicated.topic.creation=true",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)
FAULTS: Final = (
    {"api": "BrokerHeartbeat", "error": "NOT_CONTROLLER", "times": 3, "skip": 20},
    {"api": "AlterPartition", "error": "OPERATION_NOT_ATTEMPTED", "times": 2},
)
"""What Klamm refuses in each of its runs. The brokers have to try again."""
DELAY_MS: Final = 30_000
"""Of each heartbeat while the rule applies. A broker waits for half a session, and sends the next one elsewhere."""
DELAYING_MS: Final = 14_000
"""For how long the rule applies: longer than a session."""
STREAMS_SECONDS: Final = 400.0
FENCED, DELAYED, MOVED = 3, 1, 2
"""The broker that is killed, the one whose heartbeat is delayed, and the one that is stopped."""
_FAULT = re.compile(r"Encountered .*\bfault\b")
_NOT_APPROVED = "Timed out waiting for the controller to approve controlled shutdown"


def check_real_brokers(report: Report, java: Java, folder: Path) -> None:
    """All output goes to `folder`, which is new."""
    whole_run = "three real 4.3 brokers in three racks join klamm serve --brokers 0"
    java = replace(java, folder=folder)
    with report.check(whole_run), joined_brokers(java, CONFIGS, faults=FAULTS, users=USERS) as cluster:
        story = _Story(cluster)
        _check_clients(report, cluster, java, story)
        exactly_once = "Kafka Streams counts every word exactly once while a broker and Klamm are killed"
        with report.check(exactly_once), _counting_words(java, cluster):
            _check_failures(report, cluster, story)
        with report.check("a broker that gets SIGTERM ends when its partitions have other leaders"):
            elections = UncleanElections(cluster, java)
            elections.write_to_both()
            story.stop_broker()
        with report.check(
            "without the last in-sync replica, a partition waits for an unclean election, and loses records"
        ):
            elections.elect()
        with report.check("the former leader returns, cuts its log, and is in sync"):
            elections.bring_back()
        takeover = Takeover(cluster, java)
        with report.check("a real 4.3 controller on a copy of Klamm's directory takes over, and the brokers go on"):
            takeover.give()
        beside = BesideSimulated(cluster)
        with report.check(
            "Klamm takes over what that controller wrote, now with simulated brokers beside the real ones"
        ):
            takeover.take_back(*beside.options)
        with report.check(
            "a partition has brokers of one kind, by the name of its topic, and internal topics real ones"
        ):
            beside.expect_kinds()
        with report.check("groups and transactions of simulated brokers' topics have coordinators on real brokers"):
            beside.exchange_records()
        with report.check("Klamm ends with exit code 0, and has nothing to warn of"):
            story.end_klamm()
        with report.check("brokers that live on when Klamm starts on an empty directory cut nothing of their logs"):
            wipe(cluster, folder / "empty")
        with report.check("the brokers met no fault"):
            expect_none([line for line in cluster.brokers_lines() if _FAULT.search(line)], "faults")


def _check_clients(report: Report, cluster: JoinedBrokers, java: Java, story: "_Story") -> None:
    with report.check("a group reads what an idempotent and a transactional producer wrote, without aborted records"):
        exchange_records(Clients(cluster.bootstrap_servers), ("classic",))
    with report.check("a share group gets every record once"):
        story.share_records()
    acls = Acls(cluster)
    with report.check("brokers and Klamm refuse a user without ACLs, and the principal of an Envelope counts"):
        acls.refuse()
    with report.check("ACLs that are made through a broker apply on all brokers, until they are deleted"):
        acls.allow()
    administration = Administration(cluster, java)
    with report.check("kafka-metadata-quorum describes Klamm as the leader, and three brokers as observers"):
        administration.ask_kafkas_tool()
    with report.check("max.message.bytes of a topic has effect on its leader"):
        administration.change_config()
    with report.check("partitions that are added to a topic take records"):
        administration.add_partitions()
    with report.check("klamm reassign-partitions moves a partition with its records, and watches it"):
        administration.reassign()


def _check_failures(report: Report, cluster: JoinedBrokers, story: "_Story") -> None:
    with report.check("a broker is killed, and a topic is made with a placeholder for it, which takes records"):
        story.make_placeholder()
    with report.check("the broker returns, and the placeholder becomes a replica with all records"):
        story.fill_placeholder()
    with report.check("refused heartbeats and AlterPartition requests were sent again"):
        story.expect_refusals()
    with report.check("after an election of preferred leaders that broker leads again"):
        story.elect_preferred()
    strangers = Strangers(cluster)
    with report.check("a broker whose heartbeats are delayed is fenced, and comes back in sync"):
        story.delay_heartbeat()
    with report.check("a broker of another cluster, and one with the id of a broker that is alive, are refused"):
        strangers.expect_refused()
    with report.check("Klamm is killed and started again while a producer writes: no record is lost or doubled"):
        story.kill_klamm()


@contextmanager
def _counting_words(java: Java, cluster: JoinedBrokers) -> Iterator[None]:
    """Kafka Streams (exactly_once_v2) counts words meanwhile; at the end it compares the counts with what it wrote."""
    arguments = [cluster.bootstrap_servers, "-", str(java.folder / "streams")]
    with java.running("WordCount", "WordCount", arguments) as application:
        application.wait_for(
            "it counts", lambda: "counting" in application.output.read_text() or None, RECOVERY_SECONDS
        )
        yield
        application.wait_end(STREAMS_SECONDS)


class _Story:
    """What clients and processes do, in this order."""

    def __init__(self, cluster: JoinedBrokers) -> None:
        self._cluster = cluster
        self._clients = Clients(cluster.bootstrap_servers)
        self._config: dict[str, Any] = self._clients.config
        self._admin = AdminClient(self._config)

    def share_records(self) -> None:
        """A member that acknowledges all that it gets, from the beginning of a topic on."""
        self._clients.create("shared")
        entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        group = ConfigResource(ResourceType.GROUP, "sharers", incremental_configs=[entry])
        self._admin.incremental_alter_configs([group])[group].result(CLIENT_SECONDS)
        expect_none(self._clients.produce("shared", RECORDS, "shared"), "records are not acknowledged")
        consumer = ShareConsumer({**self._config, "group.id": "sharers"})
        consumer.subscribe(["shared"])
        found, deadline = Counter[str](), time.monotonic() + RECOVERY_SECONDS
        try:
            while found.total() < RECORDS and time.monotonic() < deadline:
                for message in consumer.poll(POLL_SECONDS):
                    expect(message.error() is None, str(message.error()))
                    found[(message.value() or b"").decode()] += 1
        finally:
            consumer.close()
        expect(found == Counter(f"shared-{index}" for index in range(RECORDS)), f"{found.total()} records are read")

    def make_placeholder(self) -> None:
        self._cluster.kill_broker(FENCED)
        self._clients.wait_for("a fenced broker", lambda: self._clients.brokers() == set(BROKERS) - {FENCED})
        self._clients.create("placed")
        for partition in self._clients.partitions("placed").values():
            missing = [replica for replica in partition.replicas if replica < 0]
            expect(len(partition.replicas) == 3 and len(missing) == 1, f"the replicas are {partition.replicas}")
        expect_none(self._clients.produce("placed", RECORDS, "placed"), "records are not acknowledged")

    def fill_placeholder(self) -> None:
        self._cluster.start_broker(FENCED)
        self._clients.wait_for("replicas in sync", lambda: all(map(self._clients.all_in_sync, ("placed", "first"))))
        found = 0
        for partition in range(PARTITIONS):
            logs = [self._cluster.log_of(broker_id, "placed", partition) for broker_id in BROKERS]
            expect(logs[0] == logs[1] == logs[2], f"the logs have {[len(log) for log in logs]} bytes")
            found += len(logs[0])
        expect(found > 0, "no log has a record")  # a producer may use one partition alone
        self._clients.expect_consumed("placed", [f"placed-{index}" for index in range(RECORDS)], "consumer")

    def elect_preferred(self) -> None:
        preferred = [
            TopicPartition("first", index)
            for index, partition in self._clients.partitions("first").items()
            if partition.replicas[0] == FENCED != partition.leader
        ]
        expect(bool(preferred), f"broker {FENCED} has not lost a partition")
        elected = self._admin.elect_leaders(ElectionType.PREFERRED, preferred).result(CLIENT_SECONDS)
        expect(not any(elected.values()), f"the answer is {elected}")
        self._clients.wait_for(
            "its leaderships",
            lambda: all(self._clients.leader(one.topic, one.partition) == FENCED for one in preferred),
        )

    def expect_refusals(self) -> None:
        wanted = [rule["times"] for rule in FAULTS]
        expect(self._cluster.hits() == wanted, f"the rules applied {self._cluster.hits()} times")

    def delay_heartbeat(self) -> None:
        before = self._cluster.brokers[DELAYED].process.pid
        self._cluster.control.add_fault(
            api="BrokerHeartbeat", where={"brokerId": DELAYED}, delay_ms=DELAY_MS, for_ms=DELAYING_MS
        )
        self._clients.wait_for("a fenced broker", lambda: self._clients.brokers() == set(BROKERS) - {DELAYED})
        expect_none(self._clients.produce("first", RECORDS, "fenced"), "records are not acknowledged")
        self._clients.wait_for("the broker", lambda: self._clients.brokers() == set(BROKERS))
        self._clients.wait_for("replicas in sync", lambda: self._clients.all_in_sync("first"))
        process = self._cluster.brokers[DELAYED].process
        expect(process.pid == before and process.poll() is None, "it is another process")

    def kill_klamm(self) -> None:
        self._clients.create("steady")
        with self._clients.writing("steady") as acknowledged:
            self._clients.wait_for("the first records", lambda: len(acknowledged) >= RECORDS)
            self._cluster.kill_klamm()
            before = len(acknowledged)
            self._clients.wait_for("records without Klamm", lambda: len(acknowledged) >= before + RECORDS)
            self._cluster.start_klamm()
            self._clients.create("after")
            expect_none(self._clients.produce("after", RECORDS, "after"), "records are not acknowledged")
        self._clients.expect_consumed("steady", acknowledged)
        self._clients.expect_consumed("after", [f"after-{index}" for index in range(RECORDS)])

    def stop_broker(self) -> None:
        topics = ("first", "steady", "after")
        self._clients.wait_for("replicas in sync", lambda: all(map(self._clients.all_in_sync, topics)))
        led = [partition for partition in self._clients.all_partitions() if partition.leader == MOVED]
        expect(bool(led), f"broker {MOVED} leads no partition")
        self._cluster.brokers[MOVED].stop()
        expect_none([line for line in self._cluster.brokers_lines() if _NOT_APPROVED in line], "refusals")
        # At once: no session has to expire.
        left = [str(partition) for partition in self._clients.all_partitions() if partition.leader in (MOVED, -1)]
        expect_none(left, "partitions without another leader")
        expect_none(self._clients.produce("first", RECORDS, "last"), "records are not acknowledged")

    def end_klamm(self) -> None:
        self._cluster.stop_klamm()
        lines = self._cluster.klamms_lines()
        expect_none([line for line in lines.splitlines() if AHEAD in line], "warnings")
        expect("Traceback" not in lines, lines)
