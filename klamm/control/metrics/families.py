"""The metrics of one server, as families of prometheus_client. Their names and labels are in docs/metrics.md.

Numbers of label values are bounded: APIs, versions and errors by Kafka and by `RequestCounts`, brokers by 1,000, states
by their names. Nothing that a client names is a label.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from klamm import __version__
from klamm.cluster.shown_groups import all_groups
from klamm.control.page.panels import Panels
from klamm.protocol.errors import ErrorCode
from klamm.server.durations import BOUNDS, Durations
from klamm.server.request_counts import OTHERS, Combination, RequestCounts
from klamm.server.server import Server

OTHER: Final = "other"
CONTROLLER: Final = "controller"
"""The value of the label `broker` for requests to the controller's listener."""


def all_families(server: Server, panels: Panels, states: Mapping[str, int]) -> list[Metric]:
    """All metrics; `states` are the counts of partitions by state."""
    return [
        *_of_process(server),
        *_of_requests(server.observed.requests()),
        *_of_cluster(server, panels, states),
        *_of_brokers(panels),
        *_of_changes(server),
        *_of_log(server),
        *_of_groups(server),
    ]


def _of_process(server: Server) -> Iterator[Metric]:
    version = GaugeMetricFamily("klamm_build_info", "1; the label has the version.", labels=["version"])
    version.add_metric([__version__], 1)
    yield version
    yield GaugeMetricFamily("klamm_connections", "Open connections.", len(server.admission.connections))
    yield GaugeMetricFamily("klamm_clock_seconds", "The controller's clock, since 1970.", server.now_ms() / 1000)


def _of_requests(counts: RequestCounts | None) -> Iterator[Metric]:
    if counts is None:
        return
    labels = ["api", "version", "error", "broker"]
    requests = CounterMetricFamily(
        "klamm_requests", "Answered requests, by the first error of the answer.", labels=labels
    )
    for combination, count in counts.requests.items():
        requests.add_metric(_labels_of(combination), count)
    yield requests
    seconds = HistogramMetricFamily("klamm_request_seconds", "From a request's arrival to its answer.", labels=["api"])
    received = CounterMetricFamily("klamm_request_bytes", "Bytes of requests.", labels=["api"])
    sent = CounterMetricFamily("klamm_response_bytes", "Bytes of answers.", labels=["api"])
    throttled = CounterMetricFamily("klamm_throttle_seconds", "Throttle times in answers.", labels=["api"])
    for api, of_api in counts.by_api.items():
        name = [api or OTHER]
        seconds.add_metric(name, _buckets(of_api.durations), of_api.durations.total)
        received.add_metric(name, of_api.bytes_in)
        sent.add_metric(name, of_api.bytes_out)
        throttled.add_metric(name, of_api.throttle_ms / 1000)
    yield from (seconds, received, sent, throttled)


def _labels_of(combination: Combination) -> list[str]:
    if combination == OTHERS:
        return [OTHER] * len(combination)
    broker = CONTROLLER if combination.broker_id is None else str(combination.broker_id)
    return [combination.api, str(combination.api_version), error_name(combination.error_code), broker]


