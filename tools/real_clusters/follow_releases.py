"""Follows a node of each of several releases of Apache Kafka, and compares the copy with the controller's own files,
and what clients see of the node with what they see of a twin. By hand; it needs Java, Maven and about 400 MB.

    python -m tools.real_clusters.follow_releases [--release 4.0.1]... [--keep DIR]

The node is controller and broker at once. It has topics, configs, ACLs, quotas, a transaction, and from 3.5 on users
with SCRAM credentials. The log has the metadata.version of the release, so that it has records of old versions, too.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import trio

from klamm import AdminClient, ConfigAlteration, ConfigResource, NewPartitions, NewTopic
from tools.real_clusters.cases import check_cases
from tools.real_clusters.copies import compare_copy
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.kafka_jars import fetch_class_path, find_program
from tools.toolchain_checks.ports import free_ports
from tools.toolchain_checks.real_cluster import LOG_FOLDER, LOGGED, START_SECONDS, wait_started
from tools.toolchain_checks.report import Report
from tools.toolchain_checks.security_metadata import SECURE, change_security, commit_transaction
from tools.toolchain_checks.twins import expect_same, seen, seen_of_twin

ROOT: Final = Path(__file__).resolve().parents[2]
POM: Final = Path(__file__).with_name("releases_pom.xml")
POM_VERSION: Final = "4.3.0"
RELEASES: Final = ("3.3.2", "3.6.2", "3.9.1", "4.0.1", "4.1.1", "4.2.0")
FIRST_WITH_SCRAM: Final = (3, 5)
CLUSTER_ID: Final = "KlammFollowedClusterAA"
"""Its last character has no bits to spare, which old releases would lose."""
FOLLOW_SECONDS: Final = 120
USERS: Final = 5
_RELEASE: Final = re.compile(r"\d+\.\d+\.\d+")


def main(arguments: Sequence[str]) -> int:
    """Follow each release. Returns the exit code."""
    return check_cases(arguments, "follow_releases", "--release", RELEASES, _check, metavar="X.Y.Z", type=_release)


def class_path(release: str, folder: Path) -> str:
    """The jars of a release, which are downloaded the first time."""
    pom = folder / "pom.xml"
    pom.write_text(POM.read_text(encoding="utf-8").replace(POM_VERSION, release), encoding="utf-8")
    return fetch_class_path(pom, f"kafka-{release}")


def _check(report: Report, release: str, folder: Path) -> None:
    with report.check(f"a node of {release} starts and is followed"):
        _follow(report, release, folder)


def _follow(report: Report, release: str, folder: Path) -> None:
    java = Java(find_program("java", "default-jre-headless"), class_path(release, folder), folder)
    port = free_ports(2)
    properties = _write(folder, port)
    java.run("format", "kafka.tools.StorageTool", ["format", "-t", CLUSTER_ID, "-c", str(properties)], START_SECONDS)
    number = tuple(map(int, release.split(".")[:2]))
    has_users = number >= FIRST_WITH_SCRAM
    servers, copy = f"127.0.0.1:{port + 1}", folder / "copy"
    with java.running("node", "kafka.Kafka", [str(properties)], LOGGED) as node:
        wait_started(node)
        trio.run(_work, servers, has_users)
        commit_transaction(servers, "topic-1", "follow")
        follow = [sys.executable, "-m", "klamm", "follow", "--bootstrap-controller", f"127.0.0.1:{port}"]
        follow += ["--data-dir", str(copy), "--cluster-id", CLUSTER_ID, "--once"]
        subprocess.run(follow, check=True, timeout=FOLLOW_SECONDS, cwd=ROOT)
        with report.check(f"{release}: the copy has the controller's batches"):
            compare_copy(folder / "data" / LOG_FOLDER, copy / LOG_FOLDER)
        with report.check(f"{release}: clients see of the twin what they see of the node"):
            real = trio.run(partial(seen, servers, has_users=has_users))
            twin = trio.run(partial(seen_of_twin, copy, has_users=has_users))
            expect_same(twin, real)
        node.stop()


async def _work(servers: str, has_users: bool) -> None:
    """Topics with configs, more partitions, a deleted topic; ACLs, quotas and users."""
    async with AdminClient(servers) as admin:
        for number in range(USERS):
            topic = NewTopic(f"topic-{number}", 3 + number, 1, {"retention.ms": str(number + 1)})
            for made in await admin.create_topics([topic]):
                made.raise_for_error()
            await change_security(admin, number, has_users=has_users)
        for grown in await admin.create_partitions([NewPartitions("topic-1", 9)]):
            grown.raise_for_error()
        for gone in await admin.delete_topics(["topic-2"]):
            gone.raise_for_error()
        edits = {
            ConfigResource.topic("topic-3"): [ConfigAlteration("min.insync.replicas", "1")],
            ConfigResource.broker(): [ConfigAlteration("log.retention.ms", "1000000")],
            ConfigResource.broker(1): [ConfigAlteration("num.io.threads", "4")],
        }
        for altered in await admin.incremental_alter_configs(edits):
            altered.raise_for_error()


def _write(folder: Path, port: int) -> Path:
    controller, broker = f"CONTROLLER://127.0.0.1:{port}", f"PLAINTEXT://127.0.0.1:{port + 1}"
    config = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "broker.rack": "r1",
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "listeners": f"{broker},{controller}",
        "advertised.listeners": broker,
        "log.dirs": str(folder / "data"),
        "log.cleaner.dedupe.buffer.size": "4194304",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        **SECURE,
    }
    properties = folder / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in config.items()), encoding="utf-8")
    return properties


def _release(text: str) -> str:
    if not _RELEASE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r}: a release such as 4.0.1 is expected")
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
