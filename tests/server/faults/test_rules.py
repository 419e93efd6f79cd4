"""Rules on their own: what matches, how hits are counted, in which order rules apply, and what is refused as a rule."""

from typing import Any

import pytest

from klamm.controller.client import Client
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data import fetch, produce
from klamm.protocol.messages.groups import heartbeat
from klamm.protocol.messages.topics import metadata
from klamm.server.faults.reading import read_rule
from klamm.server.faults.rule import Asked
from klamm.server.faults.rules import MAX_RULES, FaultRules, NoSuchRule, RuleRefused
from klamm.server.faults.struck import Struck

CLIENT = Client("broker", 2, software_name="librdkafka", software_version="2.5.0", listener_name="INSIDE")


class Book:
    """Rules with a clock of the test."""

    def __init__(self, *rules: dict[str, Any], seed: int = 7) -> None:
        self.now_ms = 1_000
        self.rules = FaultRules(seed, lambda: self.now_ms, lambda _: None, object)
        self.states = [self.rules.add(read_rule(rule)) for rule in rules]

    def strike(self, request: Any = None, version: int = 9) -> Struck | None:
        request = request or wrote("orders", 0)
        api = {produce.ProduceRequest: produce.API, heartbeat.HeartbeatRequest: heartbeat.API,
               metadata.MetadataRequest: metadata.API, fetch.FetchRequest: fetch.API}[type(request)]  # fmt: skip
        if not self.rules.concern(api.key):
            return None
        return self.rules.strike(Asked(api, version, request, CLIENT, "app-1"), 5)

    def hits(self, times: int) -> list[int]:
        """Which of so many equal requests are hit."""
        return [number for number in range(1, times + 1) if self.strike() is not None]


def wrote(topic_name: str, *partitions: int, transactional_id: str | None = None) -> produce.ProduceRequest:
    data = [produce.PartitionProduceData(index=index, records=b"") for index in partitions]
    topic = produce.TopicProduceData(name=topic_name, partition_data=data)
    return produce.ProduceRequest(acks=-1, topic_data=[topic], transactional_id=transactional_id)


MATCHING: list[tuple[dict[str, Any], bool]] = [
    ({"api": "Produce"}, True),
    ({"api": ["Fetch", "Produce"]}, True),
    ({"api": "Fetch"}, False),
    ({"api": "Produce", "versions": "3-8"}, False),
    ({"api": "Produce", "versions": "9-9"}, True),
    ({"api": "Produce", "versions": 9}, True),
    ({"broker": 2}, True),
    ({"broker": [1, 3]}, False),
    ({"listener": "INSIDE"}, True),
    ({"listener": "OUT*"}, False),
    ({"client_id": "app-?"}, True),
    ({"client_id": "app-1"}, True),
    ({"client_id": "APP-1"}, False),
    ({"client_id": "*-2"}, False),
    ({"software_name": "librd*"}, True),
    ({"software_version": "2.5.?"}, True),
    ({"software_version": "2.5"}, False),
    ({"principal": "User:ANONYMOUS"}, True),
    ({"principal": "User:bob"}, False),
    ({"topic": "orders"}, True),
    ({"topic": "ord*"}, True),
    ({"topic": "other"}, False),
    ({"partition": 0}, True),
    ({"partition": [1, 2]}, False),
    ({"topic": "orders", "partition": 1}, False),
    ({"transactional_id": "t"}, False),
    ({"group": "g"}, False),
    ({"api": "Produce", "where": {"acks": -1}}, True),
    ({"api": "Produce", "where": {"acks": 32767}}, False),
    ({"api": "Produce", "where": {"acks": 1}}, False),
    ({"api": "Produce", "where": {"topicData[0].name": "orders"}}, True),
    ({"api": "Produce", "where": {"topicData[1].name": "orders"}}, False),
    ({"api": "Produce", "where": {"topicData[*].partitionData[*].index": 0}}, True),
    ({"api": "Produce", "where": {"transactionalId": "t"}}, False),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "matches"), MATCHING, ids=[str(rule) for rule, _ in MATCHING])
