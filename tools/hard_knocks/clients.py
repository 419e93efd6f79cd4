"""The clients of one round: they send requests until the server is gone, and record the answers."""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random

from klamm import AdminClient, ClusterUnreachable, ConfigResource, ConfigSource, CreatedTopic, ResourceConfigs
from klamm.admin.types import Result
from tools.hard_knocks.facts import Ledger, Topic, Topics
from tools.hard_knocks.requests import make_up

READS = 0.1
"""The share of changes after which a client reads its topics: what it has read must survive, too."""


@dataclass(slots=True)
class Tally:
    """The results of a run; added up over all rounds."""

    acknowledged: Counter[str] = field(default_factory=Counter)
    """The number of changes, by kind."""
    carried_out: int = 0
    """Requests that were not answered but carried out."""
    left_undone: int = 0
    repaired: int = 0
    """Starts that cut off a torn tail."""
    snapshots: int = 0
    """Snapshots that were compared with the log."""
    faults: list[str] = field(default_factory=list)
    """The errors of the present round."""
    rounds: int = 0
    faulty_rounds: int = 0


async def ask_for_changes(bootstrap_servers: str, ledger: Ledger, random: Random, tally: Tally) -> None:
    """Run one client until the server is gone."""
    with suppress(ClusterUnreachable):
        async with AdminClient(bootstrap_servers, client_id=ledger.client) as admin:
            while True:
                requested = await make_up(random, ledger, admin)
                ledger.ask(requested.kind, requested.after)
                results = list(await requested.send(admin))
                refused = [result.error for result in results if result.error is not None]
                if refused:
                    tally.faults.append(f"{ledger.client}: {requested.kind} was refused: {refused[0]}")
                    return
                ledger.acknowledge(_with_ids(requested.after, results))
                tally.acknowledged[requested.kind] += 1
                if random.random() < READS:
                    tally.faults += ledger.learn(await read_topics(admin, ledger))


def _with_ids(topics: Topics, results: Iterable[Result]) -> Topics:
    """The topics with the ids in the answer to their creation."""
    reported = {result.topic_name: str(result.topic_id) for result in results if isinstance(result, CreatedTopic)}
    return {name: replace(topic, topic_id=reported.get(name, topic.topic_id)) for name, topic in topics.items()}


async def read_topics(admin: AdminClient, ledger: Ledger | None = None) -> Topics:
    """The topics of one client, or of all, as the server describes them."""
    # Reassignments first: one that completes in between removes only replicas that the later answer lacks, too.
    moves = await admin.list_partition_reassignments()
    leaving: dict[tuple[str, int], tuple[int, ...]] = {move.partition: move.removing_replicas for move in moves}
    shown = {topic.topic_name or "": topic for topic in (await admin.metadata()).topics}
    names = [name for name in shown if ledger is None or ledger.owns(name)]
    configs = await admin.describe_configs([ConfigResource.topic(name) for name in names]) if names else ()
    own = {described.resource.name: _own_configs(described) for described in configs}
    return {
        name: Topic(
            str(shown[name].topic_id),
            tuple(
                tuple(broker for broker in partition.replicas if broker not in leaving.get((name, index), ()))
                for index, partition in enumerate(shown[name].partitions)
            ),
            own[name],
        )
        for name in names
    }


def _own_configs(described: ResourceConfigs) -> tuple[tuple[str, str], ...]:
    entries = described.configs.values()
    own = (entry for entry in entries if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG)
    return tuple(sorted((entry.name, entry.value or "") for entry in own))
