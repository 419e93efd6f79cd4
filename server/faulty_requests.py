"""The two places where simulated faults enter the path of a request: before it is decided, and when it is answered.

What the rules do is in `klamm.server.faults`; here their effects meet the controller, the clock and the connection.
A request that no rule hits passes neither place.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial

import trio

from klamm.controller.core import Answer, Controller
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.replay import replay
from klamm.controller.metadata.snapshot import copy_image, snapshot_batches
from klamm.protocol.codec.requests import decode_response
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.data.fetch import API as FETCH
from klamm.protocol.messages.data.produce import API as PRODUCE
from klamm.protocol.uuid import Uuid
from klamm.server.bug_answers import refuse_all
from klamm.server.faults import damage
from klamm.server.faults.counting import RuleState
from klamm.server.faults.rule import Asked
from klamm.server.faults.rules import FaultRules
from klamm.server.faults.struck import Struck
from klamm.server.pending_answer import Arrived, Decide, PendingAnswer
from klamm.server.reply import Reply

FULL_FETCH, WITHOUT_SESSION = 0, -1
"""Session epochs of a Fetch that names all partitions: to begin a session, and without one (KIP-227)."""


class FaultEnds(Exception):
    """A fault ends the answers of a connection: it is closed, or, if `silent_by` is given, stays open and silent until
    that rule is removed."""

    def __init__(self, silent_by: RuleState | None = None) -> None:
        super().__init__("a simulated fault")
        self.silent_by = silent_by


class LateAnswer:
    """An answer that a fault delays. Call `finish` before the connection's next request, as with a PendingAnswer."""

    def __init__(self, struck: Struck, go_on: Callable[[], "Reply | PendingAnswer | None"]) -> None:
        self._struck = struck
        self._go_on = go_on

    async def finish(self, hold: Callable[[int], None]) -> Reply | None:
        """Wait for the reply. If this is cancelled before the deed, the request has not happened."""
        await trio.sleep(self._struck.delay_before_ms / 1000)
        found = self._go_on()
        reply = await found.finish(hold) if isinstance(found, PendingAnswer) else found
        await trio.sleep(self._struck.delay_after_ms / 1000)
        return reply


