"""The lines of requests that were refused without an error text, dropped, or ended by a bug in Klamm."""

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from klamm.controller.core import Answer, Call, Controller
from klamm.controller.long_decision import LongDecision
from klamm.controller.settings import Settings
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data import produce
from klamm.protocol.messages.topics import create_topics, metadata
from klamm.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from tests.broker.data.batches import batch
from tests.server.harness import create_topic, open_test_server, request_frame


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class FailsBehindItsRecords(Controller):
    """Fails after the records of a CreateTopics request are in the log."""

    def begin(self, call: Call, *, others_wait: bool = False) -> Answer | LongDecision:
        found = super().begin(call, others_wait=others_wait)
        if isinstance(found, Answer) and isinstance(call.request, CreateTopicsRequest):
            raise ZeroDivisionError("planted")
        return found

    def commit(self, decision: LongDecision) -> Answer:
        super().commit(decision)
        raise ZeroDivisionError("planted")


class InSteps(FailsBehindItsRecords):
    """Decides one topic per step."""

    items_at_once = 1


@pytest.mark.parametrize("controller_class", [FailsBehindItsRecords, InSteps], ids=["at once", "in steps"])
async def test_the_line_of_a_bug_tells_the_log_as_the_request_found_it(
    tmp_path: Path, autojump_clock: MockClock, controller_class: type[Controller]
) -> None:
    path = tmp_path / "requests.jsonl"
    async with open_test_server(request_log=path, controller_class=controller_class, has_bugs=True) as running:
        before = running.controller.log_end_offset
        topics = [CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1) for number in range(5)]
        request = CreateTopicsRequest(topics=topics, timeout_ms=1000)
        answer = await running.connect_in_memory().ask(create_topics.API, 7, request)
        assert {topic.error_code for topic in answer.topics} == {ErrorCode.UNKNOWN_SERVER_ERROR}
        assert running.controller.log_end_offset > before
        assert running.log.durable_offset == running.controller.log_end_offset, "the answer waited for the records"
    (line,) = read_lines(path)
    assert (line["log_end_offset"], line["record_offsets"]) == (before, None)
    assert [error["topic_name"] for error in line["errors"]] == [topic.name for topic in topics]


async def test_a_line_tells_why_a_topic_was_not_made_though_the_answer_has_no_place_for_it(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    settings = Settings(seed=1, static_configs={"default.replication.factor": "3"})
    async with open_test_server(request_log=path, settings=settings) as running:
        wanted = [metadata.MetadataRequestTopic(name=name) for name in ("wide", "no/slash")]
        request = metadata.MetadataRequest(topics=wanted, allow_auto_topic_creation=True)
        answer = await running.connect_in_memory().ask(metadata.API, 12, request)
        assert all(topic.error_code for topic in answer.topics)
    (line,) = read_lines(path)
    reported = {error["topic_name"]: error["error_message"] for error in line["errors"]}
    assert "replication" in reported["wide"].lower()
    assert reported.keys() == {"wide", "no/slash"}


async def test_a_line_tells_why_a_batch_was_refused_though_kafka_has_no_text_for_it(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with open_test_server(request_log=path) as running:
        peer = running.connect_in_memory()
        await peer.ask(create_topics.API, 7, create_topic("t"))
        partition = produce.PartitionProduceData(index=0, records=batch(crc=5))
        topic = produce.TopicProduceData(name="t", partition_data=[partition])
        request = produce.ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
        answer = await peer.ask(produce.API, 9, request)
        refused = answer.responses[0].partition_responses[0]
        assert (refused.error_code, refused.error_message) == (ErrorCode.CORRUPT_MESSAGE, None)
    *_, line = read_lines(path)
    assert [error["error_message"] for error in line["errors"]] == ["The checksum of the record batch is wrong."]


async def test_a_request_that_is_dropped_has_its_line_without_waiting_for_the_next_one(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """A producer with acks=0 learns of a refusal because its connection ends."""
    path = tmp_path / "requests.jsonl"
    async with open_test_server(request_log=path) as running:
        peer = running.connect_in_memory()
        partition = produce.PartitionProduceData(index=0, records=b"")
        topic = produce.TopicProduceData(name="nowhere", partition_data=[partition])
        request = produce.ProduceRequest(acks=0, timeout_ms=1000, topic_data=[topic])
        await peer.send(request_frame(produce.API, 9, 5, request))
        assert await peer.receive() is None
        await trio.sleep(1)
        (line,) = read_lines(path)
        assert (line["api"], line["correlation_id"], line["bytes_out"]) == ("Produce", 5, 0)
        assert [error["topic_name"] for error in line["errors"]] == ["nowhere"]


async def test_lines_are_as_short_as_json_can_be(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with open_test_server(request_log=path) as running:
        await running.connect_in_memory().ask(create_topics.API, 7, create_topic("no/slash"))
    text = path.read_text().rstrip("\n")
    assert text == json.dumps(json.loads(text), separators=(",", ":"))
