"""CreateTopics within limits (KIP-578): what it costs to know them, and to keep to them up to the last partition.

Every request is timed alone; all contenders take turns in blocks. The limits leave room for exactly what is made, so
that at the end all brokers are full: then one more topic must be refused. Peers know no limits, and have none.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from bench.measure_create import NS_PER_MS
from bench.processes import ServerProcess
from bench.raw_client import (
    RawClient,
    Refused,
    create_topics_frame,
    find_controller,
    many_topics_frame,
    refuse_errors,
    refuse_unless_all_refused,
)
from bench.rows import Row, median, percentile
from bench.workbench import Workbench
from klamm.protocol.errors import ErrorCode

BROKERS = 3
BLOCKS = 25
KAFKA_DIVISOR = 20
"""Apache Kafka creates this fraction of the topics: at 30 ms a request, all of them would take hours."""
UNLIMITED = "Klamm without limits"
MS_PER_SECOND = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The topics that are created: `requests` of `topics` each, with `partitions` each; the warm-up comes before."""

    requests: int
    topics: int
    partitions: int
    warm_ups: int

    @property
    def what(self) -> str:
        made = f"{self.requests * self.topics:,} topics × {self.partitions:,} partition{'s' * (self.partitions > 1)}"
        return f"{made}, {'one by one' if self.topics == 1 else f'{self.topics} in a request'}"

    @property
    def all_partitions(self) -> int:
        return (self.requests + self.warm_ups) * self.topics * self.partitions


SHAPES = (
    Shape(requests=10_000, topics=1, partitions=1, warm_ups=50),
    Shape(requests=100, topics=100, partitions=1, warm_ups=5),
    Shape(requests=100, topics=1, partitions=100, warm_ups=10),
)


class Maker:
    """One server, and the topics that it has to create."""

    def __init__(self, name: str, server: ServerProcess, client: RawClient, shape: Shape) -> None:
        self.name = name
        self.server = server
        self.milliseconds: list[float] = []
        self._client = client
        self._shape = shape
        self._made = 0
        self._answers: list[bytes] = []

    def warm_up(self) -> None:
        self._run(self._shape.warm_ups)

    def measure(self, count: int) -> None:
        self.milliseconds += self._run(count)

    def refuse_errors(self) -> None:
        """Raise unless every request created its topics."""
        for answer in self._answers:
            refuse_errors(answer)

    def refuse_room(self) -> None:
        """Raise unless the server is full, by its limits."""
        answer = self._client.exchange(create_topics_frame("one-too-many", 1, 1)).payload
        refuse_unless_all_refused(answer, ErrorCode.POLICY_VIOLATION)

    def _run(self, count: int) -> list[float]:
        exchanges = [self._client.exchange(frame) for frame in [self._frame(number) for number in range(count)]]
        self._made += count
        self._answers += [exchange.payload for exchange in exchanges]
        return [exchange.last_byte_ns / NS_PER_MS for exchange in exchanges]

    def _frame(self, number: int) -> bytes:
        prefix = f"orders-{self._shape.topics}-{self._shape.partitions}-{self._made + number:06d}"
        if self._shape.topics == 1:
            return create_topics_frame(prefix, self._shape.partitions, 1)
        names = [f"{prefix}-{index:03d}" for index in range(self._shape.topics)]
        return many_topics_frame(names, self._shape.partitions, 1)


