"""Work on very many partitions at once, and who has to wait for it: a broker is lost, a broker fills placeholders.

Over real sockets: one process serves, the control interface lets a broker crash or join, and a client asks for
ApiVersions and for Metadata of one topic all the time. Nothing is beside it: no peer elects or knows placeholders.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import klamm
from bench.raw_client import RawClient, Refused, create_topics_frame, refuse_errors
from bench.rows import Row, median
from bench.waiting_client import Work, ask_meanwhile, join_times, work_seen
from bench.workbench import Workbench

MARK_SECONDS = 1.0
MARK_WAIT_MS = 50.0
MS_PER_SECOND = 1000.0
REPLICATION_FACTOR = 3
ROUNDS = 3
FEWEST_ROUNDS = 1
ASKED_TOPIC = "asked"
QUICK_SESSIONS = ("--set", "broker.session.timeout.ms=2000", "--set", "broker.heartbeat.interval.ms=500")
"""A crash is noticed soon; the other brokers' heartbeats are frequent enough to keep their sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongWork:
    """A kind of long work, and the cluster in which it is done."""

    what: str
    options: tuple[str, ...]
    topics: int
    partitions: int
    """Of each topic."""
    crash: int | None = None
    """The broker that crashes; None: one more broker joins."""
    done: str
    """What the marks require, for people."""
    records: int
    """The least number of records."""
    data_directory: bool = field(default=False)


def lost_broker(brokers: int, topics: int, partitions: int) -> LongWork:
    """The second of these brokers is fenced: it led its share of all partitions, and was in the ISR of many more."""
    led = topics * partitions // brokers
    return LongWork(
        what=f"fencing a broker that leads {led:,} of {topics * partitions:,} partitions, RF {REPLICATION_FACTOR}",
        options=("--brokers", str(brokers), *QUICK_SESSIONS),
        topics=topics,
        partitions=partitions,
        crash=2,
        done="from the fencing until it is in no ISR",
        # As leader and as follower: each partition with a replica of it changes. And the fencing itself.
        records=led * REPLICATION_FACTOR + 1,
    )


def filled_placeholders(topics: int, partitions: int) -> LongWork:
    """A third broker joins two, and takes one placeholder of each partition."""
    placeholders = topics * partitions
    under_replicated = ("--set", "enable.under.replicated.topic.creation=true")
    return LongWork(
        what=f"filling {placeholders:,} placeholders",
        options=("--brokers", str(REPLICATION_FACTOR - 1), *under_replicated),
        topics=topics,
        partitions=partitions,
        done="from the registration to the last one",
        # The registration, and the unfencing.
        records=placeholders + 2,
    )


WORKS = (lost_broker(10, 10, 100_000), filled_placeholders(10, 10_000))


def measure_long_work(bench: Workbench) -> list[Row]:
    """Each work in memory and with a data directory, on a fresh cluster each time."""
    rows: list[Row] = []
    for work in WORKS:
        for durable in (False, True):
            where = replace(work, data_directory=durable)
            rows += rows_of(where, [do_work(bench, where) for _ in range(bench.samples(ROUNDS, FEWEST_ROUNDS))])
    return rows


def do_work(bench: Workbench, work: LongWork) -> Work:
    """One round on a cluster of its own."""
    with ExitStack() as stack:
        request_log = stack.enter_context(bench.folder()) / "requests.jsonl"
        options = [*work.options, "--request-log", str(request_log)]
        if work.data_directory:
            options += ["--data-dir", str(stack.enter_context(bench.folder()))]
        with klamm.ServerProcess(*options, control=True) as server:
            host, _, port = server.bootstrap_servers.split(",")[0].rpartition(":")
            address = (host, int(port))
            _fill(address, work)
            before = _replicas(server)
            with ThreadPoolExecutor(1) as threads:
                begun: list[Future[object]] = []

                def begin() -> None:
                    begun.append(threads.submit(_begin, server, work))

                times = ask_meanwhile(address, ASKED_TOPIC, request_log, begin, work.records)
                begun[0].result()
            _refuse_undone(work, before, server)
        # Read after the server has ended, when every line is written.
        return work_seen(join_times(times, request_log), work.records)


def _begin(server: klamm.ServerProcess, work: LongWork) -> None:
    if work.crash is None:
        server.add_broker()
    else:
        server.stop_broker(work.crash, "crash")


def _fill(address: tuple[str, int], work: LongWork) -> None:
    with RawClient(address) as client:
        for number in range(work.topics):
            frame = create_topics_frame(f"orders-{number:03d}", work.partitions, REPLICATION_FACTOR)
            refuse_errors(client.exchange(frame).payload)
        refuse_errors(client.exchange(create_topics_frame(ASKED_TOPIC, 1, 1)).payload)


def _replicas(server: klamm.ServerProcess) -> dict[int, int]:
    return {broker.id: broker.replicas for broker in server.brokers()}


def _refuse_undone(work: LongWork, before: dict[int, int], server: klamm.ServerProcess) -> None:
    """Raise Refused if the cluster was not as in the title, or has not become so."""
    after = {broker.id: broker for broker in server.brokers()}
    partitions = work.topics * work.partitions
    if work.crash is None:
        (joined,) = after.keys() - before.keys()
        if after[joined].replicas < partitions:
            raise Refused(f"{work.what}: the broker that joined has {after[joined].replicas:,} replicas")
    elif not after[work.crash].fenced or before[work.crash] < work.records - 1:
        raise Refused(f"{work.what}: broker {work.crash} had {before[work.crash]:,} replicas")


def rows_of(work: LongWork, done: Sequence[Work]) -> list[Row]:
    """The duration, and the longest wait of other clients in all rounds."""
    where = "data directory" if work.data_directory else "in memory"
    seconds = median([one.seconds for one in done])
    wait = max(one.longest_wait for one in done) * MS_PER_SECOND
    return [
        Row(
            group="long work",
            what=f"{work.what}, {where}: {work.done}",
            unit="s",
            klamm=seconds,
            samples=len(done),
            mark=f"<= {MARK_SECONDS:g} s",
            reached=seconds <= MARK_SECONDS,
            details={
                "klamm_max": max(one.seconds for one in done),
                "until_the_log_is_quiet": median([one.whole_seconds for one in done]),
                "records": max(one.grown for one in done),
            },
        ),
        Row(
            group="long work",
            what=f"{work.what}, {where}: longest wait of another request",
            unit="ms",
            klamm=wait,
            samples=sum(one.questions for one in done),
            mark=f"<= {MARK_WAIT_MS:g} ms",
            reached=wait <= MARK_WAIT_MS,
            details={
                "p99": median([one.p99_wait for one in done]) * MS_PER_SECOND,
                "longest_of_each_round_median": median([one.longest_wait for one in done]) * MS_PER_SECOND,
                "longest_before": max(one.longest_wait_before for one in done) * MS_PER_SECOND,
            },
        ),
    ]
