"""Real 4.3 brokers and simulated ones in one cluster: which brokers a topic gets, and coordinators on real brokers for
clients of topics on simulated ones (docs/real-brokers.md).
"""

from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, PartitionMetadata

from tools.toolchain_checks.joined_brokers import BROKERS, MOST_SIMULATED, JoinedBrokers
from tools.toolchain_checks.real_brokers_clients import CLIENT_SECONDS, PARTITIONS, RECORDS, Clients
from tools.toolchain_checks.report import expect, expect_none

SIMULATED: Final = tuple(range(11, 11 + MOST_SIMULATED))
REAL_TOPIC, SIMULATED_TOPIC = "real-orders", "simulated-orders"
_MORE: Final = 2 * PARTITIONS
_SETS: Final = ("offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=3")
"""As the real brokers have them."""


class BesideSimulated:
    """Klamm has four simulated brokers, and topics `real-…` are on the three real ones."""

    def __init__(self, cluster: JoinedBrokers) -> None:
        self._cluster = cluster
        self._clients = Clients(cluster.bootstrap_servers)
        self._admin = AdminClient(self._clients.config)

    @property
    def options(self) -> Sequence[str]:
        """How Klamm has to be started."""
        ids = ",".join(map(str, SIMULATED))
        sets = [part for config in _SETS for part in ("--set", config)]
        topics = ("--real-topics", "[ru]*")
        return ("--broker-ids", ids, "--listen", self._cluster.first_simulated, *topics, *sets)

    def expect_kinds(self) -> None:
        """Placement at the creation, and of more partitions; a manual assignment of both kinds is refused."""
        self._clients.wait_for("all brokers", lambda: self._clients.brokers() == {*BROKERS, *SIMULATED})
        for topic in (REAL_TOPIC, SIMULATED_TOPIC):
            self._clients.create(topic)
        self._expect_kinds(PARTITIONS)
        more = [NewPartitions(topic, _MORE) for topic in (REAL_TOPIC, SIMULATED_TOPIC)]
        for made in self._admin.create_partitions(more).values():
            made.result(CLIENT_SECONDS)
        self._expect_kinds(_MORE)
        mixed = NewTopic("mixed", 1, replica_assignment=[[BROKERS[0], SIMULATED[0]]])
        try:
            self._admin.create_topics([mixed])["mixed"].result(CLIENT_SECONDS)
        except KafkaException as error:
            found = error.args[0].code()
            expect(found == KafkaError.INVALID_REPLICA_ASSIGNMENT, f"both kinds are answered with {error}")
        else:
            expect(False, "a partition has replicas on brokers of both kinds")
        for topic in ("__consumer_offsets", "__transaction_state"):
            self._expect_replicas(topic, BROKERS, PARTITIONS)

    def exchange_records(self) -> None:
        """A transaction in topics of both kinds is committed, and one is aborted; groups read the topics."""
        self._cluster.control.add_fault(api="WriteTxnMarkers", broker=list(SIMULATED))  # only counts
        producer = self._clients.producer(**{"transactional.id": "both-kinds"})
        producer.init_transactions(CLIENT_SECONDS)
        for name, end in (("committed", producer.commit_transaction), ("aborted", producer.abort_transaction)):
            producer.begin_transaction()
            for index in range(RECORDS):
                for topic in (REAL_TOPIC, SIMULATED_TOPIC):
                    producer.produce(topic, f"{name}-{index}".encode(), partition=index % _MORE)
            producer.flush(CLIENT_SECONDS)
            end(CLIENT_SECONDS)
        wanted = [f"committed-{index}" for index in range(RECORDS)]
        for topic in (REAL_TOPIC, SIMULATED_TOPIC):
            for protocol in ("classic", "consumer"):
                group = self._clients.expect_consumed(topic, wanted, protocol, _MORE)
                described: Any = self._admin.describe_consumer_groups([group])[group].result(CLIENT_SECONDS)
                expect(described.coordinator.id in BROKERS, f"the coordinator is broker {described.coordinator.id}")
        hits = self._cluster.hits()[-1]
        expect(hits > 0, f"simulated brokers got {hits} WriteTxnMarkers requests")

    def _expect_kinds(self, partitions: int) -> None:
        for topic, among in ((REAL_TOPIC, BROKERS), (SIMULATED_TOPIC, SIMULATED)):
            self._expect_replicas(topic, among, partitions)

    def _expect_replicas(self, topic: str, among: Sequence[int], partitions: int) -> None:
        """In one answer that has all partitions: brokers learn of them one after the other."""

        def whole() -> dict[int, PartitionMetadata]:
            found = self._clients.partitions(topic)
            return found if len(found) == partitions else {}

        others = [
            f"{topic}-{index}: {partition.replicas}"
            for index, partition in self._clients.wait_for(f"all partitions of {topic}", whole).items()
            if len(partition.replicas) != len(BROKERS) or not set(partition.replicas) <= set(among)
        ]
        expect_none(others, f"partitions with other brokers than {among}")