def test_a_rule_matches_what_it_says(rule: dict[str, Any], matches: bool) -> None:
    book = Book(rule)
    assert (book.strike() is not None) == matches
    assert book.states[0].hits == matches


def test_a_rule_about_a_group_or_a_transaction_matches_requests_that_name_it() -> None:
    book = Book({"group": "g"}, {"transactional_id": "t*"})
    assert book.strike(heartbeat.HeartbeatRequest(group_id="g"), version=4) is not None
    assert book.strike(wrote("orders", 0, transactional_id="t-1")) is not None
    assert [state.hits for state in book.states] == [1, 1]


@pytest.mark.parametrize(
    ("count", "hits"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7]),
        ({"times": 2}, [1, 2]),
        ({"skip": 3}, [4, 5, 6, 7]),
        ({"skip": 1, "times": 1}, [2]),
        ({"every": 3}, [1, 4, 7]),
        ({"every": 3, "skip": 1}, [2, 5]),
        ({"every": 2, "times": 2, "skip": 1}, [2, 4]),
    ],
)
def test_hits_are_counted(count: dict[str, Any], hits: list[int]) -> None:
    assert Book({"api": "Produce", "error": "REQUEST_TIMED_OUT", **count}).hits(7) == hits


def test_a_rule_is_over_after_its_time() -> None:
    book = Book({"api": "Produce", "for_ms": 500})
    book.now_ms += 499
    assert book.strike() is not None
    book.now_ms += 1
    assert book.strike() is None
    assert book.states[0].is_over(book.now_ms)


def test_chance_is_the_rule_s_own_and_the_same_for_a_seed() -> None:
    rule = {"api": "Produce", "probability": 0.3}
    alone = Book(rule).hits(200)
    assert 30 < len(alone) < 90
    assert Book(rule).hits(200) == alone
    assert Book(rule, seed=8).hits(200) != alone
    both = Book(rule, {"api": "Produce", "topic": "x", "probability": 0.5})
    assert [number for number in range(1, 201) if (struck := both.strike()) and "fault-1" in struck.rule_ids] == alone


def test_an_item_is_refused_by_the_first_rule_and_a_rule_without_items_left_is_not_counted() -> None:
    book = Book(
        {"api": "Produce", "partition": 1, "error": "NOT_LEADER_OR_FOLLOWER"},
        {"api": "Produce", "error": "REQUEST_TIMED_OUT"},
        {"api": "Produce", "error": "KAFKA_STORAGE_ERROR"},
    )
    struck = book.strike(wrote("orders", 0, 1))
    assert struck is not None
    assert struck.before.codes == {(0, 1): ErrorCode.NOT_LEADER_OR_FOLLOWER, (0, 0): ErrorCode.REQUEST_TIMED_OUT}
    assert [state.hits for state in book.states] == [1, 1, 0]


def test_delays_add_up_and_the_first_answer_counts() -> None:
    book = Book({"delay_ms": 100}, {"delay_ms": {"min": 5, "max": 5}}, {"answer": "half"}, {"answer": "close"})
    struck = book.strike()
    assert struck is not None
    assert (struck.delay_before_ms, struck.answer) == (105, "half")
    assert [state.hits for state in book.states] == [1, 1, 1, 0]
    long = Book({"delay_ms": 600_000}, {"delay_ms": 600_000, "after": True}).strike()
    assert long is not None
    assert (long.delay_before_ms, long.delay_after_ms) == (600_000, 0)


@pytest.mark.parametrize("delay", [{"min": 10, "max": 20}, {"mean": 15}, {"mean": 15, "deviation": 2}])
def test_distributions_of_delays(delay: dict[str, int]) -> None:
    book = Book({"delay_ms": delay})
    drawn = [struck.delay_before_ms for _ in range(400) if (struck := book.strike())]
    assert 13 < sum(drawn) / 400 < 17
    assert len(set(drawn)) > 300
    assert min(drawn) >= 0


