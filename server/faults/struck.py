"""What rules do to one request: the sum of their effects, and how its request and its answer are changed by them."""

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Final

from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass
from klamm.server.faults.counting import RuleState
from klamm.server.faults.paths import JsonPath, with_value
from klamm.server.faults.refusals import Merge, replaced, without
from klamm.server.faults.rule import AnswerFault, Asked
from klamm.server.faults.shapes import Shape, in_version
from klamm.server.faults.subjects import Item, Place, items_of

LONGEST_DELAY_MS: Final = 600_000
"""The delays of all rules that hit one request together last at most ten minutes."""
WAITS: Final = "max_wait_ms"
"""The field that says how long an answer may wait for data. A Fetch with a refused partition is answered at once, as in
Kafka, whose brokers answer when one partition has an error."""


@dataclass(slots=True)
class Refusals:
    """Items that are refused, with the rules that refuse them."""

    codes: dict[Place, ErrorCode] = field(default_factory=dict)
    rules: dict[Place, str] = field(default_factory=dict)

    def add(self, items: Sequence[Item], state: RuleState, code: ErrorCode) -> None:
        for item in items:
            self.codes[item.place] = code
            self.rules[item.place] = state.rule_id


class Struck:
    """The effects of all rules that hit one request."""

    def __init__(self, asked: Asked, shape: Shape, topic_name: Callable[[Uuid], str | None]) -> None:
        self.asked = asked
        self.shape = shape
        self.topic_name = topic_name
        self.rule_ids: list[str] = []
        """The rules that hit, in order, those that only observe included."""
        self.before, self.after = Refusals(), Refusals()
        self.whole: tuple[ErrorCode, RuleState] | None = None
        """The error that refuses the whole request."""
        self.whole_after = False
        self.delay_before_ms = self.delay_after_ms = 0.0
        self.throttle_time_ms: int | None = None
        self.answer: AnswerFault | None = None
        self.answer_after = False
        self.answer_by: RuleState | None = None
        self.sets: list[tuple[JsonPath, Any]] = []
        self.stale: Any = None
        self.deferred: list[RuleState] = []
        """Rules about items of a request for all there are: the response has them."""

    @property
    def ends_before(self) -> bool:
        """Whether the request is not done, because its connection is silent or closed from now on."""
        return self.answer in ("none", "close") and not self.answer_after

    @property
    def changes_answer(self) -> bool:
        """Whether the message of the answer is another one than the handler's."""
        return bool(
            self.before.codes or self.after.codes or self.throttle_time_ms or self.sets or self.deferred
            or (self.whole and self.whole_after) or self.answer == "flipped_batch"
        )  # fmt: skip

    def request(self) -> Message:
        """The request without what is refused before it is done."""
        request = self.asked.request
        if self.before.codes:
            request = without(request, self.shape.request, self.before.codes)
            if hasattr(request, WAITS):
                setattr(request, WAITS, 0)
        return request

    def answered(self, response: Message, take: Callable[[RuleState, Sequence[Item]], bool]) -> Message:
        """The response, changed by the rules. `take` counts a hit of a deferred rule and its items."""
        response = self._with_refusals(response, take)
        version = self.asked.api_version
        if self.throttle_time_ms is not None and "throttle_time_ms" in in_version(type(response), version):
            response.throttle_time_ms = self.throttle_time_ms  # type: ignore[attr-defined]
        for path, value in self.sets:
            response = with_value(response, path, value)
        return response

    def _with_refusals(self, response: Message, take: Callable[[RuleState, Sequence[Item]], bool]) -> Message:
        asked, shape = self.asked, self.shape
        for refusals, done in ((self.before, False), (self.after, True)):
            if refusals.codes:
                merge = Merge(shape, asked.api_version, refusals.codes, refusals.rules, self.topic_name, done=done)
                response = merge.into(asked.request, response)
        if not self.deferred:
            return response
        refusals, items = Refusals(), items_of(response, shape.response, self.topic_name)
        for state in self.deferred:
            left = [item for item in items if item.place not in refusals.codes]
            mine = [item for item in left if state.rule.matches_item(item.subject)]
            if mine and take(state, mine):
                assert state.rule.error is not None, "only errors are deferred"
                refusals.add(mine, state, state.rule.error)
                self.rule_ids.append(state.rule_id)
        if not refusals.codes:
            return response
        return replaced(response, shape.response, refusals.codes, refusals.rules, asked.api_version)
