"""A cluster of a million partitions, and one of 100,000 topics: made, held in memory, told by Metadata, started again.

Klamm keeps a data directory, kfake beside it keeps nothing. Requests take turns, a few at a time; the restart counts
from the spawn of the process to its ready line.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path

from bench.processes import ServerProcess
from bench.raw_client import (
    RawClient,
    Refused,
    count_partitions,
    find_controller,
    many_topics_frame,
    metadata_frame,
    refuse_errors,
)
from bench.rows import Row, median
from bench.workbench import Workbench

BROKERS = 100
REPLICATION_FACTOR = 3
REQUESTS_IN_A_BLOCK = 10
METADATA_REQUESTS = 7
ROUNDS = 3
FEWEST_ROUNDS = 1
MARK_CREATION = 4.0
MARK_MEMORY_MB = 500.0
MARK_RESTART_SECONDS = 10.0
NS_PER_SECOND = 1e9
BYTES_PER_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Shape:
    """A cluster to be made."""

    topics: int
    partitions: int
    """Of each topic."""
    topics_per_request: int
    brokers: int = BROKERS

    @property
    def title(self) -> str:
        return f"{self.topics:,} × {self.partitions:,} partitions, RF {REPLICATION_FACTOR}"


SHAPES = (Shape(1_000, 1_000, 10), Shape(100_000, 1, 1_000))
"""The second in large requests: kfake takes the longer for each the more topics there are."""


@dataclass(slots=True)
class Figures:
    """What one server came to, a number for each round."""

    creation_seconds: list[float] = field(default_factory=list)
    resident_mb: list[float] = field(default_factory=list)
    metadata_seconds: list[float] = field(default_factory=list)
    """The median of each round."""
    metadata_mb: list[float] = field(default_factory=list)
    restart_seconds: list[float] = field(default_factory=list)
    restarted_mb: list[float] = field(default_factory=list)
    """Resident memory after the restart."""
    data_mb: list[float] = field(default_factory=list)
    """What the data directory holds then."""


def measure_scale(bench: Workbench) -> list[Row]:
    """Each shape some times on fresh servers."""
    rows: list[Row] = []
    for shape in SHAPES:
        ours, theirs = Figures(), Figures()
        for _ in range(bench.samples(ROUNDS, FEWEST_ROUNDS)):
            with ExitStack() as stack:
                data_dir = stack.enter_context(bench.folder())
                klamm = partial(bench.klamm, "--data-dir", str(data_dir), brokers=shape.brokers)
                # Another working tree does what this one does, so it has a data directory, too.
                options = ("-data-dir", str(stack.enter_context(bench.folder()))) if bench.other_tree else ()
                peer = partial(bench.kfake, *options, brokers=shape.brokers)
                answer_bytes = grow(shape, [(klamm, ours), (peer, theirs)])
                restart(klamm(), ours, answer_bytes[0])
                ours.data_mb.append(_bytes_below(data_dir) / BYTES_PER_MB)
        rows += rows_of(shape, ours, theirs)
    return rows


def grow(shape: Shape, peers: Sequence[tuple[Callable[[], ServerProcess], Figures]]) -> list[int]:
    """Make the cluster on a server of each peer and have it told, in turn. Returns how many bytes the answers have.

    Raises Refused if a topic is refused, or an answer does not tell of all partitions.
    """
    with ExitStack() as stack:
        servers = [stack.enter_context(make()) for make, _ in peers]
        clients = [stack.enter_context(RawClient(find_controller(server.addresses[0]))) for server in servers]
        nanoseconds = [0] * len(clients)
        for block in _blocks(shape):
            for number, client in enumerate(clients):
                for frame in block:
                    exchange = client.exchange(frame)
                    nanoseconds[number] += exchange.last_byte_ns
                    refuse_errors(exchange.payload)
        reported = [_refuse_untold(client, shape) for client in clients]
        times: list[list[float]] = [[] for _ in clients]
        for _ in range(METADATA_REQUESTS):
            for client, seconds in zip(clients, times, strict=True):
                seconds.append(client.exchange(metadata_frame(all_topics=True)).last_byte_ns / NS_PER_SECOND)
        for (_, figures), server, spent, seconds, size in zip(
            peers, servers, nanoseconds, times, reported, strict=True
        ):
            figures.creation_seconds.append(spent / NS_PER_SECOND)
            figures.metadata_seconds.append(median(seconds))
            figures.metadata_mb.append(size / BYTES_PER_MB)
            figures.resident_mb.append(server.resident_bytes / BYTES_PER_MB)
    return reported


def restart(server: ServerProcess, figures: Figures, answer_bytes: int) -> None:
    """Start on what another process left. Raises Refused unless it tells as much as that did."""
    with server, RawClient(find_controller(server.addresses[0])) as client:
        figures.restart_seconds.append(server.seconds_to_ready)
        figures.restarted_mb.append(server.resident_bytes / BYTES_PER_MB)
        if (size := len(client.exchange(metadata_frame(all_topics=True)).payload)) != answer_bytes:
            raise Refused(f"Metadata has {size:,} bytes after the restart, {answer_bytes:,} before")


def _blocks(shape: Shape) -> Iterator[list[bytes]]:
    """The requests, encoded while no clock runs, so many as are sent to one server before it is the next one's turn."""
    names = iter(f"orders-{number:06d}" for number in range(shape.topics))
    requests = zip_longest(*[names] * shape.topics_per_request)
    frames = (
        many_topics_frame([name for name in some if name], shape.partitions, REPLICATION_FACTOR) for some in requests
    )
    for block in zip_longest(*[frames] * REQUESTS_IN_A_BLOCK):
        yield [frame for frame in block if frame]