def test_a_request_for_all_topics_meets_rules_about_items_when_it_is_answered() -> None:
    book = Book({"api": "Metadata", "topic": "orders", "error": "LEADER_NOT_AVAILABLE"})
    struck = book.strike(metadata.MetadataRequest(topics=None))
    assert struck is not None
    assert (struck.deferred, struck.rule_ids) == (book.states, [])


def test_rules_are_removed_and_found() -> None:
    book = Book({"id": "mine", "api": "Produce"}, {"api": "Produce"})
    assert book.rules.find("mine") is book.states[0]
    with pytest.raises(NoSuchRule, match=r"there is no rule 'mien'; did you mean 'mine'\?"):
        book.rules.find("mien")
    book.rules.remove("mine")
    assert (book.states[0].is_removed, book.strike() is not None, book.states[0].hits) == (True, True, 0)
    assert book.rules.clear() == 1
    assert not book.rules.concern(produce.API.key)
    assert book.strike() is None


def test_an_exhausted_rule_costs_nothing_more() -> None:
    book = Book({"api": "Produce", "times": 1})
    assert book.hits(3) == [1]
    assert not book.rules.concern(produce.API.key)
    assert [state.rule_id for state in book.rules.all()] == ["fault-1"]


def test_rules_have_a_limit_and_distinct_ids() -> None:
    book = Book({"id": "fault-2", "api": "Fetch"})
    with pytest.raises(RuleRefused, match="there is a rule 'fault-2' already"):
        book.rules.add(read_rule({"id": "fault-2"}))
    assert [book.rules.add(read_rule({"api": "Fetch"})).rule_id for _ in range(2)] == ["fault-3", "fault-4"]
    for _ in range(MAX_RULES - 3):
        book.rules.add(read_rule({"api": "Heartbeat"}))
    with pytest.raises(RuleRefused, match="there are 2000 rules"):
        book.rules.add(read_rule({}))


def test_at_most_sixteen_rules_keep_stale_metadata() -> None:
    book = Book(*[{"stale_metadata": True}] * 16)
    with pytest.raises(RuleRefused, match="16 rules keep stale metadata"):
        book.rules.add(read_rule({"stale_metadata": True}))


