"""Asks the create-topic policy in a thread, one topic at a time, while the event loop serves others.

What is asked never raises and comes back within a time of its own; `klamm.cluster.topic_policy` makes it so. A failure
of the policy is logged, and refuses the topic.
"""

from collections.abc import Callable

import trio

from klamm.controller.topic_policy import Judgement, RequestedTopic
from klamm.protocol.errors import ApiError
from klamm.server.event_log import EventLog

Judge = Callable[[RequestedTopic], Judgement]


class PolicyAsker:
    """The policy of one cluster, as the event loop sees it."""

    def __init__(self, judge: Judge, events: EventLog) -> None:
        self._judge = judge
        self._events = events
        # Kafka's controller asks from one thread; policies are written for that.
        self._one_at_a_time = trio.CapacityLimiter(1)

    async def judge(self, topic: RequestedTopic) -> ApiError | None:
        """Why the topic may not be made; None: it may."""
        judgement = await trio.to_thread.run_sync(
            self._judge, topic, abandon_on_cancel=True, limiter=self._one_at_a_time
        )
        if judgement.failure is not None:
            self._events.exception_rarely(
                "the create-topic policy gave no verdict", judgement.failure, topic_name=topic.topic_name
            )
        return judgement.refusal