def _refuse_untold(client: RawClient, shape: Shape) -> int:
    """The bytes of an answer, which is not timed, once it is known to be right."""
    payload = client.exchange(metadata_frame(all_topics=True)).payload
    wanted = shape.topics * shape.partitions
    if (reported := count_partitions(payload)) != wanted:
        raise Refused(f"Metadata tells of {reported:,} partitions, not of {wanted:,}")
    return len(payload)


def _bytes_below(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def rows_of(shape: Shape, ours: Figures, theirs: Figures) -> list[Row]:
    """The four figures of a shape: medians of all rounds."""
    creation, resident = median(ours.creation_seconds), median(ours.resident_mb)
    reported, restarted = median(ours.metadata_seconds), median(ours.restart_seconds)
    samples = len(ours.creation_seconds)
    return [
        Row(
            group="scale",
            what=f"{shape.title}: created by {shape.topics_per_request:,} topics, Klamm with a data directory",
            unit="s",
            klamm=creation,
            peer="kfake",
            theirs=median(theirs.creation_seconds),
            samples=samples,
            mark=f"<= {MARK_CREATION:g} × kfake",
            reached=creation <= MARK_CREATION * median(theirs.creation_seconds),
            details={"klamm_min": min(ours.creation_seconds), "klamm_max": max(ours.creation_seconds)},
        ),
        Row(
            group="scale",
            what=f"{shape.title}: resident memory afterwards",
            unit="MB",
            klamm=resident,
            peer="kfake",
            theirs=median(theirs.resident_mb),
            samples=samples,
            mark=f"<= {MARK_MEMORY_MB:g} MB",
            reached=resident <= MARK_MEMORY_MB,
            details={"klamm_max": max(ours.resident_mb), "after_the_restart": median(ours.restarted_mb)},
        ),
        Row(
            group="scale",
            what=f"{shape.title}: Metadata of all, request to last byte",
            unit="s",
            klamm=reported,
            peer="kfake",
            theirs=median(theirs.metadata_seconds),
            samples=samples,
            mark="<= 1 × kfake",
            reached=reported <= median(theirs.metadata_seconds),
            details={"answer_mb": median(ours.metadata_mb), "peer_answer_mb": median(theirs.metadata_mb)},
        ),
        Row(
            group="scale",
            what=f"{shape.title}: restart, process spawn to ready line",
            unit="s",
            klamm=restarted,
            samples=samples,
            mark=f"<= {MARK_RESTART_SECONDS:g} s",
            reached=restarted <= MARK_RESTART_SECONDS,
            details={"klamm_max": max(ours.restart_seconds), "data_directory_mb": median(ours.data_mb)},
        ),
    ]
