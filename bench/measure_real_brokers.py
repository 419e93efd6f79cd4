"""Three brokers of Apache Kafka 4.3 under Klamm, and afterwards the same under a controller of Apache Kafka.

A topic is in sync when every partition has acknowledged a record with acks=all: each of its three replicas has it then.
Times of new topics, of a restarted broker and of a failover are those that a client sees at a broker.
"""

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Producer

from bench.processes import ROOT
from bench.raw_client import (
    METADATA_VERSION,
    RawClient,
    Refused,
    api_versions_frame,
    create_topics_frame,
    many_topics_frame,
    metadata_frame,
    refuse_errors,
    request_frame,
)
from bench.real_cluster import BROKERS, RealCluster, Side
from bench.rows import Row, median, percentile
from bench.workbench import Workbench
from klamm.protocol.codec.requests import decode_response
from klamm.protocol.messages.raft import describe_quorum
from klamm.protocol.messages.topics import metadata

GROUP: Final = "real brokers"
SMALL_TOPICS: Final = 10
IDLE_SECONDS: Final = 20.0
RESTARTED: Final = 3
OBSERVERS: Final = 1_000
OBSERVING_SECONDS: Final = 10.0
SIMULATED_PARTITIONS: Final = 100_000
SIMULATED_IDS: Final = range(101, 111)
PARTITIONS_IN_REQUEST: Final = 10_000
WAIT_SECONDS: Final = 240.0
POLL_SECONDS: Final = 0.02
IDLE_MARK_PERCENT: Final = 1.0
MEGABYTE: Final = 1e6
NANOSECONDS_IN_MS: Final = 1e6
DESCRIBE_QUORUM_VERSION: Final = 2
Figures = dict[str, float]
PARTS: Final = (
    ("one topic of one partition, until it is in sync", "s"),
    ("one topic of 1,000 partitions, until it is in sync", "s"),
    ("three topics of 1,000 partitions, until they are in sync", "s"),
    ("processor of the idle controller", "% of a core"),
    ("restart of a broker, until it is in sync in 4,010 partitions", "s"),
    ("kill -9 and start of the controller, until a topic is made", "s"),
    ("memory of the controller", "MB"),
    ("1,000 observers that fetch the log: served", "MB/s"),
    ("p99 of ApiVersions and DescribeQuorum without the observers", "ms"),
    ("p99 of ApiVersions and DescribeQuorum beside them", "ms"),
)


def measure_real_brokers(bench: Workbench) -> list[Row]:
    """Nothing without Apache Kafka, whose brokers these are."""
    if bench.kafka_class_path is None:
        return []
    found: dict[Side, Figures] = {}
    followed: Figures = {}
    sides: tuple[Side, ...] = ("Klamm", "Kafka")
    for side in sides:
        with bench.folder() as folder, RealCluster(side, bench.kafka_class_path, bench.bytecode_dir, folder) as cluster:
            found[side] = _story(cluster, quick=bench.quick)
            if side == "Klamm":
                followed = _simulated_partitions(cluster, quick=bench.quick)
    rows = []
    for what, unit in PARTS:
        ours, theirs = found["Klamm"][what], found["Kafka"][what]
        is_idle = unit == "% of a core"
        rows.append(
            Row(
                group=GROUP,
                what=what,
                unit=unit,
                klamm=ours,
                peer="Kafka",
                theirs=theirs,
                higher_is_better=unit == "MB/s",
                mark=f"at most {IDLE_MARK_PERCENT:g} %" if is_idle else None,
                reached=ours <= IDLE_MARK_PERCENT if is_idle else None,
            )
        )
    what = f"{SIMULATED_PARTITIONS:,} simulated partitions, until three real brokers have followed"
    return [*rows, Row(group=GROUP, what=what, unit="s", klamm=followed["seconds"], details=followed)]


def _story(cluster: RealCluster, *, quick: bool) -> Figures:
    """The figures of one side, in the order in which they are measured."""
    names = iter(what for what, _ in PARTS)
    figures: Figures = {}

    def say(value: float) -> None:
        name = next(names)
        figures[name] = value
        sys.stderr.write(f"bench: {cluster.side}: {name}: {value:.3g}\n")

    say(median([_until_in_sync(cluster, [f"small-{n}"], 1) for n in range(SMALL_TOPICS)]))
    say(_until_in_sync(cluster, ["large"], 1_000))
    say(_until_in_sync(cluster, ["wide-1", "wide-2", "wide-3"], 1_000))
    time.sleep(1 if quick else 5)  # what the new topics caused is over
    before, seconds = cluster.controller.cpu_seconds, IDLE_SECONDS / (10 if quick else 1)
    time.sleep(seconds)
    say(100 * (cluster.controller.cpu_seconds - before) / seconds)
    say(_restart(cluster))
    say(_failover(cluster))
    say(cluster.controller.resident_bytes / MEGABYTE)
    alone = _latency_ms(cluster, OBSERVING_SECONDS / (10 if quick else 2))
    served, beside = _observers(cluster, OBSERVING_SECONDS / (5 if quick else 1))
    for value in (served, alone, beside):
        say(value)
    return figures


