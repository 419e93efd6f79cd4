"""How group coordinators and leaders of partitions reach the coordinator of a share partition.

Kafka's brokers send requests to each other for this (`PersisterStateManager`). Simulated brokers share a process, so
their shards are asked here; a coordinator on a real broker gets a request. While no broker coordinates the partition,
or the coordinator does not answer or is loading, it is asked again.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from klamm.broker.coordinator.answer import Step
from klamm.broker.coordinator.coordinators import Coordinators
from klamm.broker.coordinator.shard import Shard
from klamm.broker.outgoing import Outgoing
from klamm.broker.share_state.offset import SharePartitionKey
from klamm.broker.share_state.questions import Question
from klamm.broker.share_state.remote import RemoteStates
from klamm.controller.metadata.image import MetadataImage
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.internal_topics import SHARE_GROUP_STATE

Answered: TypeAlias = Callable[[MetadataImage, object, int], None]
"""Called with the image, the answer (an `ApiError` if it is one), and the time in ms."""
Finished: TypeAlias = Callable[[MetadataImage, dict[SharePartitionKey, object], int], None]
"""The same for several questions, with the answers by share partition."""
ATTEMPTS: Final = 5
"""Kafka's MAX_FIND_COORD_ATTEMPTS."""
FIRST_BACKOFF_MS: Final = 1_000
"""Doubles with each attempt, as Kafka's REQUEST_BACKOFF_MS does."""
MAX_WAITING: Final = 100_000
"""Questions that wait to be asked again. Kafka has no such limit. More fail at once."""
ASKED_AT_ONCE: Final = 100
"""Questions of `ask_all` that one step asks, about 10 ms of work."""
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)


@dataclass(slots=True)
class _Asked:
    key: SharePartitionKey
    question: Question
    answered: Answered
    wait_on: Callable[[Shard], None]
    attempts: int = 0
    ask_again_ms: int = 0


class Persister:
    """Asks the coordinators of share partitions."""

    def __init__(
        self,
        coordinators: Coordinators,
        outgoing: Outgoing,
        image: Callable[[], MetadataImage],
        clock_ms: Callable[[], int],
    ) -> None:
        self._coordinators = coordinators
        self._remote = RemoteStates(outgoing)
        self._image = image
        self._clock_ms = clock_ms
        self._waiting: deque[_Asked] = deque()
        self._in_steps: dict[str, deque[Iterator[_Asked]]] = {}
        """By group: what `ask_all` has not asked yet, in its order. Groups take turns."""

    def ask(
        self,
        key: SharePartitionKey,
        question: Question,
        answered: Answered,
        wait_on: Callable[[Shard], None] = lambda _: None,
    ) -> None:
        """Ask where `key` is coordinated. `answered` may be called before this returns; `wait_on` notes the shard on
        which the answer depends, if it is in this process."""
        self._ask(_Asked(key, question, answered, wait_on))

    def ask_all(
        self,
        questions: Mapping[SharePartitionKey, Question],
        finished: Finished,
        wait_on: Callable[[Shard], None] = lambda _: None,
    ) -> None:
        """Ask about all share partitions of one group, at least one, and call `finished` with all answers. Beyond
        `ASKED_AT_ONCE` the questions are asked in steps (`work`), behind those that the group has left already."""
        answers = Answers(len(questions), finished)
        left = (_Asked(key, question, answers.of(key), wait_on) for key, question in questions.items())
        group_id = next(iter(questions)).group_id
        if group_id in self._in_steps:
            self._in_steps[group_id].append(left)
            return
        self._ask_some(left)
        if len(questions) > ASKED_AT_ONCE:
            self._in_steps.setdefault(group_id, deque()).appendleft(left)

    def _ask_some(self, questions: Iterable[_Asked]) -> bool:
        """Whether there were as many as one step asks."""
        some = list(islice(questions, ASKED_AT_ONCE))
        for asked in some:
            self._ask(asked)
        return len(some) == ASKED_AT_ONCE

    @property
    def has_work(self) -> bool:
        """Whether `work` has something to do."""
        return bool(self._in_steps)

    def work(self) -> None:
        """Ask the next questions of one group. To be called until `has_work` is False, with others' work between two
        calls."""
        if not self._in_steps:
            return
        group_id, waiting = next(iter(self._in_steps.items()))
        if not self._ask_some(waiting[0]):
            waiting.popleft()
        del self._in_steps[group_id]
        if waiting:
            self._in_steps[group_id] = waiting

    def tick(self) -> None:
        """Ask again what is due."""
        now_ms = self._clock_ms()
        for _ in range(len(self._waiting)):
            asked = self._waiting.popleft()
            if asked.ask_again_ms > now_ms:
                self._waiting.append(asked)
            else:
                self._ask(asked)

    @property
    def next_due_ms(self) -> int | None:
        """When `tick` has something to do. None: nothing waits."""
        return min((asked.ask_again_ms for asked in self._waiting), default=None)

    def _ask(self, asked: _Asked) -> None:
        image, now_ms, key = self._image(), self._clock_ms(), str(asked.key)
        asked.attempts += 1
        leader = self._coordinators.leader_of(image, SHARE_GROUP_STATE, key)
        if leader in image.brokers.real:
            self._remote.ask(leader, asked.key, asked.question, lambda answer: self._answered_afar(asked, answer))
            return
        step = Step(
            resolved=lambda answer: asked.answered(self._image(), answer, self._clock_ms()),
            refused=lambda code: self._refused(asked, ApiError(code)),
            wait_on=asked.wait_on,
        )
        where = SHARE_GROUP_STATE, key, leader
        self._coordinators.submit(
            image, where, step, lambda states: asked.question.run(states, asked.key, step, now_ms), now_ms
        )

    def _answered_afar(self, asked: _Asked, answer: object) -> None:
        if isinstance(answer, ApiError):
            self._refused(asked, answer)
        else:
            asked.answered(self._image(), answer, self._clock_ms())

    def _refused(self, asked: _Asked, error: ApiError) -> None:
        if error.code not in _RETRIABLE or asked.attempts >= ATTEMPTS or len(self._waiting) >= MAX_WAITING:
            asked.answered(self._image(), error, self._clock_ms())
            return
        asked.ask_again_ms = self._clock_ms() + (FIRST_BACKOFF_MS << (asked.attempts - 1))
        self._waiting.append(asked)


class Answers:
    """Collects the answers of several questions."""

    def __init__(self, count: int, finished: Finished) -> None:
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
