"""`GET /metrics`: what clients did and what the cluster is, as prometheus_client reads it."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio
import trio.testing
from confluent_kafka import Consumer
from prometheus_client.parser import text_string_to_metric_families

import klamm
from klamm import NewTopic
from klamm.cluster.assembly import open_cluster
from klamm.cluster.plan import ClusterPlan
from klamm.control.metrics.families import all_families
from klamm.control.metrics.states import count_states
from klamm.control.page.panels import Panels
from klamm.controller.metadata.delta import Delta
from klamm.controller.settings import Settings
from klamm.server.durations import BOUNDS, Durations
from klamm.server.request_counts import OTHERS, RequestCounts
from tests.klamm.control.control_cluster import ControlledCluster, controlled_cluster
from tests.server.test_request_log import make_line

ROOT = Path(__file__).resolve().parents[3]
DASHBOARD = ROOT / "docs" / "grafana" / "klamm.json"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
CONFIGS = {"max.broker.partitions": "20", "max.partitions": "12", "min.insync.replicas": "2"}


def read(content: bytes) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(content.decode())
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


async def scrape(cluster: ControlledCluster) -> Samples:
    status, headers, content = await cluster.respond("GET", "/metrics", headers={"Host": "localhost"})
    assert status == 200, content
    assert headers["content-type"].startswith("text/plain; version=")
    return read(content)


async def create(cluster: ControlledCluster, *topics: NewTopic) -> None:
    async with klamm.AdminClient(cluster.server.bootstrap_servers) as admin:
        for made in await admin.create_topics(topics):
            made.raise_for_error()


async def test_requests_are_counted_by_what_they_were_and_how_they_ended() -> None:
    async with controlled_cluster(configs=CONFIGS) as cluster:
        async with klamm.AdminClient(cluster.server.bootstrap_servers) as admin:
            for topic in (NewTopic("orders", 2, 3), NewTopic("orders", 2, 3), NewTopic("too-many", 30, 1)):
                await admin.create_topics([topic])
        samples = await scrape(cluster)
        created = {
            dict(labels)["error"]: count
            for (name, labels), count in samples.items()
            if name == "klamm_requests_total" and dict(labels)["api"] == "CreateTopics"
        }
        assert created == {"NONE": 1, "TOPIC_ALREADY_EXISTS": 1, "POLICY_VIOLATION": 1}
        (version,) = {
            dict(labels)["version"]
            for name, labels in samples
            if name == "klamm_requests_total" and dict(labels)["api"] == "CreateTopics"
        }
        assert int(version) >= 7
        assert value(samples, "klamm_request_seconds_count", api="CreateTopics") == 3
        assert value(samples, "klamm_request_seconds_bucket", api="CreateTopics", le="+Inf") == 3
        assert value(samples, "klamm_request_seconds_sum", api="CreateTopics") > 0
        assert value(samples, "klamm_request_bytes_total", api="CreateTopics") > 60
        assert value(samples, "klamm_response_bytes_total", api="CreateTopics") > 60
        assert value(samples, "klamm_throttle_seconds_total", api="CreateTopics") == 0


async def test_the_cluster_is_shown_with_its_headroom(autojump_clock: trio.testing.MockClock) -> None:
    async with controlled_cluster(configs=CONFIGS, racks=("a", "b", "c")) as cluster:
        await create(cluster, NewTopic("orders", 6, 3), NewTopic("clicks", 3, 1))
        await cluster.ask("POST", "/faults", {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"})
        before = await scrape(cluster)
        assert value(before, "klamm_topics") == 2
        assert value(before, "klamm_partitions") == 9
        assert (value(before, "klamm_partition_limit"), value(before, "klamm_partition_headroom")) == (12, 3)
        assert value(before, "klamm_broker_replicas", broker="1") == 7
        assert value(before, "klamm_broker_replica_headroom", broker="1") == 13
        assert sum(count for (name, _), count in before.items() if name == "klamm_broker_leaders") == 9
        assert value(before, "klamm_partitions_in_state", state="under_replicated") == 0
        assert (value(before, "klamm_fault_rules"), value(before, "klamm_fault_hits")) == (1, 0)
        assert (value(before, "klamm_broker_up", broker="2"), value(before, "klamm_broker_fenced", broker="2")) == (
            1,
            0,
        )
        await cluster.server.stop_broker(2)
        await cluster.server.stop_broker(3)
        after = await scrape(cluster)
        assert (value(after, "klamm_broker_up", broker="2"), value(after, "klamm_broker_fenced", broker="2")) == (0, 1)
        states = {
            dict(labels)["state"]: n for (name, labels), n in after.items() if name == "klamm_partitions_in_state"
        }
        assert states == await count_states(cluster.server)
        assert states["offline"] == 2  # those of clicks on brokers 2 and 3, with an empty ISR
        assert (states["under_replicated"], states["under_min_isr"]) == (6 + 2, 6 + 2)
        assert value(after, "klamm_isr_shrinks_total") == 6 * 2 + 2
        assert value(after, "klamm_isr_expansions_total") == 0
        assert value(after, "klamm_elections_total", unclean="false") >= 4
        assert value(after, "klamm_elections_total", unclean="true") == 0
        assert value(after, "klamm_metadata_batches_total") > value(before, "klamm_metadata_batches_total")
        assert value(after, "klamm_metadata_log_end_offset") == cluster.server.observed.log.end_offset


async def test_unclean_elections_are_told_apart() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        before = await scrape(cluster)
        cluster.server.observed.changes.follow(Delta(elections=5, unclean_elections=2, isr_expansions=3))
        after = await scrape(cluster)
        new = {name: after[name] - before[name] for name in after if name in before and name[0].startswith("klamm_")}
        assert value(new, "klamm_elections_total", unclean="false") == 3
        assert value(new, "klamm_elections_total", unclean="true") == 2
        assert value(new, "klamm_isr_expansions_total") == 3
        assert value(new, "klamm_metadata_batches_total") == 1


async def test_without_limits_there_is_no_headroom() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        names = {name for name, _ in await scrape(cluster)}
        assert not {name for name in names if "limit" in name or "headroom" in name}


async def test_groups_are_counted_by_kind_and_state() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        await create(cluster, NewTopic("orders", 1, 1))

        def consume() -> None:
            consumer = Consumer({
                "bootstrap.servers": cluster.server.bootstrap_servers, "group.id": "billing",
                "auto.offset.reset": "earliest", "client.id": "one",
            })  # fmt: skip
            consumer.subscribe(["orders"])
            for _ in range(200):
                consumer.poll(0.05)
                if consumer.assignment():
                    break
            trio.from_thread.run(check)
            consumer.close()

        async def check() -> None:
            samples = await scrape(cluster)
            assert value(samples, "klamm_groups", kind="classic", state="Stable") == 1
            assert value(samples, "klamm_group_members", kind="classic") == 1
            assert value(samples, "klamm_connections") >= 1

        await trio.to_thread.run_sync(consume)


async def test_syncs_of_a_log_on_disk_are_timed(tmp_path: Path) -> None:
    plan = ClusterPlan(data_dir=tmp_path / "data", settings=Settings(), broker_ids=(1,))
    async with open_cluster(plan) as server:
        families = all_families(server, Panels(server), await count_states(server))
        samples = {s.name: s.value for family in families for s in family.samples if not s.labels}
        assert samples["klamm_log_flush_seconds_count"] >= 1
        appends = samples["klamm_log_append_seconds_count"]
        assert appends >= samples["klamm_metadata_batches_total"] >= 1
        assert 0 < samples["klamm_log_append_seconds_sum"] < 60
        assert samples["klamm_metadata_log_durable_offset"] > 0
        assert "klamm_requests_total" not in {s.name for family in families for s in family.samples}


async def test_the_dashboard_shows_metrics_that_are_exported(tmp_path: Path) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    named = {name for query in queries for name in re.findall(r"klamm_\w+", query)}
    async with controlled_cluster(configs=CONFIGS) as cluster:
        await create(cluster, NewTopic("orders", 1, 3))
        exported = {name for name, _ in await scrape(cluster)}
    assert named - exported <= {"klamm_groups", "klamm_group_members"}  # there is no group
    assert len(named) > 15
    identifiers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(identifiers)) == len(identifiers)


async def test_the_page_about_metrics_names_each_of_them() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    async with controlled_cluster(configs=CONFIGS) as cluster:
        families = all_families(cluster.server, Panels(cluster.server), await count_states(cluster.server))
    described = set(re.findall(r"`(klamm_\w+)`", page))
    exported = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    assert described == exported


def test_without_the_package_one_line_names_it() -> None:
    program = """
