"""One round: start the server on the files of the last kill, check everything, run load, `kill -9`, read the raw bytes.

The seed and the round's number decide every random choice: the requests, and the time of the kill. How far the clients
are at that time depends on the machine, so a repeated round has the same plan but not the same state.
"""

import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import trio

from klamm import AdminClient, ClusterUnreachable
from tools.hard_knocks.broker_changes import BrokerChanges, BrokerLedger
from tools.hard_knocks.clients import Tally, ask_for_changes, read_topics
from tools.hard_knocks.facts import Ledger, Topics
from tools.hard_knocks.raw_log import BadLog, LogReader, topics_of
from tools.hard_knocks.requests import LASTING_BROKERS
from tools.hard_knocks.server import NotReady, Server
from tools.hard_knocks.warm_start import WarmInterpreter

CLIENTS = 5
ROUNDS_OF_A_DIRECTORY = 50
"""The rounds after which a new directory begins: by then the history has some megabytes, and the first steps are tried
again."""
SEGMENT_BYTES = (4_000, 30_000, 1_000_000)
SNAPSHOT_RECORDS = 50
"""Records between snapshots: few, so that kills hit a snapshot being written, or the truncation of the log behind
it."""
SNAPSHOT_ROUNDS = 1 / 3
"""The share of rounds that take snapshots."""
LOAD_SECONDS = 0.4
"""The longest time between the first request and the kill."""
START_SECONDS = 0.2
"""Kills that should hit the start come within this time, which is about as long as a start takes."""
AFTER_KILL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The random choices of a round, made before it is played."""

    seed: int
    number: int
    in_start: bool
    """Whether the kill comes while the server starts."""
    kill_after_seconds: float
    control: bool
    """Whether brokers are changed, too; with the control interface a start takes longer."""
    segment_bytes: int
    snapshot_records: int | None
    """The number of records after which the server takes a snapshot by itself; None: not within a round."""

    @property
    def opens_directory(self) -> bool:
        return self.number % ROUNDS_OF_A_DIRECTORY == 0

    def random(self, whose: str) -> Random:
        return Random(f"{self.seed}/{self.number}/{whose}")


def plan_round(seed: int, number: int) -> Plan:
    """The plan that this seed has for the round of this number."""
    random = Random(f"{seed}/{number}")
    in_start = random.random() < 0.1
    return Plan(
        seed=seed,
        number=number,
        in_start=in_start,
        kill_after_seconds=random.uniform(0, START_SECONDS if in_start else LOAD_SECONDS),
        control=random.random() < 0.4,
        segment_bytes=SEGMENT_BYTES[number // ROUNDS_OF_A_DIRECTORY % len(SEGMENT_BYTES)],
        snapshot_records=SNAPSHOT_RECORDS if random.random() < SNAPSHOT_ROUNDS else None,
    )


@dataclass(slots=True)
class Life:
    """A data directory, and all that is known of its content."""

    data_dir: Path
    stderr: Path
    interpreter: WarmInterpreter
    ledgers: list[Ledger] = field(default_factory=lambda: [Ledger(f"client{number}") for number in range(CLIENTS)])
    brokers: BrokerLedger = field(default_factory=BrokerLedger)
    torn_bytes: int = 0
    reader: LogReader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = LogReader(self.data_dir)

    def known(self) -> Topics:
        return {name: topic for ledger in self.ledgers for name, topic in ledger.known.items()}


async def play_round(plan: Plan, life: Life, tally: Tally) -> None:
    """Play the round. Errors are added to the tally's faults, and events to its counts."""
    server = await _start(plan, life)
    try:
        if plan.in_start:
            await trio.sleep(plan.kill_after_seconds)
        else:
            await server.await_ready()
            tally.faults += await look(server, life)
            await _load(plan, life, server, tally)
    except NotReady as error:
        tally.faults.append(f"the server {error}")
    finally:
        await server.reap()
    if not plan.in_start and server.was_ready:
        tally.faults += _unexpected_words(server, life)
        tally.repaired += life.torn_bytes > 0
    _settle(life, tally)


async def play_ending(plan: Plan, life: Life, tally: Tally) -> None:
    """A last start: everything is there, and SIGTERM stops the server properly."""
    server = await _start(plan, life)
    try:
        await server.await_ready()
        tally.faults += await look(server, life)
        code = await server.stop()
        if code:
            tally.faults.append(f"the server ended with exit code {code} on SIGTERM: {server.said()}")
    except NotReady as error:
        tally.faults.append(f"the server {error}")
    finally:
        await server.reap()
    if server.was_ready:
        tally.faults += _unexpected_words(server, life)
    _settle(life, tally)


