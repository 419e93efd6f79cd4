"""How the server calls the create-topic policy: once per topic, one call at a time, and the effect of its results."""

import threading

import trio
import trio.testing
from trio.testing import MockClock

from klamm.controller.topic_policy import Judgement, RequestedTopic
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.topics import create_topics
from tests.server.harness import Peer, open_test_server, settled

REFUSED = ApiError(ErrorCode.POLICY_VIOLATION, "not here")


class Policy:
    """Refuses topics named no-…, raises an error for bad-…, and stores its arguments and the number of simultaneous
    calls."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.most_at_once = 0
        self._running = 0
        self._lock = threading.Lock()
        self.may_go_on = threading.Event()

    def __call__(self, topic: RequestedTopic) -> Judgement:
        with self._lock:
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
            self.asked.append(topic.topic_name)
        self.may_go_on.wait(10)
        with self._lock:
            self._running -= 1
        if topic.topic_name.startswith("bad-"):
            return Judgement(REFUSED, ZeroDivisionError("planted"))
        return Judgement(REFUSED if topic.topic_name.startswith("no-") else None)


def request(*names: str) -> create_topics.CreateTopicsRequest:
    topics = [create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return create_topics.CreateTopicsRequest(topics=topics, timeout_ms=1_000)


async def created(peer: Peer, *names: str) -> list[int]:
    answer = await peer.ask(create_topics.API, 7, request(*names))
    return [topic.error_code for topic in answer.topics]


async def test_each_topic_of_a_request_is_judged_once_and_answered_by_its_verdict() -> None:
    policy = Policy()
    policy.may_go_on.set()
    async with open_test_server(judge_topic=policy) as running:
        peer = running.connect_in_memory()
        names = ("a", "no-b", "c", "bad-d")
        expected = [0, ErrorCode.POLICY_VIOLATION, 0, ErrorCode.POLICY_VIOLATION]
        assert await created(peer, *names) == expected
        assert policy.asked == list(names)
        assert list(running.controller.image.topics_by_name) == ["a", "c"]
        reported = running.stderr.getvalue()
        assert "the create-topic policy gave no verdict" in reported
        assert "topic_name=bad-d" in reported
        # The next request asks again about a refused topic, and does not ask about one that exists.
        assert await created(peer, "a", "no-b") == [ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.POLICY_VIOLATION]
        assert policy.asked == [*names, "no-b"]


async def test_one_call_runs_at_a_time_and_others_are_served_meanwhile(mock_clock: MockClock) -> None:
    policy = Policy()
    async with open_test_server(judge_topic=policy) as running, trio.open_nursery() as nursery:
        results: list[list[int]] = []

        async def ask(name: str) -> None:
            results.append(await created(running.connect_in_memory(), name))

        for name in ("a", "b", "c"):
            nursery.start_soon(ask, name)
        await settled(lambda: len(policy.asked) == 1)
        await trio.testing.wait_all_tasks_blocked()
        assert await running.connect_in_memory().is_served()
        assert len(policy.asked) == 1, "the others wait"
        policy.may_go_on.set()
        await settled(lambda: len(results) == 3)
        assert results == [[0]] * 3
        assert sorted(policy.asked) == ["a", "b", "c"]
        assert policy.most_at_once == 1
