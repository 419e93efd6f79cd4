"""The random requests of a client under load, one at a time, made from the facts that the client knows of its topics.

No request can be refused, so each is either carried out completely or not at all: replicas are moved only to brokers
that are always up, and a topic is enlarged or moved only when none of its partitions is being moved.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from random import Random

from klamm import AdminClient, ConfigAlteration, ConfigResource, NewPartitions, NewTopic
from klamm.admin.types import Result
from tools.hard_knocks.facts import Ledger, Replicas, Topic, Topics

LASTING_BROKERS = (1, 2, 3)
"""The brokers that every start brings up."""
MAX_TOPICS = 8
"""The number of topics of one client, so that reading all of them is fast."""
WIDE_PARTITIONS = 700
"""Partitions of a wide topic: its batch has some ten pages of memory, and a kill may come between two of them."""
CONFIGS = ("retention.ms", "flush.messages", "delete.retention.ms")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, the topics after it, and the function that sends it."""

    kind: str
    after: Topics
    send: Callable[[AdminClient], Awaitable[Iterable[Result]]]


async def make_up(random: Random, ledger: Ledger, admin: AdminClient) -> Asked:
    """The next request of a client."""
    chance = random.random()
    if not ledger.known or (chance < 0.4 and len(ledger.known) < MAX_TOPICS):
        return _create(random, ledger)
    if chance < 0.7:
        # No other client moves this client's partitions, so one that is not moving now stays until the answer. A second
        # target for a moving one would have the oddities of Apache Kafka: replicas that are still to be removed.
        moving = {move.partition.topic_name for move in await admin.list_partition_reassignments()}
        if resting := [name for name in ledger.known if name not in moving]:
            return random.choice((_enlarge, _move))(random, ledger, _some(random, resting))
    return random.choice((_alter, _delete))(random, ledger, _some(random, list(ledger.known)))


def _create(random: Random, ledger: Ledger) -> Asked:
    # Few names, so that they are used again with another id.
    names = (f"{ledger.client}-{number}" for number in range(2 * MAX_TOPICS))
    free = [name for name in names if name not in ledger.known]
    made: dict[str, Topic] = {}
    wanted: list[NewTopic] = []
    for name in random.sample(free, random.randint(1, 3)):
        wide = random.random() < 0.02
        count = WIDE_PARTITIONS if wide else random.randint(1, 4)
        configs = {config: str(random.randint(1, 10**6)) for config in CONFIGS if random.random() < 0.3}
        if wide or random.random() < 0.3:
            made[name] = Topic(None, (None,) * count).with_configs(configs)
            wanted.append(NewTopic(name, count, random.randint(1, 3), configs))
        else:
            size = random.randint(1, 3)
            targets = tuple(_target(random, size) for _ in range(count))
            made[name] = Topic(None, targets).with_configs(configs)
            wanted.append(NewTopic(name, configs=configs, replica_assignments=dict(enumerate(targets))))
    return Asked("create", {**ledger.known, **made}, lambda admin: admin.create_topics(wanted))


def _delete(_random: Random, ledger: Ledger, gone: list[str]) -> Asked:
    left = {name: topic for name, topic in ledger.known.items() if name not in gone}
    return Asked("delete", left, lambda admin: admin.delete_topics(gone))


def _alter(random: Random, ledger: Ledger, names: list[str]) -> Asked:
    after = dict(ledger.known)
    alterations: dict[ConfigResource, list[ConfigAlteration]] = {}
    for name in names:
        edits: dict[str, str | None] = {
            config: None if random.random() < 0.2 else str(random.randint(1, 10**6))
            for config in random.sample(CONFIGS, 2)
        }
        after[name] = after[name].with_configs(edits)
        alterations[ConfigResource.topic(name)] = [
            ConfigAlteration.delete(config) if value is None else ConfigAlteration(config, value)
            for config, value in edits.items()
        ]
    return Asked("alter", after, lambda admin: admin.incremental_alter_configs(alterations))


def _move(random: Random, ledger: Ledger, names: list[str]) -> Asked:
    after = dict(ledger.known)
    targets: dict[tuple[str, int], Replicas | None] = {}
    for name in names:
        moved = list(after[name].targets)
        for index in random.sample(range(len(moved)), min(len(moved), 3)):
            moved[index] = targets[name, index] = _target(random, random.randint(1, 3))
        after[name] = replace(after[name], targets=tuple(moved))
    return Asked("move", after, lambda admin: admin.alter_partition_reassignments(targets))


def _enlarge(random: Random, ledger: Ledger, names: list[str]) -> Asked:
    after = dict(ledger.known)
    wanted: list[NewPartitions] = []
    for name in names:
        after[name] = replace(after[name], targets=(*after[name].targets, *(None,) * random.randint(1, 3)))
        wanted.append(NewPartitions(name, len(after[name].targets)))
    return Asked("enlarge", after, lambda admin: admin.create_partitions(wanted))


def _some(random: Random, names: list[str]) -> list[str]:
    """One or two of the topics."""
    return random.sample(names, min(len(names), random.randint(1, 2)))


def _target(random: Random, size: int) -> Replicas:
    return tuple(random.sample(LASTING_BROKERS, size))