async def _start(plan: Plan, life: Life) -> Server:
    arguments = ["--data-dir", str(life.data_dir), "--brokers", str(len(LASTING_BROKERS)), "--seed", str(plan.number)]
    arguments += ["--set", f"internal.metadata.log.segment.bytes={plan.segment_bytes}"]
    if plan.snapshot_records is not None:
        arguments += ["--snapshot-records", str(plan.snapshot_records)]
    server = Server(arguments, life.stderr, life.interpreter, control=plan.control)
    await server.start()
    return server


async def look(server: Server, life: Life) -> list[str]:
    """Whether a server that has just started shows exactly what is known; one line for each difference."""
    known = life.known()
    everybody = Ledger("server")
    everybody.known = known
    try:
        async with AdminClient(server.bootstrap_servers) as admin:
            faults = everybody.learn(await read_topics(admin))
            brokers = (await admin.describe_cluster(include_fenced_brokers=True)).brokers
    except ClusterUnreachable as error:
        return [f"the server is not there after its ready line: {error}"]
    registered = {broker.broker_id for broker in brokers}
    if registered != life.brokers.known | set(LASTING_BROKERS):
        faults.append(f"server: brokers {sorted(registered)} where {sorted(life.brokers.known)} were added")
    return faults


async def _load(plan: Plan, life: Life, server: Server, tally: Tally) -> None:
    """Clients work until the kill, whose time is independent of all periods of this process."""

    def kill_later() -> None:
        time.sleep(plan.kill_after_seconds)
        server.kill()

    with trio.move_on_after(AFTER_KILL_SECONDS) as deadline:
        async with trio.open_nursery() as nursery:
            for ledger in life.ledgers:
                random = plan.random(ledger.client)
                nursery.start_soon(ask_for_changes, server.bootstrap_servers, ledger, random, tally)
            if server.control_url is not None:
                changes = BrokerChanges(server.bootstrap_servers, server.control_url, life.brokers, tally)
                nursery.start_soon(changes.make, plan.random("brokers"))
            await trio.to_thread.run_sync(kill_later)
    if deadline.cancelled_caught:
        tally.faults.append(f"clients have not noticed the kill within {AFTER_KILL_SECONDS:g} s")


def _unexpected_words(server: Server, life: Life) -> list[str]:
    """Unexpected lines of the server's stderr; it has to report a torn tail that it cut off."""
    said = server.said()
    if life.torn_bytes and "the metadata log was repaired" not in said:
        return [f"{life.torn_bytes} bytes of a torn tail were cut off without a word; said was: {said or 'nothing'}"]
    if said and not (life.torn_bytes and " | " not in said):
        return [f"the server said: {said}"]
    return []


def _settle(life: Life, tally: Tally) -> None:
    """Compare the raw log with the answers that every client got, and continue from its content."""
    snapshots = life.reader.snapshots
    try:
        life.torn_bytes = life.reader.read_on()
        tally.snapshots += life.reader.snapshots - snapshots
    except BadLog as error:
        tally.faults.append(f"the log: {error}")
        return
    found = topics_of(life.reader.image)
    verdicts = [
        ledger.settle({name: topic for name, topic in found.items() if ledger.owns(name)}) for ledger in life.ledgers
    ]
    added = frozenset(life.reader.image.brokers) - set(LASTING_BROKERS)
    verdicts.append(life.brokers.settle(added))
    for carried_out, faults in verdicts:
        tally.carried_out += carried_out is True
        tally.left_undone += carried_out is False
        tally.faults += faults
    for name in found.keys() - life.known().keys():
        tally.faults.append(f"the log has a topic of nobody: {name}")


def keep_for_a_look(life: Life, plan: Plan, faults: list[str], folder: Path) -> Path:
    """Copy the directory in its present state, with the errors. Returns the path of the copy."""
    kept = folder / f"round-{plan.number}"
    with suppress(FileExistsError):
        kept.mkdir(parents=True)
    if life.data_dir.exists():
        shutil.copytree(life.data_dir, kept / "data", dirs_exist_ok=True)
    if life.stderr.exists():
        shutil.copy(life.stderr, kept / "stderr")
    (kept / "faults").write_text("".join(f"{line}\n" for line in [repr(plan), *faults]))
    return kept
