"""One history of applications on a cluster: steps that a seed gives, then peace.

A step is an action's name and a number, from which everything random in it is drawn, so that a history without some of
its steps is a history, too: `shrunk` finds a short one that fails in the same way.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import TypeAlias

from tests.simulation.applications.deliveries import Deliveries
from tests.simulation.applications.holds import ALWAYS, everything_is_at_rest
from tests.simulation.applications.members import Member, classic_member, consumer_member, fetch_offset
from tests.simulation.applications.producers import Producer, Producers
from tests.simulation.applications.readers import Reader, judge_what_was_read, offsets_of
from tests.simulation.applications.share_members import share_member
from tests.simulation.applications.streams_members import streams_member
from tests.simulation.applications.truth import NO_OFFSET, Offsets, Outcome, Transactions
from tests.simulation.applications.world import (
    SHARE_GROUPS,
    SUBSCRIBED_PARTITIONS,
    WRITTEN_PARTITIONS,
    Application,
    World,
)
from tests.simulation.cluster.violation import Violation, demand

Step: TypeAlias = tuple[str, int]
STEPS = 60
PEACE_MS = 30_000
GROUPS = ("classic-1", "classic-2", "consumer-1", "consumer-2", "streams-1")
JOINED = (*GROUPS, *SHARE_GROUPS)
MEMBERS = {"classic": classic_member, "consumer": consumer_member, "streams": streams_member}
"""What runs, by the kind of the group."""
TRANSACTIONAL_IDS = ("x", "y", "z")
MOST_MEMBERS = 10


class History:
    """A cluster, its applications and what they know."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.offsets, self.transactions = Offsets(), Transactions()
        self.producers = Producers(self.world, self.offsets, self.transactions)
        self.deliveries = {group_id: Deliveries(self.world, group_id) for group_id in SHARE_GROUPS}
        self.members: dict[str, Member] = {}
        self.living: dict[str, Producer] = {}
        self.readers = [Reader(self.world, self.transactions, index) for index in range(WRITTEN_PARTITIONS)]
        self.started = 0
        for index, reader in enumerate(self.readers):
            self.world.start_application(f"reader-{index}", reader.run())

    def next_name(self, kind: str) -> str:
        self.started += 1
        return f"{kind}-{self.started}"

    def start_member(self, me: Member) -> None:
        self.members[me.name] = me
        kind = me.group_id.partition("-")[0]
        if kind == "share":
            application = share_member(self.world, self.deliveries[me.group_id], me)
        else:
            application = MEMBERS[kind](self.world, self.offsets, me)
        self.world.start_application(me.name, application)

    def stop_member(self, me: Member) -> None:
        """Its process dies, and its connections with it."""
        if me.group_id in self.deliveries:
            self.deliveries[me.group_id].ends(me.name)
        self.world.stop_application(me.name)

    def alive(self) -> list[Member]:
        return [member for name, member in self.members.items() if name in self.world.running]

    def do(self, step: Step) -> None:
        """One step, after which the invariants hold. Raises Violation."""
        name, number = step
        ACTIONS[name](self, Random(number))
        for holds in ALWAYS:
            holds(self.world)

    def become_quiet(self) -> None:
        """Nothing happens any more. Raises Violation if not everything is at rest then."""
        world = self.world
        world.loss, world.paused = 0.0, set()
        for broker_id in (1, 2, 3):
            world.begin(broker_id)
        for producer in self.living.values():
            producer.leaving = True
        for group_id in SHARE_GROUPS:
            self.start_member(Member(f"last-{group_id}", group_id, None, chance=Random(group_id)))
        for member in self.members.values():
            member.commits = False
        world.run(PEACE_MS)
        everything_is_at_rest(world, self.alive())
        self._judge_records()
        self._judge_offsets()
        for holds in ALWAYS:
            holds(world)

    def _judge_records(self) -> None:
        fresh = [Reader(self.world, self.transactions, index) for index in range(WRITTEN_PARTITIONS)]
        for index, reader in enumerate(fresh):
            self.world.start_application(f"fresh-{index}", reader.run())
        sizes: list[int] = []
        while [reader.offset for reader in fresh] != sizes:
            sizes = [reader.offset for reader in fresh]
            self.world.run(1_000)
        judge_what_was_read(self.transactions, self.readers, fresh)
        for index, reader in enumerate(fresh):
            records, markers = offsets_of(self.world, index)
            self.deliveries["share-1"].judge(index, reader.seen.keys(), reader.seen.keys() | markers)
            self.deliveries["share-2"].judge(index, records, records | markers)

    def _judge_offsets(self) -> None:
        for group_id in GROUPS:
            for partition in range(SUBSCRIBED_PARTITIONS):
                name = f"last-{group_id}-{partition}"
                self.world.start_application(name, fetch_offset(self.offsets, group_id, partition))
        for transactional_id in TRANSACTIONAL_IDS:
            self.world.start_application(f"last-{transactional_id}", self._judge_transactional(transactional_id))
        self.world.run(1_000)

    def _judge_transactional(self, transactional_id: str) -> Application:
        """The offset is that of the last transaction that committed one."""
        of_id = [one for one in self.transactions.all if one.transactional_id == transactional_id]
        with_offset = [one for one in of_id if one.offset is not None]
        possible = [NO_OFFSET]
        for one in with_offset:
            certain = one.outcome is Outcome.COMMITTED and not one.offset_is_unknown
            if certain:
                possible.clear()
            if one.outcome in (Outcome.COMMITTED, Outcome.UNKNOWN):
                possible.append(one.offset or 0)
        place = self.producers.group_of(transactional_id), SUBSCRIBED_PARTITIONS - 1
        judged = _Possible(possible)
        yield from fetch_offset(judged, *place, stable=True)  # type: ignore[arg-type]
        demand("every_transaction_ends", judged.was_shown, f"{place} is not stable")


