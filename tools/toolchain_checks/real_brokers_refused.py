"""Real 4.3 brokers that Klamm has to refuse, because they are of another cluster, or have an id that is taken. None of
them may harm the others.
"""

from typing import Final

from tools.toolchain_checks.java_process import JavaProcess
from tools.toolchain_checks.joined_brokers import BROKERS, METADATA_FOLDER, START_SECONDS, JoinedBrokers
from tools.toolchain_checks.real_brokers_clients import Clients
from tools.toolchain_checks.report import expect

FOREIGN_ID, TAKEN_ID = 4, 2
OTHER_CLUSTER: Final = "KlammToolchainCluster9"
AHEAD: Final = "ahead of the metadata log"


class Strangers:
    """Two brokers that do not get in. They start at once, and are ended when they have been refused."""

    def __init__(self, cluster: JoinedBrokers) -> None:
        self._cluster = cluster
        self._clients = Clients(cluster.bootstrap_servers)
        self._listens = self._clients.address(TAKEN_ID)
        self._foreign = cluster.start_stranger(FOREIGN_ID, OTHER_CLUSTER)
        self._double = cluster.start_stranger(TAKEN_ID)

    def expect_refused(self) -> None:
        """Each names Kafka's error in its log. The broker with the same id goes on, and no record is sent to the
        cluster of another id."""
        _await_line(self._foreign, "INCONSISTENT_CLUSTER_ID")
        _await_line(self._double, "DUPLICATE_BROKER_REGISTRATION")
        expect(self._clients.brokers() == set(BROKERS), f"the brokers are {self._clients.brokers()}")
        found = self._clients.address(TAKEN_ID)
        expect(found == self._listens, f"broker {TAKEN_ID} listens at {found}, not at {self._listens}")
        folder = self._foreign.errors.parent / self._foreign.name / METADATA_FOLDER
        got = sum(path.stat().st_size for path in folder.glob("*.log"))
        expect(got == 0, f"the broker of another cluster has {got} bytes of the metadata log")
        for stranger in (self._foreign, self._double):
            stranger.process.kill()
            stranger.process.wait()


def _await_line(stranger: JavaProcess, text: str) -> None:
    stranger.wait_for(
        f"it logged {text}",
        lambda: text in stranger.errors.read_text(encoding="utf-8", errors="replace") or None,
        START_SECONDS,
    )
