"""Three brokers of older releases of Apache Kafka join Klamm at a metadata.version that they know; clients use them.

    python -m tools.real_clusters.older_brokers [--release 4.1.0]... [--keep DIR]

For each release: an idempotent and a transactional producer write, groups read, one broker is killed and returns, and
Klamm is killed and starts again. Downloads the jars of each release once. Prints a line for each check; exit code 0 if
all passed.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.real_clusters.cases import check_cases
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.joined_brokers import BROKERS, joined_brokers
from tools.toolchain_checks.kafka_jars import fetch_release, find_program
from tools.toolchain_checks.real_brokers_clients import RECORDS, Clients, exchange_records
from tools.toolchain_checks.report import Report, expect_none

METADATA_VERSIONS: Final = {"3.9": "3.9-IV0", "4.0": "4.0-IV3", "4.1": "4.1-IV1", "4.2": "4.2-IV1"}
"""The newest of each minor release that is in production."""
RELEASES: Final = ("3.9.1", "4.0.0", "4.1.0", "4.2.0")
WITHOUT_NEW_GROUPS: Final = "3.9"
"""Its groups of KIP-848 are a preview."""
CONFIGS: Final = ("broker.session.timeout.ms=9000",)
KILLED: Final = 3
_FAULT = re.compile(r"Encountered .*\bfault\b")
_RELEASE = re.compile(r"\d+\.\d+\.\d+")


def main(arguments: Sequence[str]) -> int:
    """Run the checks of each release. Returns the exit code."""
    return check_cases(arguments, "older_brokers", "--release", RELEASES, _check, metavar="X.Y.Z", type=_release)


def _check(report: Report, release: str, folder: Path) -> None:
    minor = release.rpartition(".")[0]
    version = METADATA_VERSIONS[minor]
    protocols = ("classic",) if minor == WITHOUT_NEW_GROUPS else ("classic", "consumer")
    with report.check(f"three brokers of {release} join klamm serve --metadata-version {version}"):
        java = Java(find_program("java", "default-jre-headless"), fetch_release(release), folder)
        options = ("--brokers", "0", "--metadata-version", version)
        with joined_brokers(java, CONFIGS, options=options) as cluster:
            clients = Clients(cluster.bootstrap_servers)
            with report.check(f"{release}: {' and '.join(protocols)} groups read what producers committed"):
                exchange_records(clients, protocols)
            with report.check(f"{release}: a broker is killed and returns, and is in sync"):
                cluster.kill_broker(KILLED)
                clients.wait_for("a fenced broker", lambda: clients.brokers() == set(BROKERS) - {KILLED})
                expect_none(clients.produce("first", RECORDS, "meanwhile"), "records are not acknowledged")
                cluster.start_broker(KILLED)
                clients.wait_for("replicas in sync", lambda: clients.all_in_sync("first"))
            with report.check(f"{release}: Klamm is killed and started again, and a topic is made"):
                cluster.kill_klamm()
                cluster.start_klamm()
                clients.create("after")
                expect_none(clients.produce("after", RECORDS, "after"), "records are not acknowledged")
                clients.expect_consumed("after", [f"after-{index}" for index in range(RECORDS)])
            with report.check(f"{release}: no broker met a fault"):
                expect_none([line for line in cluster.brokers_lines() if _FAULT.search(line)], "faults")


def _release(text: str) -> str:
    if not _RELEASE.fullmatch(text) or text.rpartition(".")[0] not in METADATA_VERSIONS:
        known = ", ".join(METADATA_VERSIONS)
        raise argparse.ArgumentTypeError(f"{text!r}: a release such as 4.1.0 of {known} is expected")
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
