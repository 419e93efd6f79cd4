"""A greedy producer under a quota, on Klamm and on Apache Kafka: how many bytes pass in ten seconds, in percent of the
quota. One connection sends its next request as soon as the last one is answered, which a muted channel delays.

    python -m bench.quota_accuracy [--seconds 45] [--kafka]

`--kafka` needs Java; the archives of Apache Kafka are those of the toolchain checks.
"""

import argparse
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.kafka_process import Kafka
from bench.processes import Klamm, ServerProcess
from bench.raw_client import CLIENT_ID, RawClient, create_topics_frame, request_frame
from klamm.protocol.codec.requests import decode_response
from klamm.protocol.messages.configs import alter_client_quotas as quotas
from klamm.protocol.messages.data import produce
from tests.broker.data.batches import batch
from tools.toolchain_checks.kafka_jars import fetch_class_path

QUOTA = 100_000
"""Bytes per second."""
VALUE_BYTES = 1_000
WINDOW_SECONDS = 10.0
LOOK_SECONDS = 0.1
TOPIC = "greedy"
PRODUCE_VERSION, QUOTAS_VERSION = 11, 1


class Percentages(NamedTuple):
    """Of the quota."""

    first: float
    """In the first ten seconds, with the burst at the beginning."""
    least: float
    most: float
    """In any ten seconds."""
    total: float


def measure(server: ServerProcess, seconds: float) -> Percentages:
    """Produce for so long."""
    with RawClient(server.addresses[0]) as client:
        client.exchange(create_topics_frame(TOPIC, 1, 1))
        entity = quotas.EntityData(entity_type="client-id", entity_name=CLIENT_ID)
        rate = quotas.OpData(key="producer_byte_rate", value=QUOTA)
        entry = quotas.EntryData(entity=[entity], ops=[rate])
        client.exchange(request_frame(quotas.API, QUOTAS_VERSION, quotas.AlterClientQuotasRequest(entries=[entry])))
        time.sleep(1.0)
        data = produce.PartitionProduceData(index=0, records=batch(1, value=b"v" * VALUE_BYTES))
        topics = [produce.TopicProduceData(name=TOPIC, partition_data=[data])]
        request = produce.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)
        frame = request_frame(produce.API, PRODUCE_VERSION, request)
        times: list[float] = []
        payload = b""
        began = time.perf_counter()
        while (sent := time.perf_counter() - began) < seconds:
            payload = client.exchange(frame).payload
            times.append(sent)
    _, answer = decode_response(produce.API, PRODUCE_VERSION, payload)
    assert not answer.responses[0].partition_responses[0].error_code, answer
    return _percentages(times, len(frame), seconds)


def _percentages(times: Sequence[float], size: int, seconds: float) -> Percentages:
    def of(start: float, length: float) -> float:
        count = bisect_left(times, start + length) - bisect_left(times, start)
        return 100 * count * size / (QUOTA * length)

    starts = [LOOK_SECONDS * step for step in range(int((seconds - WINDOW_SECONDS) / LOOK_SECONDS))]
    found = [of(start, WINDOW_SECONDS) for start in starts]
    return Percentages(found[0], min(found), max(found), of(0, seconds))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=45.0)
    parser.add_argument("--kafka", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        servers: list[ServerProcess] = [Klamm(Path(folder) / "bytecode", brokers=1)]
        if options.kafka:
            (data := Path(folder) / "kafka").mkdir()
            servers.append(Kafka(fetch_class_path(), data).format())
        for server in servers:
            with server:
                found = measure(server, options.seconds)
            print(
                f"{server.name}: first {WINDOW_SECONDS:.0f} s {found.first:.1f} %, any {WINDOW_SECONDS:.0f} s "
                f"{found.least:.1f} to {found.most:.1f} %, {options.seconds:.0f} s {found.total:.1f} %",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