import sys
sys.modules["prometheus_client"] = None
import trio
from tests.klamm.control.control_cluster import controlled_cluster

async def main():
    async with controlled_cluster(brokers=1) as cluster:
        print(await cluster.ask("GET", "/metrics"))

trio.run(main)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    reason = "metrics need prometheus-client: pip install '/path/to/klamm[metrics]'"
    assert done.stdout == f"{(501, {'error': reason})}\n", done.stderr


def counted(counts: RequestCounts, **members: object) -> None:
    counts.add(make_line(**members))  # type: ignore[arg-type]


def test_combinations_and_apis_are_bounded() -> None:
    counts = RequestCounts(max_combinations=3, max_apis=2)
    for broker_id in (1, 2, 3, 4, 4, 1):
        counted(counts, api="Produce", broker_id=broker_id)
    counted(counts, api="Fetch")
    counted(counts, api="Strange", bytes_in=7)
    counted(counts, api="Stranger", bytes_in=5)
    assert sum(counts.requests.values()) == 9
    assert len(counts.requests) == 4
    assert counts.requests[OTHERS] == 5
    assert set(counts.by_api) == {"Produce", "Fetch", OTHERS.api}
    assert counts.by_api[OTHERS.api].bytes_in == 12


def test_requests_of_the_control_interface_are_not_counted() -> None:
    counts = RequestCounts()
    counted(counts, client_id="klamm-control")
    assert (counts.requests, counts.by_api) == ({}, {})


@pytest.mark.parametrize(("seconds", "bucket"), [(0, 0), (BOUNDS[0], 0), (BOUNDS[0] * 1.01, 1), (30, 16), (31, 17)])
def test_a_bucket_includes_its_bound(seconds: float, bucket: int) -> None:
    durations = Durations()
    durations.add(seconds)
    assert durations.buckets == [int(at == bucket) for at in range(len(BOUNDS) + 1)]
    assert (durations.count, durations.total) == (1, seconds)


def _labels(found: Mapping[str, str]) -> set[str]:
    return set(found)


async def test_nothing_that_a_client_names_is_a_label() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        await create(cluster, NewTopic("very-own-name", 1, 1))
        _, _, content = await cluster.respond("GET", "/metrics", headers={"Host": "localhost"})
        assert b"very-own-name" not in content
        labels = {label for family in text_string_to_metric_families(content.decode()) for s in family.samples
                  for label in _labels(s.labels)}  # fmt: skip
        assert labels <= {"api", "version", "error", "broker", "le", "state", "unclean", "kind"}
