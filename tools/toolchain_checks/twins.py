"""Copies the metadata of a real Apache Kafka cluster by `klamm follow` and `klamm clone`, and compares what clients see
of the cluster and of its twins, request by request."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

import klamm
from klamm import AdminClient, ConfigAlteration, ConfigEntry, ConfigResource, ResourceConfigs
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.transactions import init_producer_id
from tools.predictions.running import run_cases, run_named
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
BLOCK: Final = 1_000
"""The producer ids that a broker gets at a time."""
SHOWN_ITEMS = 50
"""Longer lists are not shown whole."""
STATIC: Final[Mapping[str, str]] = {
    "log.retention.hours": "48",
    "log.segment.bytes": "104857600",
    "max.connections.per.ip.overrides": "10.0.0.1:5,10.0.0.2:7",
    "num.io.threads": "6",
    "offsets.retention.minutes": "777",
}
"""Static configs of the cluster, of which some are defaults of topics, and some are overridden by dynamic ones."""
DYNAMIC: Final[Mapping[ConfigResource, Mapping[str, str]]] = {
    ConfigResource.broker(): {"log.retention.ms": "100000000", "num.io.threads": "7"},
    ConfigResource.broker(BROKERS[0]): {"num.io.threads": "5"},
}
_NOT_COPIED: Final = frozenset(
    {
        "advertised.listeners",
        "controller.quorum.voters",
        "enable.under.replicated.topic.creation",
        "listeners",
        "max.broker.partitions",
        "max.partitions",
        "process.roles",
        "unclean.leader.election.interval.ms",
    }
)
"""What a twin has of its own, Klamm's configs that Apache Kafka 4.3 does not have, and an internal config of Apache
Kafka that Klamm does not know, as klamm clone says."""


def check_twins(report: Report, java: Java, cluster: RealCluster) -> None:
    """The cluster has topics, configs and moves of the check before, and the configs `SECURE`."""
    followed, cloned = java.folder / "followed", java.folder / "cloned"
    with report.check("a real cluster gets ACLs, quotas, credentials and broker configs, and commits a transaction"):
        trio.run(_change, cluster.bootstrap_servers)
        commit_transaction(cluster.bootstrap_servers, "moved", "twin")
    with report.check("klamm follow copies the log of a real controller byte for byte"):
        _run("follow", "--bootstrap-controller", cluster.controller, "--data-dir", str(followed), "--once")
        copy = (followed / cluster.metadata_log.name / SEGMENT).read_bytes()
        theirs = (cluster.metadata_log / SEGMENT).read_bytes()
        expect(len(copy) > 1_000 and theirs.startswith(copy), f"{len(copy)} bytes of {len(theirs)} are others")
    with report.check("klamm clone reads a real cluster by its admin APIs, and nothing is missing"):
        said = _run("clone", "--bootstrap-server", cluster.bootstrap_servers, "--out", str(cloned)).stderr
        expect("not shown" not in said, said)
    with report.check("clients see of the followed twin what they see of the real cluster"):
        real = trio.run(partial(seen, cluster.bootstrap_servers, has_users=True))
        expect_same(trio.run(partial(seen_of_twin, followed, has_users=True)), real)
    with report.check("clients see of the cloned twin what they see of the real cluster, also of static configs"):
        real = trio.run(partial(seen, cluster.bootstrap_servers, has_users=False, has_static=True))
        expect(f"{STATIC['num.io.threads']!r}, 'STATIC_BROKER" in str(real["all configs"]), str(real))
        expect_same(trio.run(partial(seen_of_twin, cloned, has_users=False, has_static=True)), real)
    with report.check("the followed twin gives the producer ids that the real cluster gives next"):
        predicted, given = trio.run(_producer_ids, followed, cluster.bootstrap_servers)
        expect(predicted in given, f"the twin gives {predicted}, the brokers of the cluster give {given}")
    with report.check(f"{CASES} random cases do to the cluster what a twin predicts"):
        lines: list[str] = []
        found = trio.run(run_cases, cluster, java.folder / "predicted", range(CASES), CASES_SEED, lines.append)
        expect(all(case.is_as_predicted for case in found), "\n".join(lines))
    with report.check("cases that were once predicted wrongly do to the cluster what a twin predicts"):
        told: list[str] = []
        found = trio.run(partial(run_named, cluster, java.folder / "named", told.append, stops_brokers=False))
        expect(bool(found) and all(case.is_as_predicted for case in found), "\n".join(told))
    with report.check("klamm try loses a broker of the twin"):
        steps = java.folder / "changes.json"
        steps.write_text(json.dumps({"steps": [{"lose-broker": BROKERS[1]}]}), encoding="utf-8")
        tried = json.loads(_run("try", "--twin", str(followed), str(steps), "--output", "json").stdout)
        after = tried["steps"][0]["after"]
        expect([one["is_up"] for one in after["brokers"]] == [True, False, True], str(after))
        expect(after["under_replicated"] > 0, str(after))


def expect_same(twin: dict[str, Any], real: dict[str, Any]) -> None:
    """Raise `CheckFailed` that names the first answer that differs; of lists the items that only one of them has."""
    for what, answered in real.items():
        found = twin.get(what)
        ours, theirs = found, answered
        if isinstance(found, list) and isinstance(answered, list) and len(answered) > SHOWN_ITEMS:
            ours = [one for one in found if one not in answered]
            theirs = [one for one in answered if one not in found]
        expect(found == answered, f"{what}\nthe twin: {ours}\nthe cluster: {theirs}")


async def seen_of_twin(copied: Path, *, has_users: bool, has_static: bool = False) -> dict[str, Any]:
    """What clients see of a twin."""
    async with klamm.Cluster(twin=copied, configs=SECURE) as twin:
        return await seen(twin.bootstrap_servers, has_users=has_users, has_static=has_static)


async def seen(servers: str, *, has_users: bool, has_static: bool = False) -> dict[str, Any]:
    """Brokers, partitions, the dynamic configs, ACLs and quotas; with `has_users` the SCRAM credentials, and with
    `has_static` all configs of brokers and topics, with their levels."""
    async with AdminClient(servers) as admin:
        described = await admin.describe_cluster()
        topics = sorted((await admin.metadata()).topics, key=lambda one: one.topic_name or "")
        brokers = [ConfigResource.broker(one.broker_id) for one in described.brokers]
        resources = [ConfigResource.broker(), *brokers, *(ConfigResource.topic(one.topic_name or "") for one in topics)]
        configs = await admin.describe_configs(resources, include_synonyms=has_static)
        all_configs = {"all configs": _levels(configs)} if has_static else {}
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
            **all_configs,
            **await security_seen(admin, has_users=has_users),
        }


def _levels(found: Sequence[ResourceConfigs]) -> list[str]:
    return sorted(
        f"{one.resource} {name}: {_level(entry)}"
        for one in found
        for name, entry in one.configs.items()
        if name not in _NOT_COPIED and not entry.is_sensitive
    )


def _level(entry: ConfigEntry) -> str:
    levels = [(one.name, one.value, one.source.name) for one in entry.synonyms]
    return f"{(entry.value, entry.source.name, entry.read_only)} of {levels}"


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-m", "klamm", *arguments],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


async def _change(servers: str) -> None:
    async with AdminClient(servers) as admin:
        for number in range(USERS):
            await change_security(admin, number)
        edits = {one: [ConfigAlteration(*config) for config in configs.items()] for one, configs in DYNAMIC.items()}
        for altered in await admin.incremental_alter_configs(edits):
            altered.raise_for_error()
        with trio.fail_after(COMMAND_SECONDS):
            while True:
                if await _have_dynamic_configs(admin):
                    break
                await trio.sleep(POLL_SECONDS)


async def _have_dynamic_configs(admin: AdminClient) -> bool:
    """Whether the brokers have applied the records of the controller."""
    brokers, names = map(ConfigResource.broker, BROKERS), list(DYNAMIC[ConfigResource.broker()])
    found = await admin.describe_configs(brokers, keys=names)
    return all("DYNAMIC" in one.configs[name].source.name for one in found for name in names)


async def _producer_ids(copied: Path, servers: str) -> tuple[int, list[int]]:
    """The first one of a twin, and the next one of each real broker. If all of these had a block before, the last one
    is the first of the next block that a broker gets."""
    async with klamm.Cluster(twin=copied, configs=SECURE) as twin:
        predicted = await _producer_id(twin.bootstrap_servers, BROKERS[0])
    given = [await _producer_id(servers, broker_id) for broker_id in BROKERS]
    if predicted not in given:
        given.append(await _producer_id(servers, BROKERS[0], behind=given[0] // BLOCK))
    return predicted, given


async def _producer_id(servers: str, broker_id: int, behind: int | None = None) -> int:
    """The next one of the broker; `behind`: the first one that is in another block than this one."""
    request = init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    async with AdminClient(servers) as admin:
        admin._learn_brokers((await admin.describe_cluster()).brokers)
        with trio.fail_after(COMMAND_SECONDS):
            while True:
                answer = await admin._request(init_producer_id.API, request, broker_id)
                if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # it waits for a block
                    await trio.sleep(POLL_SECONDS)
                    continue
                expect(answer.error_code == 0, f"InitProducerId on broker {broker_id}: {answer}")
                if answer.producer_id // BLOCK != behind:
                    return int(answer.producer_id)