class FaultyRequests:
    """Applies the rules to requests and answers."""

    def __init__(
        self,
        rules: FaultRules,
        controller: Controller,
        attempt: Callable[[Arrived, Decide], Reply | PendingAnswer | None],
        begin: Callable[[Arrived], Reply | PendingAnswer | None],
        log: Callable[[Arrived, Answer], None],
    ) -> None:
        """`attempt` and `begin` decide a request as the request path does; `log` writes a line about a
        request without an answer."""
        self.rules = rules
        self._controller = controller
        self._attempt = attempt
        self._begin = begin
        self._log = log

    def decide(self, arrived: Arrived) -> Reply | PendingAnswer | LateAnswer | None:
        """Decide a request that a rule may concern. Raises FaultEnds."""
        if arrived.call.api is FETCH and self.rules.refuse_items(FETCH.key):
            if arrived.call.request.session_epoch > FULL_FETCH:  # type: ignore[attr-defined]
                return self._attempt(arrived, partial(self._refused, arrived, ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
            arrived = _without_session(arrived)
        call = arrived.call
        asked = Asked(call.api, call.api_version, call.request, arrived.client, arrived.header.client_id)
        struck = self.rules.strike(asked, arrived.header.correlation_id)
        if struck is None:
            return self._begin(arrived)
        arrived = replace(arrived, call=replace(call, request=self._request(struck)), struck=struck)
        if struck.delay_before_ms or struck.delay_after_ms:
            return LateAnswer(struck, partial(self._go_on, arrived, struck))
        return self._go_on(arrived, struck)

    def altered(self, arrived: Arrived, struck: Struck, answer: Answer) -> Answer:
        """The answer that the client gets. Raises FaultEnds."""
        if answer.payload is not None and struck.changes_answer:
            answer = self._with_other_message(arrived, struck, answer)
        if answer.payload is None and struck.before.codes:
            raise self._end(arrived, None)  # as Kafka does if an error cannot be told (acks=0)
        if struck.answer in ("none", "close"):
            raise self._end(arrived, struck.answer_by if struck.answer == "none" else None, answer)
        return answer

    @staticmethod
    def reply(struck: Struck, reply: Reply) -> Reply:
        """The reply with the damage that the rules do to its bytes."""
        payload = reply.payload
        if struck.answer == "half":
            return replace(reply, payload=damage.half(payload), announced_bytes=len(payload), is_last=True)
        if struck.answer == "flipped_frame":
            return replace(reply, payload=damage.flip_frame(payload))
        if struck.answer == "other_correlation_id":
            return replace(reply, payload=damage.rename(payload))
        return reply

    def _request(self, struck: Struck) -> Message:
        request = struck.request()
        if struck.answer == "flipped_batch" and struck.asked.api is PRODUCE:
            return damage.flip_batch(request)
        return request

    def _go_on(self, arrived: Arrived, struck: Struck) -> Reply | PendingAnswer | None:
        if struck.ends_before:
            raise self._end(arrived, struck.answer_by if struck.answer == "none" else None)
        if struck.whole is not None and not struck.whole_after:
            return self._attempt(arrived, partial(self._refused, arrived, struck.whole[0]))
        if struck.stale is not None:
            return self._attempt(arrived, partial(self._controller.answer_from, struck.stale, arrived.call))
        return self._begin(arrived)

    def _refused(self, arrived: Arrived, error: ErrorCode) -> Answer:
        response = refuse_all(arrived.call, error)
        if response is None:  # the client expects no response, or there is none with an error code
            raise self._end(arrived, None)
        offset = self._controller.log_end_offset
        return Answer(response, offset, offset, None, payload=arrived.call.encoded(response))

    def _with_other_message(self, arrived: Arrived, struck: Struck, answer: Answer) -> Answer:
        call = arrived.call
        assert answer.payload is not None, "the caller has checked it"
        # From the bytes, because the columns of the message may view what has changed since.
        _, response = decode_response(call.api, call.api_version, bytes(answer.payload))
        if struck.whole is not None and struck.whole_after:
            response = refuse_all(replace(call, request=struck.asked.request), struck.whole[0]) or response
        response = struck.answered(response, self.rules.take(struck, arrived.header.correlation_id))
        if struck.answer == "flipped_batch":
            response = damage.flip_batch(response)
        return replace(answer, response=response, payload=call.encoded(response))

    def _end(self, arrived: Arrived, silent_by: RuleState | None, answer: Answer | None = None) -> FaultEnds:
        """Log a request without an answer; returns what to raise."""
        offset = self._controller.log_end_offset
        done = answer or Answer(None, offset, offset, None)
        self._log(arrived, replace(done, payload=None))
        return FaultEnds(silent_by)


def _without_session(arrived: Arrived) -> Arrived:
    """A Fetch that names all partitions, and begins no session: an incremental Fetch would not name those that a rule
    is about. A client whose session is not found sends such a Fetch."""
    request = copy(arrived.call.request)
    request.session_epoch = WITHOUT_SESSION  # type: ignore[attr-defined]
    return replace(arrived, call=replace(arrived.call, request=request))


def make_rules(controller: Controller, clock_ms: Callable[[], int], on_change: Callable[[], None]) -> FaultRules:
    """The fault rules of a server, none yet."""
    rules = FaultRules(controller.settings.seed, clock_ms, topic_names(controller), lambda: frozen(controller.image))
    rules.on_change = on_change
    return rules


def topic_names(controller: Controller) -> Callable[[Uuid], str | None]:
    """The function that finds the name of a topic."""

    def find(topic_id: Uuid) -> str | None:
        topic = controller.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    return find


def frozen(image: MetadataImage) -> MetadataImage:
    """A copy of the metadata that does not follow the log any more."""
    copied = MetadataImage()
    for batch in snapshot_batches(copy_image(image)):
        replay(copied, batch, 0)
    copied.next_offset = image.next_offset
    return copied