BAD: list[tuple[Any, str]] = [
    ([], "an object is expected"),
    ({"topc": "a"}, "no member 'topc'; did you mean 'topic'?"),
    ({"api": "Prodcue"}, "api 'Prodcue' is not served here; did you mean 'Produce'?"),
    ({"api": "produce"}, "did you mean 'Produce'?"),
    ({"api": "SaslHandshake"}, "do not apply to authentication"),
    ({"api": []}, "a name or a list of names"),
    ({"api": 7}, "a name or a list of names"),
    ({"api": "Produce", "error": "NOT_LEADER"}, "error 'NOT_LEADER' is none of Kafka's; did you mean 'NOT_LEADER_OR"),
    ({"error": "NONE"}, "is none of Kafka's"),
    ({"error": 6}, "is none of Kafka's"),
    ({"versions": "3-9"}, "give api"),
    ({"api": "Produce", "versions": "20-30"}, "Produce has 0 to 13"),
    ({"api": "Produce", "versions": "9-3"}, "Produce has 0 to 13"),
    ({"api": "Produce", "versions": "new"}, "a version or a range"),
    ({"api": "Produce", "versions": True}, "a version or a range"),
    ({"broker": "2"}, "a number or a list"),
    ({"broker": [True]}, "whole number"),
    ({"broker": -1}, "whole number"),
    ({"topic": 7}, "a string of at most 256"),
    ({"client_id": "x" * 257}, "a string of at most 256"),
    ({"times": 0}, "from 1 to"),
    ({"times": 1.5}, "whole number"),
    ({"skip": -1}, "from 0 to"),
    ({"every": 0}, "from 1 to"),
    ({"for_ms": 10**15}, "from 1 to"),
    ({"probability": 0}, "above 0"),
    ({"probability": 1.1}, "above 0"),
    ({"probability": float("nan")}, "above 0"),
    ({"delay_ms": -1}, "milliseconds are expected"),
    ({"delay_ms": 600_001}, "600000 at most"),
    ({"delay_ms": float("inf")}, "milliseconds are expected"),
    ({"delay_ms": {"min": 5}}, "milliseconds are expected"),
    ({"delay_ms": {"min": 5, "max": 4}}, "max is smaller than min"),
    ({"throttle_time_ms": 600_001}, "from 1 to 600000"),
    ({"api": "WriteTxnMarkers", "throttle_time_ms": 5}, "no such field"),
    ({"answer": "halv"}, "did you mean 'half'?"),
    ({"error": "REQUEST_TIMED_OUT", "answer": "half"}, "error contradicts answer"),
    ({"error": "REQUEST_TIMED_OUT", "stale_metadata": True}, "error contradicts stale_metadata"),
    ({"whole": True}, "whole needs error"),
    ({"after": True}, "after needs error, answer or delay_ms"),
    ({"api": "Fetch", "stale_metadata": True}, "Fetch is not answered from metadata"),
    ({"api": "Metadata", "answer": "flipped_batch"}, "only Produce and Fetch"),
    ({"where": {"acks": 1}}, "give api"),
    ({"api": "Produce", "where": {"ack": 1}}, "no field 'ack'; did you mean 'acks'?"),
    ({"api": "Produce", "where": {"topicData.name": 1}}, "nothing below 'topicData'"),
    ({"api": "Produce", "where": {"acks[0]": 1}}, "'acks' is no array"),
    ({"api": "Produce", "where": {"acks.x": 1}}, "nothing below 'acks'"),
    ({"api": "Produce", "where": {"topicData[*]": 1}}, "leads to no single value"),
    ({"api": "Produce", "where": {"acks": [1]}}, "a string, a number or a boolean"),
    ({"api": "Produce", "where": {"topicData[x].name": 1}}, "is no name"),
    ({"api": "Produce", "where": {"acks": "x"}}, "where 'acks': 'x' is no int16"),
    ({"api": "Produce", "where": {"acks": True}}, "where 'acks': True is no int16"),
    ({"api": "Produce", "where": {"acks": 32768}}, "where 'acks': 32768 is no int16"),
    ({"api": "Produce", "where": {"topicData[*].name": 1}}, "where 'topicData[*].name': 1 is no"),
    ({"topic": ""}, "topic '': a name is expected"),
    ({"listener": ""}, "listener '': a name is expected"),
    ({"api": "Produce", "where": []}, "an object of paths"),
    ({"api": "Metadata", "set": {"controllerId": "one"}}, "is no int32"),
    ({"api": "Metadata", "set": {"controllerId": 2**31}}, "is no int32"),
    ({"api": "Metadata", "set": {"controlerId": 1}}, "did you mean 'controllerId'?"),
    ({"api": ["Metadata", "Fetch"], "set": {"throttleTimeMs": 1}}, "give one"),
    ({"api": "CreateTopics", "partition": 1}, "a request of CreateTopics names no partition"),
    ({"api": "Heartbeat", "topic": "a"}, "names no topic"),
    ({"api": "Metadata", "group": "a"}, "names no group"),
    ({"api": "Fetch", "transactional_id": "a"}, "names no transactional id"),
    ({"id": "a/b"}, "letters, digits, - and _"),
    ({"whole": "yes", "error": "REQUEST_TIMED_OUT"}, "true or false"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "reason"), BAD, ids=[str(form)[:60] for form, _ in BAD])
def test_what_is_no_rule_is_refused_with_the_reason(form: Any, reason: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the text is asserted below
        read_rule(form)
    assert reason in str(refused.value)
    assert len(str(refused.value)) < 500
    assert "\n" not in str(refused.value)