def error_name(code: int) -> str:
    """Kafka's name of an error, or its number if Kafka has none."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def _buckets(durations: Durations) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in BOUNDS), "+Inf"]
    return list(zip(bounds, map(float, accumulate(durations.buckets)), strict=True))


def _of_cluster(server: Server, panels: Panels, states: Mapping[str, int]) -> Iterator[Metric]:
    cluster = panels.cluster()
    yield GaugeMetricFamily("klamm_topics", "Topics.", cluster["topics"])
    yield GaugeMetricFamily("klamm_partitions", "Partitions.", cluster["partitions"])
    in_state = GaugeMetricFamily(
        "klamm_partitions_in_state", "Partitions, each in any number of states.", labels=["state"]
    )
    for state, count in states.items():
        in_state.add_metric([state], count)
    yield in_state
    yield GaugeMetricFamily(
        "klamm_placeholders", "Placeholders (KIP-409) that wait for brokers.", cluster["placeholders"]
    )
    limit = cluster["partition_limit"]
    if limit is not None:
        yield GaugeMetricFamily("klamm_partition_limit", "max.partitions (KIP-578).", limit)
        yield GaugeMetricFamily("klamm_partition_headroom", "Partitions that may still be created.",
            max(0, limit - cluster["counted_partitions"]))  # fmt: skip
    rules = list(server.faults.all())
    yield GaugeMetricFamily("klamm_fault_rules", "Fault rules.", len(rules))
    yield GaugeMetricFamily("klamm_fault_hits", "Hits of the present fault rules.", sum(rule.hits for rule in rules))


def _of_brokers(panels: Panels) -> Iterator[Metric]:
    named = {
        "up": "1: its listeners accept connections.",
        "fenced": "1: it is fenced.",
        "replicas": "Replicas on the broker.",
        "leaders": "Partitions that it leads.",
        "replica_limit": "max.broker.partitions (KIP-578).",
        "replica_headroom": "Replicas that it may still get.",
    }
    families = {
        name: GaugeMetricFamily(f"klamm_broker_{name}", text, labels=["broker"]) for name, text in named.items()
    }
    for broker in panels.brokers():
        values = {name: broker[name] for name in ("up", "fenced", "replicas", "leaders")}
        if broker["limit"] is not None:
            values |= {
                "replica_limit": broker["limit"],
                "replica_headroom": max(0, broker["limit"] - broker["counted"]),
            }
        for name, value in values.items():
            families[name].add_metric([str(broker["id"])], int(value))
    yield from families.values()


def _of_changes(server: Server) -> Iterator[Metric]:
    changes = server.observed.changes
    yield CounterMetricFamily("klamm_metadata_batches", "Batches of metadata records.", changes.batches)
    yield CounterMetricFamily("klamm_isr_shrinks", "Partitions whose ISR lost members.", changes.isr_shrinks)
    yield CounterMetricFamily("klamm_isr_expansions", "Partitions whose ISR got members.", changes.isr_expansions)
    elections = CounterMetricFamily("klamm_elections", "Partitions that got another leader.", labels=["unclean"])
    elections.add_metric(["false"], changes.elections - changes.unclean_elections)
    elections.add_metric(["true"], changes.unclean_elections)
    yield elections


def _of_log(server: Server) -> Iterator[Metric]:
    log, observed = server.observed.log, server.observed
    yield GaugeMetricFamily("klamm_metadata_log_end_offset", "The end of the metadata log.", log.end_offset)
    yield GaugeMetricFamily("klamm_metadata_log_durable_offset", "Records below it are durable.", log.durable_offset)
    snapshot = 0 if log.snapshot is None else log.snapshot.end_offset
    yield GaugeMetricFamily("klamm_metadata_snapshot_end_offset", "The end of the newest snapshot; 0: none.", snapshot)
    yield GaugeMetricFamily("klamm_record_bytes", "Record batches of all partitions.", server.brokers.data.size_bytes)
    for name, what, durations in (
        ("append", "Each append of a batch to the metadata log.", observed.appends),
        ("flush", "Each sync of the metadata log, for all that wait.", observed.flushes),
    ):
        seconds = HistogramMetricFamily(f"klamm_log_{name}_seconds", what)
        seconds.add_metric([], _buckets(durations), durations.total)
        yield seconds


def _of_groups(server: Server) -> Iterator[Metric]:
    groups, members = Counter[tuple[str, str]](), Counter[str]()
    for found in all_groups(server):
        groups[found.kind, found.state] += 1
        members[found.kind] += len(found.group.members)
    family = GaugeMetricFamily("klamm_groups", "Groups.", labels=["kind", "state"])
    for (kind, state), count in groups.items():
        family.add_metric([kind, state], count)
    yield family
    family = GaugeMetricFamily("klamm_group_members", "Members of groups.", labels=["kind"])
    for kind, count in members.items():
        family.add_metric([kind], count)
    yield family
