"""What group coordinators and leaders of partitions ask the share coordinator about one share partition.

A question is a value, because the coordinator may be here, where the question runs on its state machine, or on a real
broker, to which it goes as a request (`klamm.broker.share_state.remote`).
"""

from typing import Protocol

from klamm.broker.coordinator.outbox import Outbox, Waiter
from klamm.broker.share_state.offset import NO_EPOCH, SharePartitionKey
from klamm.broker.share_state.states import ShareStates, StateWrite
from klamm.quick_dataclasses import dataclass


class Question(Protocol):
    """One of the questions below."""

    def run(self, states: ShareStates, key: SharePartitionKey, waiter: Waiter, now_ms: int) -> Outbox:
        """Ask a state machine. The waiter gets its answer."""


@dataclass(frozen=True, slots=True)
class Initialize:
    """A group begins to read the partition. The answer is `DONE` or an `ApiError`."""

    state_epoch: int
    start_offset: int

    def run(self, states: ShareStates, key: SharePartitionKey, waiter: Waiter, now_ms: int) -> Outbox:
        return states.initialize(key, self.state_epoch, self.start_offset, waiter, now_ms)


@dataclass(frozen=True, slots=True)
class Read:
    """A leader takes the share partition over. The answer is a `ShareGroupOffset` or an `ApiError`."""

    leader_epoch: int

    def run(self, states: ShareStates, key: SharePartitionKey, waiter: Waiter, now_ms: int) -> Outbox:
        return states.read(key, self.leader_epoch, waiter, now_ms)


@dataclass(frozen=True, slots=True)
class Write:
    """A leader has new state. The answer is `DONE` or an `ApiError`."""

    state: StateWrite

    def run(self, states: ShareStates, key: SharePartitionKey, waiter: Waiter, now_ms: int) -> Outbox:
        return states.write(key, self.state, waiter, now_ms)


@dataclass(frozen=True, slots=True)
class Summarize:
    """Where the group is. The answer is a `ShareGroupOffset` without batches, or an `ApiError`."""

    leader_epoch: int = NO_EPOCH

    def run(self, states: ShareStates, key: SharePartitionKey, waiter: Waiter, _now_ms: int) -> Outbox:
        return states.summarize(key, waiter)


@dataclass(frozen=True, slots=True)
class Delete:
    """The state is forgotten. The answer is `DONE` or an `ApiError`."""

    def run(self, states: ShareStates, key: SharePartitionKey, waiter: Waiter, _now_ms: int) -> Outbox:
        return states.delete(key, waiter)
