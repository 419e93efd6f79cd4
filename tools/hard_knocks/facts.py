"""The facts that one client knows about its own topics, and the check whether a state found after a crash is possible.

The topics of a client have names with its prefix, and it has at most one request in progress. So only two states are
possible after a crash: the acknowledged one, and the acknowledged one with the whole request in progress carried out.
Values that no answer contained (a topic's id, replicas that the controller chose) are recorded when they are first
seen, and must not change afterwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

Replicas = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as a client knows it."""

    topic_id: str | None
    """None until the answer with the id has arrived."""
    targets: tuple[Replicas | None, ...]
    """For each partition its target replicas; None: the controller chose them, and no answer has shown them."""
    configs: tuple[tuple[str, str], ...] = ()
    """The topic's own configs, by name."""

    def agrees(self, found: "Topic") -> bool:
        """Whether `found`, a topic without unknown facts, can be this topic."""
        return (
            self.topic_id in (None, found.topic_id)
            and self.configs == found.configs
            and len(self.targets) == len(found.targets)
            and all(known in (None, seen) for known, seen in zip(self.targets, found.targets, strict=True))
        )

    def with_configs(self, changes: Mapping[str, str | None]) -> "Topic":
        """The same topic after a config alteration; None removes a config."""
        merged: dict[str, str | None] = {**dict(self.configs), **changes}
        kept = ((name, value) for name, value in merged.items() if value is not None)
        return replace(self, configs=tuple(sorted(kept)))


Topics = Mapping[str, Topic]
"""The topics of one client, by name."""


class Ledger:
    """What one client got as answers, and its request without an answer."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.known: Topics = {}
        self.pending: Topics | None = None
        """The topics if the request in progress were answered."""
        self.pending_kind = ""

    def owns(self, topic_name: str) -> bool:
        return topic_name.startswith(f"{self.client}-")

    def ask(self, kind: str, after: Topics) -> None:
        """Send a request that changes the topics to `after`."""
        self.pending_kind, self.pending = kind, after

    def acknowledge(self, after: Topics) -> None:
        """The request was answered: `after` is now known."""
        self.known, self.pending = after, None

    def learn(self, found: Topics) -> list[str]:
        """Compare the known facts with the found ones and take over the latter. Returns one line for each topic that
        differs."""
        faults = differences(self.known, found)
        self.known = found
        return [f"{self.client}: {fault}" for fault in faults]

    def settle(self, found: Topics) -> tuple[bool | None, list[str]]:
        """After a crash: whether the request in progress was carried out (None: there was none), and the errors. The
        found facts are the known ones from now on."""
        before, after = self.known, self.pending
        self.known, self.pending = found, None
        lost = differences(before, found)
        if not lost:
            # A request that would change nothing counts as carried out.
            return (None if after is None else not differences(after, found)), []
        if after is None:
            return None, [f"{self.client}: {fault}" for fault in lost]
        half = differences(after, found)
        if not half:
            return True, []
        reported = f"{self.client}: {self.pending_kind} was under way, and is neither carried out nor left undone"
        return None, [reported, *(f"  not done: {fault}" for fault in lost), *(f"  done: {fault}" for fault in half)]


def differences(known: Topics, found: Topics) -> list[str]:
    """One line for each topic that differs from the known facts."""
    return [
        f"{name}: known as {_shown(known.get(name))}, found as {_shown(found.get(name))}"
        for name in sorted(known.keys() | found.keys())
        if name not in known or name not in found or not known[name].agrees(found[name])
    ]


def _shown(topic: Topic | None) -> str:
    if topic is None:
        return "nothing"
    targets = ", ".join("?" if target is None else "/".join(map(str, target)) for target in topic.targets[:12])
    more = f", … {len(topic.targets)} in all" if len(topic.targets) > 12 else ""
    return f"{topic.topic_id} on [{targets}{more}] with {dict(topic.configs)}"
