"""Unclean elections on real 4.3 brokers that have joined Klamm: a partition whose last in-sync replica is gone gets a
leader of whose log the newest records are missing, by Kafka's tool or by its topic's config.
"""

from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.joined_brokers import JoinedBrokers
from tools.toolchain_checks.real_brokers_clients import CLIENT_SECONDS, RECORDS, Clients
from tools.toolchain_checks.report import expect, expect_none

BEHIND, LAST = 2, 1
"""The broker that has stopped first, and the one that has been alone in the ISRs since."""
BY_HAND, BY_CONFIG = "unclean-by-hand", "unclean-by-config"
_CONFIGS: Final = {BY_HAND: {}, BY_CONFIG: {"unclean.leader.election.enable": "true"}}
_TOOL: Final = "org.apache.kafka.tools.LeaderElectionCommand"


class UncleanElections:
    """Two topics of one partition on two brokers."""

    def __init__(self, cluster: JoinedBrokers, java: Java) -> None:
        self._cluster = cluster
        self._java = java
        self._clients = Clients(cluster.bootstrap_servers)
        self._admin = AdminClient(self._clients.config)

    def write_to_both(self) -> None:
        """Records that both replicas have."""
        for topic, configs in _CONFIGS.items():
            made = NewTopic(topic, 1, replica_assignment=[[BEHIND, LAST]], config=configs)
            self._admin.create_topics([made])[topic].result(CLIENT_SECONDS)
        self._clients.wait_for("leaders", lambda: all(self._leader(topic) == BEHIND for topic in _CONFIGS))
        for topic in _CONFIGS:
            expect_none(self._clients.produce(topic, RECORDS, "both"), "records are not acknowledged")

    def elect(self) -> None:
        """The replica that has stopped before returns without the other. One topic gets a leader by itself."""
        self._clients.wait_for("other leaders", lambda: all(self._leader(topic) == LAST for topic in _CONFIGS))
        for topic in _CONFIGS:
            expect_none(self._clients.produce(topic, RECORDS, "lost"), "records are not acknowledged")
        self._cluster.brokers[LAST].stop()
        self._cluster.start_broker(BEHIND)
        self._cluster.await_started(BEHIND)
        self._clients.wait_for("an election by the config", lambda: self._leader(BY_CONFIG) == BEHIND)
        self._clients.wait_for("no election without the config", lambda: self._leader(BY_HAND) == -1)
        options = ["--election-type", "unclean", "--topic", BY_HAND, "--partition", "0"]
        servers = ["--bootstrap-server", self._cluster.bootstrap_servers]
        self._java.run("unclean-election", _TOOL, [*servers, *options], CLIENT_SECONDS)
        self._clients.wait_for("an election by the tool", lambda: self._leader(BY_HAND) == BEHIND)
        for topic in _CONFIGS:
            self._clients.expect_consumed(topic, [f"both-{index}" for index in range(RECORDS)], partitions=1)
            expect_none(self._clients.produce(topic, RECORDS, "later"), "records are not acknowledged")

    def bring_back(self) -> None:
        """The former leader cuts the lost records, and copies what was written since."""
        before = [self._cluster.log_of(LAST, topic, 0) for topic in _CONFIGS]
        self._cluster.start_broker(LAST)
        self._clients.wait_for("replicas in sync", lambda: all(map(self._is_in_sync, _CONFIGS)))
        for topic, old in zip(_CONFIGS, before, strict=True):
            logs = [self._cluster.log_of(broker_id, topic, 0) for broker_id in (BEHIND, LAST)]
            expect(logs[0] == logs[1], f"the logs of {topic} have {len(logs[0])} and {len(logs[1])} bytes")
            expect(b"lost-0" in old and b"lost-0" not in logs[1], f"broker {LAST} has the lost records of {topic}")
            expect(b"later-0" in logs[1], f"broker {LAST} does not have the later records of {topic}")

    def _leader(self, topic: str) -> int:
        return self._clients.leader(topic, 0)

    def _is_in_sync(self, topic: str) -> bool:
        return {len(found.isrs) for found in self._clients.partitions(topic).values()} == {len((BEHIND, LAST))}
