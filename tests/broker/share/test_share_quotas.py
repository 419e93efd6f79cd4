"""How the quotas of a client throttle its ShareFetch requests (Kafka: KafkaApis.processShareFetchResponse)."""

from dataclasses import replace
from typing import Any

import pytest

from klamm.protocol.codec.requests import encode_response
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.configs.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from klamm.protocol.messages.shares import share_fetch
from tests.broker.groups.conversation import Asked, Conversation
from tests.broker.share.fetching import ACCEPT, RELEASE, Fetcher, begin, produce
from tests.broker.share.members import LOCK_MS, new_conversation

FULL_WINDOWS_SECONDS = 10
"""The windows of one second that count at once; the eleventh has just begun."""
REQUEST_THROTTLE_MS = 700
VERSION = 2


@pytest.fixture
def group() -> Conversation:
    return new_conversation()


def set_rate(group: Conversation, bytes_per_second: int | None) -> None:
    entity = [EntityData(entity_type="user", entity_name="ANONYMOUS")]
    remove = bytes_per_second is None
    op = OpData(key="consumer_byte_rate", value=float(bytes_per_second or 0), remove=remove)
    answer = group.cluster.ask(AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[op])]))
    assert answer.entries[0].error_code == 0


def acquired(answer: Any) -> list[tuple[int, int]]:
    return [
        (one.first_offset, one.last_offset)
        for topic in answer.responses
        for partition in topic.partitions
        for one in partition.acquired_records
    ]


def size_of(answer: Any) -> int:
    """What counts: the body, and four bytes for its length."""
    return len(encode_response(share_fetch.API, VERSION, 0, answer)) - 5 + 4


def submit(member: Fetcher, request: Any = None, request_throttle_ms: int = 0) -> Asked:
    """A request of the next epoch."""
    call = member.group.cluster.call(request or member.fetch_request(), version=VERSION, broker_id=member.leader)
    call = replace(call, principal="User:ANONYMOUS", throttle_time_ms=request_throttle_ms)
    member.epoch += 1
    return Asked(member.group.cluster, call, member.group.cluster.controller.submit(call))


def ask(member: Fetcher, request: Any = None, request_throttle_ms: int = 0) -> Any:
    """The answer."""
    return submit(member, request, request_throttle_ms).response


def test_records_are_acquired_even_if_their_answer_is_throttled(group: Conversation) -> None:
    """As in Kafka: they come when the lock has expired, because bytes that were not sent do not count."""
    member = begin(group, 3)
    whole = ask(member)
    assert acquired(whole) == [(0, 2)]
    member.close()
    set_rate(group, (size_of(whole) - 1) // FULL_WINDOWS_SECONDS)
    answer = ask(member)
    assert (answer.error_code, answer.responses, answer.throttle_time_ms > 0) == (0, (), True)
    assert answer.acquisition_lock_timeout_ms == LOCK_MS
    other = Fetcher(group, "b")
    assert acquired(ask(other)) == [], "the client that got nothing has them"
    set_rate(group, None)
    group.pass_time(LOCK_MS)
    assert acquired(ask(member)) == [(0, 2)]


def test_bytes_within_the_rate_are_sent_and_count(group: Conversation) -> None:
    member = begin(group, 3)
    whole = ask(member)
    member.close()
    set_rate(group, size_of(whole) // FULL_WINDOWS_SECONDS + 1)
    answer = ask(member)
    assert (acquired(answer), answer.throttle_time_ms) == ([(0, 2)], 0)
    produce(group, 3)
    throttled = ask(member)
    assert throttled.throttle_time_ms > 0
    assert throttled.responses == ()


@pytest.mark.parametrize(("room", "last_offset"), [(0, 1), (10, 2)])
def test_at_most_the_bytes_of_all_windows_but_one_are_acquired(
    group: Conversation, room: int, last_offset: int
) -> None:
    member = begin(group, *[1] * 5)
    one_batch = len(ask(member, member.fetch_request(max_records=1)).responses[0].partitions[0].records)
    member.close()
    set_rate(group, (one_batch * 3 - 1 + room) // FULL_WINDOWS_SECONDS)
    ask(member)
    set_rate(group, None)
    assert acquired(ask(Fetcher(group, "b"))) == [(last_offset + 1, 4)]


def test_a_throttled_answer_says_what_became_of_acknowledgements(group: Conversation) -> None:
    member = begin(group, 2)
    assert acquired(ask(member)) == [(0, 1)]
    produce(group, 2)
    set_rate(group, 1)
    answer = ask(member, member.fetch_request([(0, 0, [ACCEPT]), (1, 1, [RELEASE])]))
    assert answer.throttle_time_ms > 0
    (partition,) = answer.responses[0].partitions
    assert (partition.error_code, partition.acknowledge_error_code, partition.records) == (0, 0, b"")
    assert partition.acquired_records == ()


def test_a_request_that_another_quota_throttles_gets_no_records_and_its_bytes_do_not_count(
    group: Conversation,
) -> None:
    member = begin(group, 3)
    whole = ask(member)
    member.close()
    set_rate(group, size_of(whole) // FULL_WINDOWS_SECONDS + 1)
    answer = ask(member, request_throttle_ms=REQUEST_THROTTLE_MS)
    assert (answer.responses, answer.throttle_time_ms) == ((), REQUEST_THROTTLE_MS)
    group.pass_time(LOCK_MS)
    answer = ask(member)
    assert (acquired(answer), answer.throttle_time_ms) == ([(0, 2)], 0)


def test_a_request_quota_throttles_without_a_byte_rate(group: Conversation) -> None:
    member = begin(group, 3)
    entity = [EntityData(entity_type="client-id", entity_name="somebody else")]
    op = OpData(key="request_percentage", value=1.0, remove=False)
    group.cluster.ask(AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[op])]))
    answer = ask(member, request_throttle_ms=REQUEST_THROTTLE_MS)
    assert (answer.responses, answer.throttle_time_ms) == ((), REQUEST_THROTTLE_MS)


def test_a_session_shows_partitions_again_that_a_throttled_answer_did_not(group: Conversation) -> None:
    member = begin(group)
    set_rate(group, 1)
    topics = member.fetch_request().topics
    first = ask(member, member.fetch_request(topics=topics, epoch=0))
    assert (first.throttle_time_ms > 0, first.responses) == (True, ())
    forgotten = [share_fetch.ForgottenTopic(topic_id=member.topic_id, partitions=[0])]
    assert ask(member, member.fetch_request(forgotten_topics_data=forgotten)).error_code == 0
    assert ask(member, member.fetch_request(topics=topics)).responses == (), "added, and throttled"
    set_rate(group, None)
    assert [one.partition_index for one in ask(member).responses[0].partitions] == [0]
    assert ask(member).responses == (), "it was shown"


def test_a_session_that_has_had_another_request_is_throttled_with_its_error(group: Conversation) -> None:
    member = begin(group)
    ask(member)
    set_rate(group, 1)
    waiting = submit(member, member.fetch_request(max_wait_ms=1_000))
    assert waiting.is_waiting
    assert ask(member).error_code == 0
    produce(group, 1)
    answer = waiting.response
    assert answer.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert (answer.responses, answer.throttle_time_ms > 0) == ((), True)
