"""Calls the create-topic policy in a thread, one topic at a time, while the event loop serves other requests.

The function called never raises and returns within its own timeout; `klamm.cluster.topic_policy` ensures that. If the
policy fails, the failure is logged and the topic is refused.
"""

from collections.abc import Callable

import trio

from klamm.controller.topic_policy import Judgement, RequestedTopic
from klamm.protocol.errors import ApiError
from klamm.server.event_log import EventLog

Judge = Callable[[RequestedTopic], Judgement]


class PolicyAsker:
    """Calls the policy of one cluster from the event loop."""

    def __init__(self, judge: Judge, events: EventLog) -> None:
        self._judge = judge
        self._events = events
        # Kafka's controller calls the policy from one thread, so policies need not be thread-safe.
        self._one_at_a_time = trio.CapacityLimiter(1)

    async def judge(self, topic: RequestedTopic) -> ApiError | None:
        """Why the topic may not be created or altered; None if it may."""
        judgement = await trio.to_thread.run_sync(
            self._judge, topic, abandon_on_cancel=True, limiter=self._one_at_a_time
        )
        if judgement.failure is not None:
            self._events.exception_rarely(
                "the create-topic policy gave no verdict", judgement.failure, topic_name=topic.topic_name
            )
        return judgement.refusal
