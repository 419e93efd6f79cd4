"""Where the time of one small CreateTopics goes inside the server, stage by stage; and of one Metadata of all topics.

    bench/stages [--topics N]      N topics are there when Metadata is asked (1,000)

Calls what the server calls, in its order and in one process, without socket and event loop; each stage is timed over
many requests and the median told. What is missing from the total that a client sees is trio, the socket and the client
itself (bench/run measures a bare trio echo for that).
"""

import argparse
import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import TypeVar

import trio
from rich.console import Console
from rich.table import Table

from bench.raw_client import create_topics_frame, metadata_frame
from bench.rows import median
from klamm.broker.assembly import assemble
from klamm.controller.client import Client
from klamm.controller.core import Call, Controller
from klamm.controller.log import MemoryLog
from klamm.controller.log_records import Records
from klamm.controller.metadata.replay import replay
from klamm.controller.settings import Settings
from klamm.controller.steps import run_whole
from klamm.protocol.codec.frames import SIZE_BYTES, FrameBuffer
from klamm.protocol.codec.requests import encode_response, read_request
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import BatchBuilder
from klamm.protocol.record_versions import LATEST_METADATA_VERSION
from klamm.protocol.uuid import Uuid
from klamm.server.addresses import Address
from klamm.server.brokers import BrokerLives
from klamm.server.event_log import EventLog
from klamm.server.flusher import Flusher
from klamm.server.listener import PortListener
from klamm.server.listeners import default_plan
from klamm.server.node_listeners import NodeListeners
from klamm.server.response_errors import collect_errors
from klamm.server.turns import Turns

REQUESTS = 3_000
METADATA_REQUESTS = 15
WARM_UP_REQUESTS = 200
BROKERS = 3
NS_PER_US = 1000
CLUSTER_ID = "a2xhbW0tYmVuY2gtMDAwMA"
START_MS = 1_800_000_000_000

T = TypeVar("T")


class Stopwatch:
    """Nanoseconds by stage, one list of samples each."""

    def __init__(self) -> None:
        self.samples: dict[str, list[float]] = {}

    def run(self, stage: str, work: Callable[[], T]) -> T:
        started = perf_counter_ns()
        result = work()
        self.samples.setdefault(stage, []).append(perf_counter_ns() - started)
        return result

    def table(self, title: str) -> Table:
        table = Table(title=title)
        table.add_column("stage")
        table.add_column("µs, p50", justify="right")
        total = 0.0
        for stage, samples in self.samples.items():
            microseconds = median(samples) / NS_PER_US
            total += microseconds
            table.add_row(stage, f"{microseconds:,.1f}")
        table.add_section()
        table.add_row("together", f"{total:,.1f}")
        return table


async def open_controller() -> tuple[Controller, MemoryLog]:
    """A controller in memory with unfenced brokers, as `klamm serve` has it when it is ready."""
    log = MemoryLog(CLUSTER_ID, Uuid(bytes(15) + b"\1"), START_MS)
    controller, brokers = assemble(Controller, Settings(seed=1), log, lambda: START_MS)
    plan = default_plan(Address("127.0.0.1", 9092))
    lives = BrokerLives(brokers, Flusher(log), EventLog(), Turns(), on_end=lambda _broker: None)
    for broker_id in range(1, BROKERS + 1):
        wanted = plan.of_broker(broker_id, ())
        listeners = NodeListeners(wanted, [PortListener(one.bind) for one in wanted])
        brokers.add(broker_id, end_points=listeners.end_points)
    await lives.join(list(brokers.by_id.values()))
    return controller, log


def run_stages(watch: Stopwatch, controller: Controller, log: MemoryLog, frame: bytes) -> bytearray:
    """The path of one request: the work of `RequestPath.answer` and `Controller.submit`, one stage at a time."""

    def cut() -> bytes:
        buffer = FrameBuffer(2**20)
        buffer.feed(frame)
        cut_out = buffer.next_frame()
        assert cut_out is not None
        return cut_out

    body = watch.run("frame", cut)
    served = controller.served.to(Client("broker", 1))
    api, header, request = watch.run("decode", lambda: read_request(body, served))
    call = Call(api, header.request_api_version, request, "broker", 1, header.client_id)
    context = watch.run("context", lambda: controller.context(call, START_MS))
    outcome = watch.run("handle", lambda: run_whole(controller.handlers[api](controller.image, request, context)))
    if outcome.records:
        first, _ = watch.run("append", lambda: _append(log, outcome.records))
        watch.run("replay", lambda: replay(controller.image, outcome.records, first))
    response = outcome.response
    assert isinstance(response, Message), "none of these requests waits"
    encoded = watch.run("encode", lambda: encode_response(api, header.request_api_version, 1, response))
    watch.run("errors for the request log", lambda: collect_errors(response))
    return encoded


def _append(log: MemoryLog, records: Records) -> tuple[int, int]:
    batch = BatchBuilder(LATEST_METADATA_VERSION)
    batch.add(records)
    return log.append_batch(batch, START_MS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/stages", description="Where the time of a request goes.")
    parser.add_argument("--topics", metavar="N", type=int, default=1000, help="topics that Metadata tells of (1,000)")
    options = parser.parse_args()
    controller, log = trio.run(open_controller)
    frames = [create_topics_frame(f"orders-{number:06d}", 1, 1) for number in range(WARM_UP_REQUESTS + REQUESTS)]
    for frame in frames[:WARM_UP_REQUESTS]:
        run_stages(Stopwatch(), controller, log, frame)
    small = Stopwatch()
    for frame in frames[WARM_UP_REQUESTS:]:
        run_stages(small, controller, log, frame)
    console = Console()
    console.print(small.table("CreateTopics, 1 topic × 1 partition"))

    controller, log = trio.run(open_controller)
    for number in range(options.topics):
        run_stages(Stopwatch(), controller, log, create_topics_frame(f"orders-{number:06d}", 100, BROKERS))
    large = Stopwatch()
    sizes = {len(run_stages(large, controller, log, metadata_frame(all_topics=True))) for _ in range(METADATA_REQUESTS)}
    title = f"Metadata of {options.topics:,} topics × 100 partitions ({max(sizes) + SIZE_BYTES:,} bytes)"
    console.print(large.table(title))
    return 0


if __name__ == "__main__":
    sys.exit(main())
