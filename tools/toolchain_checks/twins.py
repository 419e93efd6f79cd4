"""Copies the metadata of a real Apache Kafka cluster by `klamm follow` and `klamm clone`, and compares what clients see
of the cluster and of its twins, request by request."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import trio

import klamm
from klamm import AdminClient, ConfigResource
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.transactions import init_producer_id
from tools.predictions.running import run_cases
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.real_cluster import BROKERS, RealCluster
from tools.toolchain_checks.report import Report, expect
from tools.toolchain_checks.security_metadata import SECURE, change_security, commit_transaction, security_seen

ROOT = Path(__file__).resolve().parents[2]
COMMAND_SECONDS = 240.0
SEGMENT = f"{0:020}.log"
USERS = 4
CASES, CASES_SEED = 2, 3
POLL_SECONDS = 0.05


def check_twins(report: Report, java: Java, cluster: RealCluster) -> None:
    """The cluster has topics, configs and moves of the check before, and the configs `SECURE`."""
    followed, cloned = java.folder / "followed", java.folder / "cloned"
    with report.check("a real cluster gets ACLs, quotas and SCRAM credentials, and commits a transaction"):
        trio.run(_change_security, cluster.bootstrap_servers)
        commit_transaction(cluster.bootstrap_servers, "moved", "twin")
    with report.check("klamm follow copies the log of a real controller byte for byte"):
        _run("follow", "--bootstrap-controller", cluster.controller, "--data-dir", str(followed), "--once")
        copy = (followed / cluster.metadata_log.name / SEGMENT).read_bytes()
        theirs = (cluster.metadata_log / SEGMENT).read_bytes()
        expect(len(copy) > 1_000 and theirs.startswith(copy), f"{len(copy)} bytes of {len(theirs)} are others")
    with report.check("klamm clone reads a real cluster by its admin APIs, and nothing is missing"):
        said = _run("clone", "--bootstrap-server", cluster.bootstrap_servers, "--out", str(cloned)).stderr
        expect("not shown" not in said, said)
    for name, copied, has_users in (("followed", followed, True), ("cloned", cloned, False)):
        with report.check(f"clients see of the {name} twin what they see of the real cluster"):
            real = trio.run(_seen, cluster.bootstrap_servers, has_users)
            twin = trio.run(_seen_of_twin, copied, has_users)
            expect_same(twin, real)
    with report.check("the followed twin gives the producer ids that the real cluster gives next"):
        predicted, given = trio.run(_producer_ids, followed, cluster.bootstrap_servers)
        expect(predicted in given, f"the twin gives {predicted}, the brokers of the cluster give {given}")
    with report.check(f"{CASES} random cases do to the cluster what a twin predicts"):
        lines: list[str] = []
        found = trio.run(run_cases, cluster, java.folder / "predicted", range(CASES), CASES_SEED, lines.append)
        expect(all(case.is_as_predicted for case in found), "\n".join(lines))
    with report.check("klamm try loses a broker of the twin"):
        steps = java.folder / "changes.json"
        steps.write_text(json.dumps({"steps": [{"lose-broker": BROKERS[1]}]}), encoding="utf-8")
        tried = json.loads(_run("try", "--twin", str(followed), str(steps), "--output", "json").stdout)
        after = tried["steps"][0]["after"]
        expect([one["is_up"] for one in after["brokers"]] == [True, False, True], str(after))
        expect(after["under_replicated"] > 0, str(after))


def expect_same(twin: dict[str, Any], real: dict[str, Any]) -> None:
    """Raise `CheckFailed` that names the first answer that differs."""
    for what, answered in real.items():
        expect(twin.get(what) == answered, f"{what}\nthe twin: {twin.get(what)}\nthe cluster: {answered}")


async def seen_of_twin(copied: Path, *, has_users: bool) -> dict[str, Any]:
    """What clients see of a twin."""
    async with klamm.Cluster(twin=copied, configs=SECURE) as twin:
        return await seen(twin.bootstrap_servers, has_users=has_users)


async def seen(servers: str, *, has_users: bool) -> dict[str, Any]:
    """Brokers, partitions, the configs that are set, ACLs, quotas, and with `has_users` the SCRAM credentials."""
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
            **await security_seen(admin, has_users=has_users),
        }


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-m", "klamm", *arguments],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


async def _change_security(servers: str) -> None:
    async with AdminClient(servers) as admin:
        for number in range(USERS):
            await change_security(admin, number)


async def _seen(servers: str, has_users: bool) -> dict[str, Any]:
    return await seen(servers, has_users=has_users)


async def _seen_of_twin(copied: Path, has_users: bool) -> dict[str, Any]:
    return await seen_of_twin(copied, has_users=has_users)


async def _producer_ids(copied: Path, servers: str) -> tuple[int, list[int]]:
    """The first one of a twin, and the next one of each real broker, of which two at most had a block before."""
    async with klamm.Cluster(twin=copied, configs=SECURE) as twin:
        predicted = await _producer_id(twin.bootstrap_servers, BROKERS[0])
    return predicted, [await _producer_id(servers, broker_id) for broker_id in BROKERS]


async def _producer_id(servers: str, broker_id: int) -> int:
    request = init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    async with AdminClient(servers) as admin:
        admin._learn_brokers((await admin.describe_cluster()).brokers)
        with trio.fail_after(COMMAND_SECONDS):
            while True:
                answer = await admin._request(init_producer_id.API, request, broker_id)
                if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # it waits for a block
                    expect(answer.error_code == 0, f"InitProducerId on broker {broker_id}: {answer}")
                    return int(answer.producer_id)
                await trio.sleep(POLL_SECONDS)
