"""Copies the metadata of a real Apache Kafka cluster by `klamm follow` and `klamm clone`, and compares what clients see
of the cluster and of its twins."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import trio

import klamm
from klamm import AdminClient, ConfigResource
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.real_cluster import BROKERS, RealCluster, data_dir_of
from tools.toolchain_checks.report import Report, expect

ROOT = Path(__file__).resolve().parents[2]
COMMAND_SECONDS = 240.0
LOG = "__cluster_metadata-0/00000000000000000000.log"


def check_twins(report: Report, java: Java, cluster: RealCluster) -> None:
    """The cluster has topics, configs and moves of the check before."""
    followed, cloned = java.folder / "followed", java.folder / "cloned"
    with report.check("klamm follow copies the log of a real controller byte for byte"):
        _run("follow", "--bootstrap-controller", cluster.controller, "--data-dir", str(followed), "--once")
        copy = (followed / LOG).read_bytes()
        theirs = (data_dir_of(java, BROKERS[0]) / LOG).read_bytes()
        expect(len(copy) > 1_000 and theirs.startswith(copy), f"{len(copy)} bytes of {len(theirs)} are others")
    with report.check("klamm clone reads a real cluster by its admin APIs, and nothing is missing"):
        said = _run("clone", "--bootstrap-server", cluster.bootstrap_servers, "--out", str(cloned)).stderr
        expect("not shown" not in said, said)
    real = trio.run(_seen, cluster.bootstrap_servers)
    for name, copied in (("followed", followed), ("cloned", cloned)):
        with report.check(f"clients see of the {name} twin what they see of the real cluster"):
            twin = trio.run(_seen_of_twin, copied)
            expect(twin == real, f"the twin: {twin}\nthe cluster: {real}")
    with report.check("klamm try loses a broker of the twin"):
        steps = java.folder / "changes.json"
        steps.write_text(json.dumps({"steps": [{"lose-broker": BROKERS[1]}]}), encoding="utf-8")
        tried = json.loads(_run("try", "--twin", str(followed), str(steps), "--output", "json").stdout)
        after = tried["steps"][0]["after"]
        expect([one["is_up"] for one in after["brokers"]] == [True, False, True], str(after))
        expect(after["under_replicated"] > 0, str(after))


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-m", "klamm", *arguments],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


async def _seen_of_twin(copied: Path) -> Any:
    async with klamm.Cluster(twin=copied) as twin:
        return await _seen(twin.bootstrap_servers)


async def _seen(servers: str) -> Any:
    """Brokers, partitions, and the configs that are set."""
    async with AdminClient(servers) as admin:
        described = await admin.describe_cluster()
        topics = sorted((await admin.metadata()).topics, key=lambda one: one.topic_name or "")
        resources = [ConfigResource.topic(one.topic_name or "") for one in topics]
        configs = await admin.describe_configs([ConfigResource.broker(), *resources])
        return {
            "cluster": described.cluster_id,
            "brokers": sorted((one.broker_id, one.rack) for one in described.brokers),
            "topics": [
                (
                    one.topic_name,
                    str(one.topic_id),
                    [(p.partition_index, p.leader, p.leader_epoch, p.replicas, p.isr) for p in one.partitions],
                )
                for one in topics
            ],
            "configs": [
                (str(one.resource), sorted((n, e.value) for n, e in one.configs.items() if "DYNAMIC" in e.source.name))
                for one in configs
            ],
        }
