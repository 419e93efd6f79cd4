"""What the applications were answered, and so what may be seen from then on."""

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from tests.simulation.cluster.violation import demand

Committed: TypeAlias = tuple[str, int]
"""A group and a partition that it commits offsets of."""
NO_OFFSET = -1


@dataclass(slots=True, eq=False)
class Commit:
    """One OffsetCommit that reached the coordinator."""

    serial: int
    offset: int


class Offsets:
    """The offsets that OffsetFetch may show. All committed offsets differ."""

    def __init__(self) -> None:
        self._serial = 0
        self._open: defaultdict[Committed, list[Commit]] = defaultdict(lambda: [Commit(0, NO_OFFSET)])
        """The last commit that was acknowledged, and those after it of which no answer says that they failed."""

    def next_offset(self) -> int:
        self._serial += 1
        return self._serial

    def arrives(self, place: Committed, offset: int) -> Commit:
        self._serial += 1
        commit = Commit(self._serial, offset)
        self._open[place].append(commit)
        return commit

    def acknowledged(self, place: Committed, commit: Commit) -> None:
        """The response says that it is committed, or OffsetFetch shows it: what was before is over."""
        self._open[place] = [one for one in self._open[place] if one.serial >= commit.serial]

    def refused(self, place: Committed, commit: Commit) -> None:
        """The response says that the committer is fenced: it has changed nothing."""
        self._open[place] = [one for one in self._open[place] if one is not commit]

    def possible(self, place: Committed) -> list[Commit]:
        return list(self._open[place])

    def shown(self, place: Committed, offset: int, possible: list[Commit]) -> None:
        """OffsetFetch shows an offset; `possible` was what it might show when it arrived. Raises Violation."""
        found = [one for one in possible if one.offset == offset]
        demand(
            "offset_fetch_shows_the_last_acknowledged_commit",
            found,
            f"{place} is at {offset}, not at one of {[one.offset for one in possible]}",
        )
        self.acknowledged(place, found[-1])


class Outcome(Enum):
    OPEN = "open"
    UNKNOWN = "unknown"
    """A request to commit it has arrived."""
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True, eq=False)
class Transaction:
    """One transaction of one producer."""

    serial: int
    transactional_id: str
    life: int
    """Of its producer."""
    outcome: Outcome = Outcome.OPEN
    values: dict[str, int] = field(default_factory=dict)
    """The partition of each value that may have been written."""
    acknowledged: set[str] = field(default_factory=set)
    offset: int | None = None
    """The offset that it commits for its group, if that was acknowledged."""
    offset_is_unknown: bool = False

    def decide(self, outcome: Outcome) -> None:
        """Raises Violation if it has the other outcome."""
        other = Outcome.ABORTED if outcome is Outcome.COMMITTED else Outcome.COMMITTED
        demand("a_transaction_has_one_outcome", self.outcome is not other, f"{self.serial} of {self.transactional_id}")
        self.outcome = outcome


class Transactions:
    """All transactions, and which producers are fenced."""

    def __init__(self) -> None:
        self.all: list[Transaction] = []
        self.of_value: dict[str, Transaction] = {}
        self.newest: dict[str, int] = {}
        """By transactional id: the life of the last producer whose InitProducerId was acknowledged. Lives are numbered
        in the order in which the coordinator got the requests."""
        self._lives = 0

    def next_life(self) -> int:
        self._lives += 1
        return self._lives

    def begin(self, transactional_id: str, life: int) -> Transaction:
        found = Transaction(len(self.all), transactional_id, life)
        self.all.append(found)
        return found

    def writes(self, transaction: Transaction, value: str, partition: int) -> None:
        transaction.values[value] = partition
        self.of_value[value] = transaction

    def initialized(self, transactional_id: str, life: int) -> None:
        """A producer has its id: the transactions of former ones are decided."""
        self.newest[transactional_id] = max(life, self.newest.get(transactional_id, 0))
        for transaction in self.all:
            is_former = transaction.transactional_id == transactional_id and transaction.life < life
            if is_former and transaction.outcome is Outcome.OPEN:
                transaction.outcome = Outcome.ABORTED

    def is_fenced(self, transactional_id: str, life: int) -> bool:
        return self.newest.get(transactional_id, 0) > life
