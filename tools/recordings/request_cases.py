"""Produce requests with several batches, of which Kafka cannot look at one, and with faults of the request itself."""

from collections.abc import Iterator
from dataclasses import dataclass

from tools.recordings.record_cases import CONTROL, NONE, TRANSACTIONAL, batch

ALL, NO_ACKS, WRONG_ACKS = -1, 0, 2


@dataclass(frozen=True)
class RequestCase:
    """One Produce request. `written` has topic, partition and batch."""

    name: str
    written: tuple[tuple[str, int, bytes], ...]
    acks: int = ALL
    api_version: int = 11
    transactional_id: str | None = None


def request_cases(now_ms: int) -> Iterator[RequestCase]:
    """Topics `one` and `two` have three partitions, `none` does not exist."""
    good = batch(1, NONE, now_ms)
    faults = {
        "a length of 5": batch(1, NONE, now_ms, length=5),
        "magic 3": batch(1, NONE, now_ms, magic=3),
        "magic -1": batch(1, NONE, now_ms, magic=-1),
        "magic 1": batch(1, NONE, now_ms, magic=1),
        "a length of 2^31-1": batch(1, NONE, now_ms, length=2**31 - 1),
        "a length of 2^31-12": batch(1, NONE, now_ms, length=2**31 - 12),
        "a length of 2^31-13": batch(1, NONE, now_ms, length=2**31 - 13),
        "no batch": b"",
        "two batches": good + good,
        "a length of 5 behind it": good + batch(1, NONE, now_ms, length=5),
        "magic 3 behind it": good + batch(1, NONE, now_ms, magic=3),
        "codec 6": batch(1, NONE, now_ms, attributes=6),
        "a wrong checksum": batch(1, NONE, now_ms, crc=3),
    }
    for name, fault in faults.items():
        yield RequestCase(f"{name} in the middle", (("one", 0, good), ("one", 1, fault), ("two", 0, good)))
        yield RequestCase(f"{name}, and an unknown topic", (("none", 0, good), ("one", 1, fault)))
        yield RequestCase(f"{name} in an unknown topic", (("one", 0, good), ("none", 0, fault)))
        yield RequestCase(f"{name} in an unknown partition", (("one", 7, fault), ("one", 0, good)))
        yield RequestCase(f"{name} and wrong acks", (("one", 0, fault), ("two", 0, good)), acks=WRONG_ACKS)
        yield RequestCase(f"{name} in version 3", (("one", 0, fault), ("two", 0, good)), api_version=3)
        yield RequestCase(f"{name} in an internal topic", (("__consumer_offsets", 0, fault), ("two", 0, good)))
        yield RequestCase(f"{name} without acks", (("one", 0, fault), ("two", 0, good)), acks=NO_ACKS)
    in_transaction = batch(1, NONE, now_ms, attributes=TRANSACTIONAL, producer_id=4, producer_epoch=0, base_sequence=0)
    corrupt = faults["a length of 5"]
    yield RequestCase("transactional, then corrupt", (("one", 0, in_transaction), ("one", 1, corrupt)))
    yield RequestCase("corrupt, then transactional", (("one", 0, corrupt), ("one", 1, in_transaction)))
    yield RequestCase("transactional without an id", (("one", 0, good), ("one", 1, in_transaction)))
    control = batch(1, NONE, now_ms, attributes=CONTROL)
    yield RequestCase("control records, wrong acks", (("one", 0, control), ("one", 1, good)), acks=WRONG_ACKS)
