"""How group coordinators and leaders of partitions reach the coordinator of a share partition.

Kafka's brokers send requests to each other for this (`PersisterStateManager`). Simulated brokers share a process, so
the shard is asked here. While no broker coordinates the partition, or its shard is loading, it is asked again.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from klamm.broker.coordinator.answer import Step
from klamm.broker.coordinator.coordinators import Coordinators
from klamm.broker.coordinator.outbox import Outbox, Waiter
from klamm.broker.coordinator.shard import Shard
from klamm.broker.share_state.offset import SharePartitionKey
from klamm.broker.share_state.states import ShareStates
from klamm.controller.metadata.image import MetadataImage
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.internal_topics import SHARE_GROUP_STATE

StateOperation: TypeAlias = Callable[[ShareStates, Waiter, int], Outbox]
"""What to do on a shard: its state machine, the waiter to answer, the time in ms."""
Answered: TypeAlias = Callable[[MetadataImage, object, int], None]
"""Called with the image, the answer (an `ApiError` if it is one), and the time in ms."""
ATTEMPTS: Final = 5
"""Kafka's MAX_FIND_COORD_ATTEMPTS."""
FIRST_BACKOFF_MS: Final = 1_000
"""Doubles with each attempt, as Kafka's REQUEST_BACKOFF_MS does."""
MAX_WAITING: Final = 100_000
"""Questions that wait to be asked again. Kafka has no such limit. More fail at once."""
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)


@dataclass(slots=True)
class _Question:
    key: SharePartitionKey
    operation: StateOperation
    answered: Answered
    wait_on: Callable[[Shard], None]
    attempts: int = 0
    ask_again_ms: int = 0


class Persister:
    """Asks the coordinators of share partitions."""

    def __init__(
        self, coordinators: Coordinators, image: Callable[[], MetadataImage], clock_ms: Callable[[], int]
    ) -> None:
        self._coordinators = coordinators
        self._image = image
        self._clock_ms = clock_ms
        self._waiting: deque[_Question] = deque()

    def ask(
        self,
        key: SharePartitionKey,
        operation: StateOperation,
        answered: Answered,
        wait_on: Callable[[Shard], None] = lambda _: None,
    ) -> None:
        """Run an operation where `key` is coordinated. `answered` may be called before this returns; `wait_on` notes
        the shard on which the answer depends."""
        self._ask(_Question(key, operation, answered, wait_on))

    def tick(self) -> None:
        """Ask again what is due."""
        now_ms = self._clock_ms()
        for _ in range(len(self._waiting)):
            question = self._waiting.popleft()
            if question.ask_again_ms > now_ms:
                self._waiting.append(question)
            else:
                self._ask(question)

    @property
    def next_due_ms(self) -> int | None:
        """When `tick` has something to do. None: nothing waits."""
        return min((question.ask_again_ms for question in self._waiting), default=None)

    def _ask(self, question: _Question) -> None:
        image, now_ms, key = self._image(), self._clock_ms(), str(question.key)
        question.attempts += 1
        step = Step(
            resolved=lambda answer: question.answered(self._image(), answer, self._clock_ms()),
            refused=lambda code: self._refused(question, code),
            wait_on=question.wait_on,
        )
        leader = self._coordinators.leader_of(image, SHARE_GROUP_STATE, key)
        where = SHARE_GROUP_STATE, key, leader
        self._coordinators.submit(image, where, step, lambda states: question.operation(states, step, now_ms), now_ms)

    def _refused(self, question: _Question, code: ErrorCode) -> None:
        if code not in _RETRIABLE or question.attempts >= ATTEMPTS or len(self._waiting) >= MAX_WAITING:
            question.answered(self._image(), ApiError(code), self._clock_ms())
            return
        question.ask_again_ms = self._clock_ms() + (FIRST_BACKOFF_MS << (question.attempts - 1))
        self._waiting.append(question)


class Answers:
    """Collects the answers of several questions."""

    def __init__(
        self, count: int, finished: Callable[[MetadataImage, dict[SharePartitionKey, object], int], None]
    ) -> None:
        """`finished` is called with all answers, when the last one comes; `count` is at least 1."""
        self._missing = count
        self._finished = finished
        self._answers: dict[SharePartitionKey, object] = {}

    def of(self, key: SharePartitionKey) -> Answered:
        """What to call with the answer about one share partition."""

        def answered(image: MetadataImage, answer: object, now_ms: int) -> None:
            self._answers[key] = answer
            self._missing -= 1
            if not self._missing:
                self._finished(image, self._answers, now_ms)

        return answered
