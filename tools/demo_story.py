"""The demonstration: starts `klamm serve` as a process, runs three client libraries in turn, and checks every answer.

    scripts/demo

Each client creates, describes, enlarges and deletes its own topics, and describes those of the others. On a second
cluster a broker stops and starts (tools/demo_brokers.py). Exit code 0 if the clients agree with each other and with the
requests; else 1, and one line with the difference.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from klamm.cluster.server_process import ServerFailed, ServerProcess
from tools.demo_brokers import OPTIONS, BrokersFailed, play_brokers
from tools.demo_clients import CLIENTS, Placement, SeenPartition, StoryClient
from tools.demo_tables import print_client_table, print_placement_table, say

ROOT = Path(__file__).resolve().parent.parent
RACKS: dict[int, str | None] = {1: "a", 2: "b", 3: "c"}
PARTITIONS_AT_FIRST = 4
PARTITIONS_LATER = 6
RETENTION_MS = "86400000"
BY_HAND = ((3, 1), (2, 3), (1, 2))
INVALID_REPLICATION_FACTOR = 38


class StoryFailed(Exception):
    """Raised when an answer differs from the expectation; the text says which answer, and which client got it."""


@dataclass
class Chapter:
    """The steps and results of one client: steps for the table, placements for the comparison."""

    client: StoryClient
    steps: dict[str, str] = field(default_factory=dict)
    placements: dict[str, Placement] = field(default_factory=dict)

    @property
    def automatic(self) -> str:
        return f"orders-{self.client.name.split()[0]}"

    @property
    def by_hand(self) -> str:
        return f"by-hand-{self.client.name.split()[0]}"

    def expect(self, true: bool, claim: str) -> None:
        if not true:
            raise StoryFailed(f"{self.client.name}: {claim}")

    def see(self, topic_name: str) -> Placement:
        """The topic as this client sees it now, after checks of its rules: one leader, in sync, no two replicas on a
        rack."""
        seen = self.client.describe(topic_name)
        if seen is None:
            raise StoryFailed(f"{self.client.name}: topic {topic_name} is not there")
        self.expect([p.partition_index for p in seen] == list(range(len(seen))), f"{topic_name}: indexes have gaps")
        for partition in seen:
            where = f"{topic_name}-{partition.partition_index}"
            racks = {RACKS.get(broker_id) for broker_id in partition.replicas}
            self.expect(partition.leader == partition.replicas[0], f"{where}: the first replica does not lead")
            self.expect(partition.isr == set(partition.replicas), f"{where}: not all replicas are in sync")
            self.expect(len(racks) == len(partition.replicas), f"{where}: two replicas share a rack")
        return seen


@contextmanager
def step(chapter: Chapter, name: str) -> Iterator[list[str]]:
    """One line of the table; an exception of a library is reported with the step in which it occurred."""
    reported: list[str] = []
    try:
        yield reported
    except StoryFailed:
        raise
    except Exception as error:
        raise StoryFailed(f"{chapter.client.name}: {name}: {type(error).__name__}: {error}") from error
    chapter.steps[name] = " ".join(reported) or "done"


def play(chapter: Chapter) -> None:
    """The steps of one client, up to but not including the deletions."""
    client, automatic, by_hand = chapter.client, chapter.automatic, chapter.by_hand
    with step(chapter, "brokers and racks") as reported:
        racks = client.racks()
        chapter.expect(racks == RACKS, f"sees brokers {racks}, not {RACKS}")
        reported.append(", ".join(f"{broker_id} in {rack}" for broker_id, rack in sorted(racks.items())))
    with step(chapter, "create a topic") as reported:
        client.create(automatic, PARTITIONS_AT_FIRST, 2, {"retention.ms": RETENTION_MS})
        first = chapter.see(automatic)
        chapter.expect(len(first) == PARTITIONS_AT_FIRST, f"{automatic} has {len(first)} partitions")
        chapter.expect({p.leader for p in first} == set(RACKS), f"{automatic}: not every broker leads")
        reported.append(f"{len(first)} partitions, 2 replicas each")
    with step(chapter, "read its retention.ms") as reported:
        retention = client.config(automatic, "retention.ms")
        chapter.expect(retention == RETENTION_MS, f"retention.ms is {retention}")
        reported.append(f"{retention}")
    with step(chapter, "enlarge it") as reported:
        client.enlarge(automatic, PARTITIONS_LATER)
        later = chapter.see(automatic)
        chapter.expect(len(later) == PARTITIONS_LATER, f"{automatic} has {len(later)} partitions after enlarging")
        chapter.expect(later[:PARTITIONS_AT_FIRST] == first, f"{automatic}: enlarging moved old partitions")
        reported.append(f"{len(first)} → {len(later)} partitions")
    with step(chapter, "create one by hand") as reported:
        client.create_assigned(by_hand, BY_HAND)
        wanted = tuple(SeenPartition(i, row[0], row, frozenset(row)) for i, row in enumerate(BY_HAND))
        chapter.expect(chapter.see(by_hand) == wanted, f"{by_hand} is not where it was put")
        reported.append(" ".join(str(list(row)) for row in BY_HAND))
    with step(chapter, "ask for 4 replicas") as reported:
        code, words = client.refusal("too-many-replicas", 1, len(RACKS) + 1)
        chapter.expect(code == INVALID_REPLICATION_FACTOR, f"4 replicas on 3 brokers were answered {code}: {words}")
        chapter.expect(client.describe("too-many-replicas") is None, "the refused topic exists")
        reported.append(f"refused ({code}): {words}")


def compare(chapters: list[Chapter]) -> None:
    """Every client describes every topic; all must get the same."""
    for chapter in chapters:
        with step(chapter, "look at all topics") as reported:
            for owner in chapters:
                for topic_name in (owner.automatic, owner.by_hand):
                    chapter.placements[topic_name] = chapter.see(topic_name)
            same = chapter.placements == chapters[0].placements
            chapter.expect(same, f"does not see what {chapters[0].client.name} sees")
            reported.append(f"{len(chapter.placements)} topics, the same as the others")


def delete(chapters: list[Chapter]) -> None:
    """Every client deletes its topics; afterwards no client may see any of them."""
    for chapter in chapters:
        with step(chapter, "delete its topics"):
            for topic_name in (chapter.automatic, chapter.by_hand):
                chapter.client.delete(topic_name)
    for chapter in chapters:
        with step(chapter, "look again") as reported:
            left = [name for name in chapter.placements if chapter.client.describe(name) is not None]
            chapter.expect(not left, f"still sees {left}")
            reported.append("all gone")


def tell() -> None:
    command = [str(ROOT / "scripts" / "klamm")]
    options = ("--brokers", "3", "--racks", "a,b,c", "--seed", "7")
    with ServerProcess(*options, command=command) as server:
        say(f"klamm serve, process {server.process_id}, bootstrap.servers={server.bootstrap_servers}")
        with ExitStack() as stack:
            chapters = []
            for open_client in CLIENTS:
                client = open_client(server.bootstrap_servers)
                stack.callback(client.close)
                chapters.append(Chapter(client))
                play(chapters[-1])
            compare(chapters)
            delete(chapters)
        server.stop()
    print_client_table({chapter.client.name: chapter.steps for chapter in chapters})
    print_placement_table(RACKS, chapters[0].placements)
    # A cluster of its own, because the first one has to refuse four replicas on three brokers.
    with ServerProcess(*options, *OPTIONS, control=True, command=command) as server:
        play_brokers(server)
        server.stop()
    say("SIGTERM: both servers ended with exit code 0, and no process is left.")


def main() -> int:
    try:
        tell()
    except (StoryFailed, BrokersFailed, ServerFailed) as error:
        sys.stderr.write(f"demo: failed: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