def _until_in_sync(cluster: RealCluster, topics: list[str], partitions: int) -> float:
    """Seconds from CreateTopics until all partitions have acknowledged a record with acks=all."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": "all",
            "linger.ms": 0,
            "allow.auto.create.topics": False,
            "message.timeout.ms": int(WAIT_SECONDS * 1_000),
            "log_level": 2,
        }
    )
    producer.list_topics(timeout=WAIT_SECONDS)  # is connected
    failed: list[str] = []
    with RawClient(cluster.address_of(BROKERS[0])) as client:
        frame = many_topics_frame(topics, partitions, len(BROKERS))
        began = time.perf_counter()
        refuse_errors(client.exchange(frame).payload)
        for topic in topics:
            for partition in range(partitions):
                producer.produce(
                    topic,
                    b"x",
                    partition=partition,
                    on_delivery=lambda error, _: failed.append(str(error)) if error else None,
                )
        left = producer.flush(WAIT_SECONDS)
    if failed or left:
        raise Refused(f"{len(failed)} records were refused, {left} have no answer: {failed[:1]}")
    return time.perf_counter() - began


def _restart(cluster: RealCluster) -> float:
    """Seconds from SIGTERM until the broker is in all ISRs again."""
    began = time.perf_counter()
    cluster.stop_broker(RESTARTED)
    cluster.start_broker(RESTARTED)
    with RawClient(cluster.address_of(BROKERS[0])) as client:

        def is_in_sync() -> bool:
            _, answer = decode_response(
                metadata.API, METADATA_VERSION, client.exchange(metadata_frame(all_topics=True)).payload
            )
            return all(
                len(partition.isr_nodes) == len(BROKERS) for topic in answer.topics for partition in topic.partitions
            )

        _await("the broker in all ISRs", is_in_sync)
    return time.perf_counter() - began


def _failover(cluster: RealCluster) -> float:
    """Seconds from SIGKILL of the controller, which is started again at once, until a broker makes a topic."""
    began = time.perf_counter()
    cluster.kill_controller()
    cluster.start_controller()

    def is_made() -> bool:
        with RawClient(cluster.address_of(BROKERS[0])) as client:
            try:
                refuse_errors(client.exchange(create_topics_frame("after", 1, len(BROKERS))).payload)
            except Refused:
                return False
        return True

    _await("a topic", is_made)
    return time.perf_counter() - began


def _latency_ms(cluster: RealCluster, seconds: float) -> float:
    """The p99 of requests to the controller, one at a time on one connection."""
    waits: list[float] = []
    # A controller of Kafka serves no Metadata. Both answer DescribeQuorum from memory.
    frames = (api_versions_frame(), _quorum_frame())
    with RawClient(cluster.controller_address) as client:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            waits += [client.exchange(frame).last_byte_ns / NANOSECONDS_IN_MS for frame in frames]
    return percentile(waits, 99)


def _observers(cluster: RealCluster, seconds: float) -> tuple[float, float]:
    """What the observers received, in MB/s, and the p99 of others meanwhile, in ms."""
    host, port = cluster.controller_address
    command = [sys.executable, "-P", "-m", "bench.observing_clients", host, str(port), str(OBSERVERS), str(seconds)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as observing:
        try:
            time.sleep(1)  # they connect
            beside = _latency_ms(cluster, max(1.0, seconds - 2))
            output, _ = observing.communicate(timeout=seconds + 60)
        finally:
            observing.kill()
    if observing.returncode:
        raise Refused(f"the observers ended with exit code {observing.returncode}")
    received, taken = map(float, output.split())
    return received / taken / MEGABYTE, beside


def _simulated_partitions(cluster: RealCluster, *, quick: bool) -> Figures:
    """Klamm starts again with simulated brokers, and makes partitions on them, whose records the real brokers apply."""
    cluster.stop_controller()
    cluster.start_controller(
        "--broker-ids", ",".join(map(str, SIMULATED_IDS)), "--listen", "127.0.0.1:0", "--real-topics", "nothing"
    )
    with RawClient(cluster.controller_address) as client:
        _await("the real brokers", lambda: _lag(client) == 0)
        began = time.perf_counter()
        count = SIMULATED_PARTITIONS // (10 if quick else 1)
        for number in range(count // PARTITIONS_IN_REQUEST):
            frame = create_topics_frame(f"simulated-{number}", PARTITIONS_IN_REQUEST, 1)
            refuse_errors(client.exchange(frame).payload)
        made = time.perf_counter() - began
        _await("the real brokers", lambda: _lag(client) == 0)
        seconds = time.perf_counter() - began
    memory = cluster.controller.resident_bytes / MEGABYTE
    return {"seconds": seconds, "made after s": made, "partitions": count, "controller's memory MB": memory}


def _quorum_frame() -> bytes:
    topic = describe_quorum.TopicData(topic_name="__cluster_metadata", partitions=[describe_quorum.PartitionData()])
    request = describe_quorum.DescribeQuorumRequest(topics=[topic])
    return request_frame(describe_quorum.API, DESCRIBE_QUORUM_VERSION, request)


def _lag(client: RawClient) -> float:
    """Records of the metadata log that the slowest real broker has not fetched."""
    payload = client.exchange(_quorum_frame()).payload
    _, answer = decode_response(describe_quorum.API, DESCRIBE_QUORUM_VERSION, payload)
    partition = answer.topics[0].partitions[0]
    end = partition.current_voters[0].log_end_offset
    ours = [end - one.log_end_offset for one in partition.observers if one.replica_id in BROKERS]
    return max(ours) if len(ours) == len(BROKERS) else math.inf


def _await(what: str, look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not look():
        if time.monotonic() > deadline:
            raise Refused(f"{what}: not within {WAIT_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)
