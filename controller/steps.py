"""Long decisions in steps: other requests are served between two steps (decision 9)."""

from collections.abc import Generator, Iterator
from typing import TypeAlias

from klamm.controller.log_records import Records
from klamm.controller.outcome import Outcome
from klamm.protocol.fields import Message

ITEMS_AT_ONCE = 100
"""New topics, or changes of partitions, that one step decides one by one. They take 2 to 4 ms on a laptop, so that no
other request waits long. A hundred columns count as one."""
COLUMNS_PER_ITEM = 100

Steps: TypeAlias = Generator[None, None, Outcome]
"""A decision that pauses at each `yield`: other requests are served meanwhile, but none changes the image."""


def run_whole(decision: Outcome | Steps) -> Outcome:
    """Run all steps of the decision without a pause."""
    if isinstance(decision, Outcome):
        return decision
    while True:
        try:
            next(decision)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome


def in_pieces(records: Records, at_once: int) -> Iterator[Records]:
    """The same records in pieces of about `at_once` records, or of one long run."""
    begin = cost = 0
    for end, record in enumerate(records):
        if cost >= at_once:
            yield records[begin:end]
            begin, cost = end, 0
        cost += 1 if isinstance(record, Message) else 1 + len(record) // COLUMNS_PER_ITEM
    yield records[begin:]
