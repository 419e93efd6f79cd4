"""Follows a real Apache Kafka 4.3 node for some minutes while both sides are restarted, and compares the copy with the
controller's own files. By hand; it needs Java and about 400 MB.

    python -m tools.real_clusters.follow_restarts --seconds 300 --security sasl_ssl

The controller's listener is PLAINTEXT, or SASL_SSL with PLAIN and a certificate that openssl makes. Topics are created
and deleted all the time; the follower is killed, and the node is stopped and started, in turn.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trio

import klamm
from tools.real_clusters.copies import compare_copy
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.kafka_jars import fetch_class_path, find_program
from tools.toolchain_checks.ports import free_ports
from tools.toolchain_checks.real_cluster import LOG_FOLDER, LOGGED, START_SECONDS, wait_started
from tools.toolchain_checks.report import expect

ROOT = Path(__file__).resolve().parents[2]
CLUSTER_ID = "KlammFollowedCluster00"
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="secret"'


def main() -> int:
    """Follow for the given time, and compare. Raises CheckFailed."""
    parser = argparse.ArgumentParser(prog="python -m tools.real_clusters.follow_restarts", allow_abbrev=False)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--security", choices=("plaintext", "sasl_ssl"), default="plaintext")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        java = Java(find_program("java", "default-jre-headless"), fetch_class_path(), folder)
        ports = free_ports(2)
        secure = given.security == "sasl_ssl"
        properties, client = _write(folder, ports, secure=secure)
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(properties)]
        java.run("format", "kafka.tools.StorageTool", arguments, START_SECONDS)
        copy = folder / "copy"
        follow = [sys.executable, "-m", "klamm", "follow", "--bootstrap-controller", f"127.0.0.1:{ports}"]
        follow += ["--data-dir", str(copy), *(["--command-config", str(client)] if secure else [])]
        restarts, kills = _play(java, properties, follow, f"127.0.0.1:{ports + 1}", given.seconds)
        compared = compare_copy(folder / "data" / LOG_FOLDER, copy / LOG_FOLDER)
    sys.stdout.write(f"{given.security}: {restarts} restarts of the node, {kills} of the follower: {compared}\n")
    return 0


def _play(java: Java, properties: Path, follow: list[str], servers: str, seconds: int) -> tuple[int, int]:
    ends, restarts, kills, number = time.monotonic() + seconds, 0, 0, 0
    follower = _follower(follow)
    try:
        while time.monotonic() < ends:
            with java.running(f"node-{restarts}", "kafka.Kafka", [str(properties)], LOGGED) as node:
                wait_started(node)
                for _ in range(3):
                    number = trio.run(_work, servers, number)
                    follower.kill()
                    follower.wait()
                    kills += 1
                    number = trio.run(_work, servers, number)
                    follower = _follower(follow)
                    number = trio.run(_work, servers, number)
                node.stop()
            restarts += 1
        with java.running("node-last", "kafka.Kafka", [str(properties)], LOGGED) as node:
            wait_started(node)
            trio.run(_work, servers, number)
            expect(follower.poll() is None, f"the follower has ended: {follower.returncode}")
            follower.terminate()
            follower.wait()
            subprocess.run([*follow, "--once"], check=True, timeout=120, cwd=ROOT)
    finally:
        follower.kill()
    return restarts, kills


def _follower(follow: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(follow, cwd=ROOT)


async def _work(servers: str, number: int) -> int:
    """Create some topics, change configs of them, and delete every second."""
    async with klamm.AdminClient(servers) as admin:
        for _ in range(5):
            topic = f"topic-{number}"
            for made in await admin.create_topics([klamm.NewTopic(topic, 20, 1, {"retention.ms": str(number + 1)})]):
                made.raise_for_error()
            if number % 2:
                for gone in await admin.delete_topics([topic]):
                    gone.raise_for_error()
            number += 1
    return number


def _write(folder: Path, port: int, *, secure: bool) -> tuple[Path, Path]:
    """The properties of the node, and those of the follower."""
    controller, broker = f"CONTROLLER://127.0.0.1:{port}", f"PLAINTEXT://127.0.0.1:{port + 1}"
    config = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": f"CONTROLLER:{'SASL_SSL' if secure else 'PLAINTEXT'},PLAINTEXT:PLAINTEXT",
        "listeners": f"{broker},{controller}",
        "advertised.listeners": broker,
        "log.dirs": str(folder / "data"),
        "log.cleaner.dedupe.buffer.size": "4194304",
        "offsets.topic.replication.factor": "1",
    }
    client = folder / "client.properties"
    if secure:
        store, authority = _certificate(folder)
        trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
        config |= {
            **trusted,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": f'{LOGIN} user_admin="secret";',
        }
        wanted = {
            **trusted,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f"{LOGIN};",
        }
        client.write_text("".join(f"{name}={value}\n" for name, value in wanted.items()))
    properties = folder / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    return properties, client


def _certificate(folder: Path) -> tuple[Path, Path]:
    """A key with a self-signed certificate for 127.0.0.1 in one PEM file, and the certificate alone."""
    key, certificate, store = folder / "key.pem", folder / "certificate.pem", folder / "store.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(certificate),
         "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    store.write_text(key.read_text() + certificate.read_text())
    return store, certificate


if __name__ == "__main__":
    raise SystemExit(main())
