"""CreateTopics of one small topic, one request at a time on one connection.

The peers take turns in blocks of requests, so that whatever else the machine does falls on all of them. Frames are
made before the clock runs and answers decoded after it has stopped. The bare trio echo has the same frame sizes.
"""

from collections.abc import Sequence
from contextlib import ExitStack

from bench.processes import ServerProcess
from bench.raw_client import RawClient, create_topics_frame, find_controller, refuse_errors
from bench.rows import Row, median, percentile
from bench.workbench import Workbench

BLOCK = 100
BLOCKS = 25
DURABLE_BLOCK = 20
DURABLE_BLOCKS = 25
WARM_UP_REQUESTS = 50
NS_PER_MS = 1e6
KFAKE_MARK = 4.0
KAFKA_MARK = 0.1
ECHO = "trio echo"
TENTH = 10
FEWEST_IN_A_TENTH = 100


class Creator:
    """One server and the topics that are created on it."""

    def __init__(self, server: ServerProcess, client: RawClient, partitions: int, replication_factor: int) -> None:
        self.server = server
        self.milliseconds: list[float] = []
        self.block_medians: list[float] = []
        self.first_milliseconds = 0.0
        self.cpu_seconds = 0.0
        self.answer_bytes = 0
        self._client = client
        self._shape = (partitions, replication_factor)
        self._made = 0
        self._answers: list[bytes] = []

    def warm_up(self) -> None:
        (self.first_milliseconds,) = self._run(1)
        self._run(WARM_UP_REQUESTS)

    def measure(self, count: int) -> None:
        spent = self.server.cpu_seconds
        block = self._run(count)
        self.cpu_seconds += self.server.cpu_seconds - spent
        self.milliseconds += block
        self.block_medians.append(median(block))

    def refuse_errors(self) -> None:
        """Raise unless every request created its topic."""
        for answer in self._answers:
            refuse_errors(answer)

    def _run(self, count: int) -> list[float]:
        names = [f"orders-{number:06d}" for number in range(self._made, self._made + count)]
        self._made += count
        frames = [create_topics_frame(name, *self._shape) for name in names]
        exchanges = [self._client.exchange(frame) for frame in frames]
        self._answers += [exchange.payload for exchange in exchanges]
        self.answer_bytes = len(exchanges[-1].payload)
        return [exchange.last_byte_ns / NS_PER_MS for exchange in exchanges]

    @property
    def cpu_per_request(self) -> float:
        """CPU milliseconds of all the server's threads."""
        return self.cpu_seconds * 1000 / len(self.milliseconds)

    def more(self) -> tuple[float, float, float, float]:
        tenth = max(1, len(self.milliseconds) // TENTH)
        first, last = self.milliseconds[:tenth], self.milliseconds[-tenth:]
        return percentile(self.milliseconds, 99), median(first), median(last), self.first_milliseconds


def measure_create(bench: Workbench) -> list[Row]:
    """In memory with kfake and the echo; with a data directory with kfake and, on request, Apache Kafka."""
    rows = [*_in_memory(bench, 1, 1), *_in_memory(bench, 3, 3)]
    with ExitStack() as stack:
        peers: list[ServerProcess] = []
        for _ in range(2):
            folder = stack.enter_context(bench.folder())
            option = ("-data-dir", str(folder)) if peers else ("--data-dir", str(folder))
            peers.append(stack.enter_context(bench.kfake(*option) if peers else bench.klamm(*option)))
        if bench.kafka_class_path:
            peers.append(stack.enter_context(bench.kafka(stack.enter_context(bench.folder()))))
        creators = _creators(stack, peers, 1, 1)
        _take_turns(creators, bench.samples(DURABLE_BLOCKS), DURABLE_BLOCK)
    for creator in creators:
        creator.refuse_errors()
    what = "1 topic × 1 partition, data directory"
    rows += _rows(what, creators, {"Kafka": (KAFKA_MARK, "<= 1/10 of Kafka")})
    return rows


def _in_memory(bench: Workbench, partitions: int, replication_factor: int) -> list[Row]:
    with ExitStack() as stack:
        peers: list[ServerProcess] = [stack.enter_context(bench.klamm()), stack.enter_context(bench.kfake())]
        creators = _creators(stack, peers, partitions, replication_factor)
        echo = stack.enter_context(bench.echo(creators[0].answer_bytes))
        client = stack.enter_context(RawClient(echo.addresses[0]))
        floor = Creator(echo, client, partitions, replication_factor)
        floor.warm_up()
        _take_turns([*creators, floor], bench.samples(BLOCKS), BLOCK)
    for creator in creators:
        creator.refuse_errors()
    what = f"1 topic × {partitions} partition{'s' * (partitions > 1)}, RF {replication_factor}, in memory"
    return _rows(what, [*creators, floor], {"kfake": (KFAKE_MARK, "<= 4 × kfake")})


def _creators(
    stack: ExitStack, peers: Sequence[ServerProcess], partitions: int, replication_factor: int
) -> list[Creator]:
    creators = []
    for server in peers:
        client = stack.enter_context(RawClient(find_controller(server.addresses[0])))
        creators.append(Creator(server, client, partitions, replication_factor))
        creators[-1].warm_up()
    return creators


def _take_turns(creators: Sequence[Creator], blocks: int, block: int) -> None:
    for number in range(blocks):
        turn = number % len(creators)
        for creator in (*creators[turn:], *creators[:turn]):
            creator.measure(block)


def _rows(what: str, creators: Sequence[Creator], marks: dict[str, tuple[float, str]]) -> list[Row]:
    klamm, *others = creators
    rows = []
    for other in others:
        limit, mark = marks.get(other.server.name, (None, None))
        for name, samples, ours, theirs in _compared(klamm, other):
            # kfake slows down as topics are added: the mark also applies where it is fastest.
            marked = name.startswith("p50") and limit is not None
            rows.append(
                Row(
                    group="create",
                    what=f"{what}: {name}",
                    unit="ms",
                    klamm=ours,
                    peer=other.server.name,
                    theirs=theirs,
                    samples=samples,
                    mark=mark if marked else None,
                    reached=ours <= limit * theirs if marked and limit is not None else None,
                    details=_details(klamm, other),
                )
            )
    return rows


def _compared(klamm: Creator, other: Creator) -> list[tuple[str, int, float, float]]:
    """The median, and what it hides: the slow ones, those with few and with many topics there, the very first one.

    Each with its name, its sample count, and the milliseconds of both.
    """
    count = len(klamm.milliseconds)
    tenth = count // TENTH
    whole = [("p50", count, median(klamm.milliseconds), median(other.milliseconds))]
    if other.server.name == ECHO:
        return whole
    ours, theirs = klamm.more(), other.more()
    named = [("p99", count), ("p50 of the first tenth", tenth), ("p50 of the last tenth", tenth), ("first request", 1)]
    more = [(*head, mine, its) for head, mine, its in zip(named, ours, theirs, strict=True)]
    return whole + [row for row in more if row[1] != tenth or tenth >= FEWEST_IN_A_TENTH]


def _details(klamm: Creator, other: Creator) -> dict[str, float]:
    blocks = zip(klamm.block_medians, other.block_medians, strict=True)
    return {
        "klamm_cpu_per_request": klamm.cpu_per_request,
        "peer_cpu_per_request": other.cpu_per_request,
        "klamm_answer_bytes": klamm.answer_bytes,
        "peer_answer_bytes": other.answer_bytes,
        "ratio_of_blocks_p50": median([ours / its for ours, its in blocks]),
    }
