"""Real 4.3 brokers that Klamm has to refuse: of another cluster, with an id that is taken, or with a log that is longer
than Klamm's, since the data directory was wiped. None of them may harm the others or lose a record.
"""

import time
from pathlib import Path
from typing import Final

from klamm.protocol.record_batch import batch_end, decode_batch_header
from tools.toolchain_checks.java_process import JavaProcess
from tools.toolchain_checks.joined_brokers import BROKERS, METADATA_FOLDER, START_SECONDS, JoinedBrokers
from tools.toolchain_checks.real_brokers_clients import RECORDS, Clients
from tools.toolchain_checks.report import expect, expect_none

FOREIGN_ID, TAKEN_ID = 4, 2
OTHER_CLUSTER: Final = "KlammToolchainCluster9"
AHEAD: Final = "ahead of the metadata log"
WIPED_SECONDS: Final = 3.0
"""For so long brokers fetch from the empty log: some times each."""


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
        self._clients.wait_for("the three brokers", lambda: self._clients.brokers() == set(BROKERS))
        found = self._clients.address(TAKEN_ID)
        expect(found == self._listens, f"broker {TAKEN_ID} listens at {found}, not at {self._listens}")
        folder = self._foreign.errors.parent / self._foreign.name / METADATA_FOLDER
        got = sum(path.stat().st_size for path in folder.glob("*.log"))
        expect(got == 0, f"the broker of another cluster has {got} bytes of the metadata log")
        for stranger in (self._foreign, self._double):
            stranger.process.kill()
            stranger.process.wait()


def wipe(cluster: JoinedBrokers, empty: Path) -> None:
    """Klamm starts on an empty directory while brokers live, and then on its own one again."""
    clients = Clients(cluster.bootstrap_servers)
    before = {broker_id: cluster.metadata_log_of(broker_id) for broker_id in BROKERS}
    warned, own = cluster.klamms_lines().count(AHEAD), cluster.data_dir
    cluster.data_dir = empty
    cluster.start_klamm()
    clients.wait_for("a warning", lambda: cluster.klamms_lines().count(AHEAD) > warned)
    until = time.monotonic() + WIPED_SECONDS
    while time.monotonic() < until:
        # Without an idempotent producer, which would need an id of the controller.
        lost = clients.produce("first", RECORDS, "wiped", idempotent=False)
        expect_none(lost, "records are not acknowledged")
    cluster.stop_klamm()
    cluster.data_dir = own
    cluster.start_klamm()
    # Simulated brokers of an earlier run are unfenced until their sessions end, and a real broker may name one of them
    # as the controller. A client waits for the controller that it has been given.
    clients.wait_for("the real brokers alone", lambda: clients.brokers() == set(BROKERS))
    clients.create("unharmed")
    expect_none(clients.produce("unharmed", RECORDS, "unharmed"), "records are not acknowledged")
    clients.expect_consumed("unharmed", [f"unharmed-{index}" for index in range(RECORDS)])
    clients.wait_for("replicas in sync", lambda: clients.all_in_sync("unharmed"))
    ended = [f"broker {broker_id}" for broker_id in BROKERS if cluster.brokers[broker_id].process.poll() is not None]
    expect_none(ended, "brokers that ended")
    cut = [f"broker {one}" for one, log in before.items() if not _goes_on(log, cluster.metadata_log_of(one))]
    expect_none(cut, "brokers that have cut their metadata log")


def _goes_on(log: bytes, later: bytes) -> bool:
    """Whether the later log has every record of the former one, or begins behind all of them. The second is a log that
    begins at a snapshot, which a broker takes that has missed several runs of Klamm."""
    position = end_offset = 0
    while position < len(log):
        end_offset = decode_batch_header(log, position).last_offset + 1
        position = batch_end(log, position)
    begins_behind = bool(later) and decode_batch_header(later, 0).base_offset >= end_offset
    return later.startswith(log) or begins_behind


def _await_line(stranger: JavaProcess, text: str) -> None:
    stranger.wait_for(
        f"it logged {text}",
        lambda: text in stranger.errors.read_text(encoding="utf-8", errors="replace") or None,
        START_SECONDS,
    )
