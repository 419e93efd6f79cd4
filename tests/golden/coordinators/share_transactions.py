"""Scenarios of share groups that read records of transactions, which `record_share.py` sends to a real Apache Kafka 4.3
(README.md)."""

from collections.abc import Iterator

from tests.golden.coordinators.share_script import ACCEPT, GAP, RELEASE, A, B, Script

READ_COMMITTED = {"share.isolation.level": "read_committed"}


def transaction_scenarios() -> Iterator[tuple[str, Script]]:
    """All of them by name."""
    yield "share-read-committed", _committed()
    yield "share-interleaved-transactions", _interleaved()
    yield "share-open-transaction", _open()
    yield "share-isolation-changes", _changes()
    yield "share-aborted-again", _aborted_again()
    yield "share-read-uncommitted", _uncommitted()


class Producer:
    """A transactional producer of a script, which writes to partition 0 of `t~`."""

    def __init__(self, script: Script, name: str, number: int) -> None:
        self._script, self._id, self._pid = script, f"{name}~", f"$pid:{number}"
        self._sequence = 0
        script.ask(
            "find_coordinator",
            4,
            {"key_type": 1, "coordinator_keys": [self._id]},
            until={"coordinators.0.error_code": 0},
            volatile={"coordinators[].node_id": "nonneg"},
        )
        request = {"transactional_id": self._id, "transaction_timeout": 60000, "producer_id": -1, "producer_epoch": -1}
        script.ask(
            "init_producer_id",
            4,
            request,
            at=f"txn:{self._id}",
            until={"error_code": 0},
            binds={"producer_id": self._pid},
        )

    def write(self, *values: str) -> None:
        """One batch of a transaction, which begins with it."""
        fields = {
            "v3_and_below_transactional_id": self._id,
            "v3_and_below_producer_id": self._pid,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": "t~", "partitions": [0]}],
        }
        done = "results_by_topic_v3_and_below.0.results_by_partition.0.partition_error_code"
        self._script.ask("add_partitions_to_txn", 3, fields, at=f"txn:{self._id}", until={done: 0})
        self._script.produce(
            *values,
            transactional_id=self._id,
            producer_id=self._pid,
            producer_epoch=0,
            base_sequence=self._sequence,
        )
        self._sequence += len(values)

    def end(self, *, commit: bool) -> None:
        """The marker is written a little later."""
        fields = {"transactional_id": self._id, "producer_id": self._pid, "producer_epoch": 0}
        self._script.ask("end_txn", 3, {**fields, "committed": commit}, at=f"txn:{self._id}")
        self._script.sleep(300)


def _committed() -> Script:
    script = Script("Committed and aborted transactions between other records").begin(**READ_COMMITTED)
    one = Producer(script, "x", 1)
    script.produce("a")
    one.write("b", "c")
    one.end(commit=True)
    one.write("d", "e")
    one.end(commit=False)
    script.produce("f")
    script.join()
    script.first_fetch()
    script.ack((0, 2, [ACCEPT]), (3, 3, [GAP]), (4, 5, [ACCEPT]))
    script.ack((3, 3, [GAP]), (6, 6, [GAP]), (7, 7, [RELEASE]))
    script.fetch(max_wait=100)
    script.ack((7, 7, [ACCEPT]))
    script.fetch(max_wait=100)
    script.offsets()
    return script


def _interleaved() -> Script:
    script = Script("Transactions of two producers in turn, a few records at a time").begin(**READ_COMMITTED)
    one, two = Producer(script, "x", 1), Producer(script, "y", 2)
    one.write("a")
    two.write("b", "c")
    one.write("d")
    one.end(commit=False)
    one.write("e")
    two.end(commit=True)
    one.end(commit=True)
    script.join()
    script.first_fetch(max_records=1)
    script.fetch(max_records=2)
    script.fetch(max_records=1, share_acquire_mode=1)
    script.fetch(max_wait=100)
    script.ack((0, 8, [ACCEPT]))
    script.ack((1, 2, [ACCEPT]))
    script.fetch(max_wait=100)
    script.offsets()
    return script


def _open() -> Script:
    script = Script("Records behind the last stable offset wait for the end of a transaction").begin(**READ_COMMITTED)
    one = Producer(script, "x", 1)
    script.produce("a")
    one.write("b")
    script.produce("c")
    script.join()
    script.first_fetch()
    script.fetch(max_wait=100)
    script.offsets()
    one.end(commit=True)
    script.fetch()
    script.ack((0, 2, [ACCEPT]))
    one.write("d")
    script.produce("e")
    script.fetch(max_wait=100)
    one.end(commit=False)
    script.fetch()
    script.offsets()
    return script


def _changes() -> Script:
    script = Script("The isolation level of the group changes while records are in flight").begin()
    one = Producer(script, "x", 1)
    one.write("a", "b")
    script.produce("c")
    script.join()
    script.first_fetch()
    one.end(commit=False)
    script.ack((0, 2, [RELEASE]))
    script.config("share.isolation.level", "read_committed")
    script.fetch()
    script.fetch(max_wait=100)
    one.write("d")
    script.fetch(max_wait=100)
    script.config("share.isolation.level", "read_uncommitted")
    script.fetch()
    script.config("share.isolation.level", "repeatable_read")
    script.offsets()
    return script


def _aborted_again() -> Script:
    script = Script("An aborted batch of which a member has a part").begin(**{"share.auto.offset.reset": "earliest"})
    one = Producer(script, "x", 1)
    one.write(*"abcd")
    one.end(commit=False)
    script.produce(*"ef")
    script.join()
    script.first_fetch(max_records=2, share_acquire_mode=1)
    script.ack((0, 0, [RELEASE]))
    script.config("share.isolation.level", "read_committed")
    script.beat(B, 0, ["t~"], volatile={"assignment": "any"})
    script.fetch(B)
    script.ack((1, 1, [RELEASE]))
    script.fetch(B, max_wait=100)
    script.fetch(max_wait=100)
    script.fetch(B, epoch=-1, topics=[])
    script.fetch()
    return script


def _uncommitted() -> Script:
    script = Script("A group that reads uncommitted records gets those of open and aborted transactions").begin()
    one = Producer(script, "x", 1)
    one.write("a", "b")
    script.produce("c")
    script.join()
    script.first_fetch()
    one.end(commit=False)
    script.fetch()
    script.ack((0, 2, [ACCEPT]))
    script.fetch(A, [(3, 3, [GAP])], max_wait=100)
    script.offsets()
    return script