def measure_limits(bench: Workbench) -> list[Row]:
    """In memory beside Klamm without limits and kfake; with data directories beside Apache Kafka, if asked for."""
    rows: list[Row] = []
    for shape in SHAPES:
        rows += _in_memory(bench, smaller(shape, bench.samples(shape.requests, 10)))
    if bench.kafka_class_path:
        with bench.folder() as folder, bench.kafka(folder) as kafka:
            for shape in SHAPES:
                fewer = smaller(shape, bench.samples(shape.requests // KAFKA_DIVISOR or 1, 3))
                rows += _beside_kafka(bench, kafka, fewer)
    return rows


def smaller(shape: Shape, requests: int) -> Shape:
    """The same with another number of requests."""
    return Shape(requests=requests, topics=shape.topics, partitions=shape.partitions, warm_ups=shape.warm_ups)


def limit_options(shape: Shape, brokers: int = BROKERS) -> list[str]:
    """Options of `klamm serve` that leave room for exactly the partitions of a shape, with replication factor 1."""
    per_broker = -(-shape.all_partitions // brokers)
    limits = {"max.broker.partitions": per_broker, "max.partitions": shape.all_partitions}
    return [part for name, limit in limits.items() for part in ("--set", f"{name}={limit}")]


def _in_memory(bench: Workbench, shape: Shape) -> list[Row]:
    with ExitStack() as stack:
        limited = stack.enter_context(bench.klamm(*limit_options(shape)))
        named: dict[str, ServerProcess] = {"Klamm": limited, UNLIMITED: stack.enter_context(bench.klamm())}
        named["kfake"] = stack.enter_context(bench.kfake())
        makers = make_in_turn(stack, named, shape)
    return rows_of(f"{shape.what}, in memory", makers)


def _beside_kafka(bench: Workbench, kafka: ServerProcess, shape: Shape) -> list[Row]:
    with ExitStack() as stack:
        folder = stack.enter_context(bench.folder())
        limited = stack.enter_context(bench.klamm("--data-dir", str(folder), *limit_options(shape)))
        makers = make_in_turn(stack, {"Klamm": limited, "Kafka": kafka}, shape)
    return rows_of(f"{shape.what}, data directory", makers)


def make_in_turn(stack: ExitStack, servers: Mapping[str, ServerProcess], shape: Shape) -> list[Maker]:
    """Create all topics of a shape on all servers; the first one has limits, and is full at the end."""
    makers = []
    for name, server in servers.items():
        client = stack.enter_context(RawClient(find_controller(server.addresses[0])))
        makers.append(Maker(name, server, client, shape))
        makers[-1].warm_up()
    blocks = min(BLOCKS, shape.requests)
    for block in range(blocks):
        count = shape.requests // blocks + (block < shape.requests % blocks)
        turn = block % len(makers)
        for maker in (*makers[turn:], *makers[:turn]):
            maker.measure(count)
    for maker in makers:
        maker.refuse_errors()
    makers[0].refuse_room()
    return makers


def rows_of(what: str, makers: Sequence[Maker]) -> list[Row]:
    """The first maker beside each of the others: a request, a slow request, and all of them."""
    klamm, *others = makers
    if len({len(maker.milliseconds) for maker in makers}) != 1:
        raise Refused("not everybody made the same")
    return [
        Row(
            group="limits",
            what=f"{what}: {name}",
            unit=unit,
            klamm=figure(klamm.milliseconds),
            peer=other.name,
            theirs=figure(other.milliseconds),
            samples=len(klamm.milliseconds),
            details={
                "klamm_first_tenth": median(_tenth(klamm.milliseconds)),
                "klamm_last_tenth": median(_tenth(klamm.milliseconds[::-1])),
                "peer_first_tenth": median(_tenth(other.milliseconds)),
                "peer_last_tenth": median(_tenth(other.milliseconds[::-1])),
            },
        )
        for other in others
        for name, unit, figure in (
            ("p50 of a request", "ms", median),
            ("p99", "ms", _slow),
            ("all requests", "s", _whole_seconds),
        )
    ]


def _tenth(values: Sequence[float]) -> Sequence[float]:
    return values[: max(1, len(values) // 10)]


def _slow(milliseconds: Sequence[float]) -> float:
    return percentile(milliseconds, 99)


def _whole_seconds(milliseconds: Sequence[float]) -> float:
    return sum(milliseconds) / MS_PER_SECOND