class _Possible:
    """What OffsetFetch may show of a transactional producer's group."""

    def __init__(self, offsets: list[int]) -> None:
        self._offsets = offsets
        self.was_shown = False

    def possible(self, _place: object) -> list[object]:
        return []

    def shown(self, place: object, offset: int, _possible: object) -> None:
        self.was_shown = True
        reason = f"{place} is at {offset}, not at one of {self._offsets}"
        demand("offset_fetch_shows_the_last_acknowledged_commit", offset in self._offsets, reason)


# -- actions -------------------------------------------------------------------------------------------------------


def pass_time(history: History, chance: Random) -> None:
    history.world.run(chance.choice((5, 50, 300, 1_000, 1_000, 5_000)))


def join(history: History, chance: Random) -> None:
    if len(history.alive()) >= MOST_MEMBERS:
        return
    group_id = chance.choice(JOINED)
    kind = group_id.partition("-")[0]
    instance_id = chance.choice((None, None, "i1", "i2"))
    if kind in ("streams", "share"):
        instance_id = None
    history.start_member(Member(history.next_name("member"), group_id, instance_id, chance=Random(chance.random())))


def leave(history: History, chance: Random) -> None:
    alive = history.alive()
    if alive:
        chance.choice(alive).leaving = True


def die(history: History, chance: Random) -> None:
    alive = history.alive()
    if alive:
        history.stop_member(chance.choice(alive))


def pause(history: History, chance: Random) -> None:
    """An application does not run for a while, and goes on as if nothing had happened."""
    names = sorted(set(history.world.running) - {f"reader-{index}" for index in range(WRITTEN_PARTITIONS)})
    if names:
        name = chance.choice(names)
        history.world.paused.add(name)


def go_on(history: History, chance: Random) -> None:
    if history.world.paused:
        history.world.paused.discard(chance.choice(sorted(history.world.paused)))


def produce(history: History, chance: Random) -> None:
    """One more producer. Another one of the same transactional id is fenced, and may go on."""
    transactional_id = chance.choice(TRANSACTIONAL_IDS)
    name = history.next_name("producer")
    producer = Producer(transactional_id, 0, chance.choice((1, 2, 2)), chance=Random(chance.random()))
    history.living[name] = producer
    history.world.start_application(name, history.producers.run(producer))


def producer_dies(history: History, chance: Random) -> None:
    names = [name for name in history.living if name in history.world.running]
    if names:
        history.world.stop_application(chance.choice(names))


def crash(history: History, chance: Random) -> None:
    history.world.crash(chance.choice((1, 2, 3)))


def shut_down(history: History, chance: Random) -> None:
    history.world.leave(chance.choice((1, 2, 3)))


def start(history: History, chance: Random) -> None:
    history.world.begin(chance.choice((1, 2, 3)))


def lose(history: History, chance: Random) -> None:
    """The network gets worse, or better."""
    history.world.loss = chance.choice((0.0, 0.0, 0.05, 0.2))


Action: TypeAlias = Callable[[History, Random], None]
ACTIONS: dict[str, Action] = {
    action.__name__: action
    for action in (
        pass_time,
        join,
        leave,
        die,
        pause,
        go_on,
        produce,
        producer_dies,
        crash,
        shut_down,
        start,
        lose,
    )
}
WEIGHTS = {
    "pass_time": 12,
    "join": 5,
    "leave": 1,
    "die": 1,
    "pause": 1.5,
    "go_on": 1.5,
    "produce": 3,
    "producer_dies": 1,
    "crash": 1.5,
    "shut_down": 1,
    "start": 3,
    "lose": 1.5,
}


@dataclass(frozen=True)
class Ended:
    """What became of a history. `digest` is of the bytes of all partitions."""

    failure: str | None
    digest: str
    records: int


def steps_of(seed: int, count: int = STEPS) -> list[Step]:
    """The steps of a seed."""
    chance = Random(seed)
    names = chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=count)
    return [(name, chance.randrange(2**32)) for name in names]


def replay_steps(seed: int, steps: Sequence[Step]) -> Ended:
    """Do these steps on the cluster of a seed."""
    history = History(seed)
    failure = None
    try:
        for step in steps:
            history.do(step)
        history.become_quiet()
    except (Violation, AssertionError) as violation:
        failure = str(violation) or repr(violation)
    digest, records = sha256(history.world.log.log_bytes()), 0
    for name in sorted(history.world.image.topics_by_name):
        topic = history.world.image.topics_by_name[name]
        for _, log in sorted(history.world.data.partitions_of(topic.topic_id).items()):
            digest.update(log.log.read(log.log.log_start_offset, 1 << 30, log.log.log_end_offset) or b"")
            records += log.log.log_end_offset
    return Ended(failure, digest.hexdigest(), records)


def simulate(seed: int, steps: int = STEPS) -> Ended:
    """The history of a seed."""
    return replay_steps(seed, steps_of(seed, steps))


def shrunk(seed: int, steps: Sequence[Step]) -> list[Step]:
    """A part of the steps that violates the same invariant; no shorter one by leaving out a stretch of it."""
    name = (replay_steps(seed, steps).failure or "").split(":")[0]
    found, size = list(steps), max(1, len(steps) // 2)
    while size:
        at = 0
        while at < len(found):
            fewer = found[:at] + found[at + size :]
            if (replay_steps(seed, fewer).failure or "").split(":")[0] == name:
                found = fewer
            else:
                at += size
        size //= 2
    return found
