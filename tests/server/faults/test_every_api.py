"""Every API, in every version: an item is refused and the others are answered, or the whole request is refused."""

import re
from pathlib import Path
from typing import Any, Final

import pytest

from klamm.broker.dispatch import APIS
from klamm.controller.client import Client
from klamm.protocol.api import Api
from klamm.protocol.codec.requests import decode_response, encode_response
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics import create_topics
from klamm.protocol.uuid import Uuid
from klamm.server.faults.reading import OF_AUTHENTICATION, read_rule
from klamm.server.faults.refusals import Merge, without
from klamm.server.faults.shapes import shape_of
from klamm.server.faults.subjects import items_of
from klamm.server.response_errors import collect_errors
from tests.server.faults.made_requests import TOPICS, coded_items, made_request, name_of
from tests.server.harness import RunningServer, open_test_server

REFUSED = ErrorCode.KAFKA_STORAGE_ERROR
"""An error that no handler gives to these requests."""
WITHOUT_ITEMS = frozenset(
    {
        "AddOffsetsToTxn", "AllocateProducerIds", "ApiVersions", "AssignReplicasToDirs", "BrokerHeartbeat",
        "BrokerRegistration", "ConsumerGroupHeartbeat", "DescribeAcls", "DescribeClientQuotas",
        "DescribeCluster", "DescribeLogDirs", "EndTxn", "Envelope", "Heartbeat", "InitProducerId",
        "JoinGroup", "ListConfigResources", "ListGroups", "ListPartitionReassignments", "ListTransactions",
        "SaslAuthenticate", "SaslHandshake", "ShareGroupHeartbeat", "StreamsGroupHeartbeat", "SyncGroup",
        "UnregisterBroker",
    }
)  # fmt: skip
"""The APIs whose requests are refused as a whole in all versions (docs/faults.md)."""
REFUSED_AS_A_WHOLE: Final = frozenset(
    {
        "AlterPartition", "BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot", "LeaveGroup", "OffsetDelete",
        "OffsetFetch", "Vote",
    }
)  # fmt: skip
"""Here the handler refuses the rest: no such group, no coordinator yet, a stale broker epoch, or not the
metadata log."""
IN_LATER_VERSIONS = {"FindCoordinator": 4, "LeaveGroup": 3}
"""The APIs whose requests have one subject in older versions."""


def versions(*, with_items: bool) -> list[Any]:
    found = []
    for api in sorted(APIS, key=lambda one: one.key):
        for version in api.current_versions:
            if bool(shape_of(api, version).response) == with_items:
                found += [pytest.param(api, version, id=f"{api.name}-{version}")]
    return found


def test_the_apis_without_items_are_these() -> None:
    """The lists and the page have no API in the wrong place. A new API needs no entry."""
    by_name = {api.name: api for api in APIS}
    for api in APIS:
        since = IN_LATER_VERSIONS.get(api.name, 0)
        for version in api.current_versions:
            has_items = bool(shape_of(api, version).response)
            assert not (has_items and (api.name in WITHOUT_ITEMS or version < since)), (api.name, version)
    assert set(by_name) >= WITHOUT_ITEMS
    page = (Path(__file__).parents[3] / "docs" / "faults.md").read_text()
    _, _, listed = page.partition("refuses single items in ")
    listed, _, _ = listed.partition("In all other APIs")
    named = {name for name in re.findall(r"[A-Z]\w+", listed) if name in by_name}
    assert len(named) > 35
    assert {name for name in named if not shape_of(by_name[name], by_name[name].latest_stable).response} == set()


@pytest.mark.parametrize(("api", "version"), versions(with_items=True))
def test_each_item_can_be_refused_alone(api: Api[Any, Any], version: int) -> None:
    request = made_request(api, version)
    shape = shape_of(api, version)
    items = items_of(request, shape.request, name_of)
    assert len(items) == 2 ** len(shape.request)
    for refused in items:
        codes, rules = {refused.place: REFUSED}, {refused.place: "r"}
        rest = without(request, shape.request, codes)
        kept = items_of(rest, shape.request, name_of)
        assert [item.subject for item in kept] == [item.subject for item in items if item != refused]
        # As a handler would answer: the other items, each with an error of its own.
        others = Merge(
            shape,
            version,
            {item.place: ErrorCode.NONE for item in kept},
            dict.fromkeys([i.place for i in kept], "h"),
            name_of,
            done=False,
        )
        merge = Merge(shape, version, codes, rules, name_of, done=False)
        response = merge.into(request, others.into(rest, api.response()))
        response = decode_response(api, version, bytes(encode_response(api, version, 1, response)))[1]
        answered = coded_items(api, version, response)
        assert [code for _, code in answered] == [REFUSED if item == refused else 0 for item in items]
        for (answer, _), item in zip(answered, items, strict=True):
            if answer.subject.topic is not None:
                assert (answer.subject.topic, answer.subject.partition) == (item.subject.topic, item.subject.partition)


@pytest.mark.parametrize(("api", "version"), versions(with_items=True))
def test_items_that_were_done_are_refused_in_their_place(api: Api[Any, Any], version: int) -> None:
    request = made_request(api, version)
    shape = shape_of(api, version)
    items = items_of(request, shape.request, name_of)
    done = Merge(
        shape,
        version,
        {item.place: ErrorCode.NONE for item in items},
        {item.place: "h" for item in items},
        name_of,
        done=False,
    )
    answered = done.into(request, api.response())
    for refused in items:
        merge = Merge(shape, version, {refused.place: REFUSED}, {refused.place: "r"}, name_of, done=True)
        codes = [code for _, code in coded_items(api, version, merge.into(request, answered))]
        assert codes == [REFUSED if item == refused else 0 for item in items]


async def test_a_server_refuses_one_item_of_each_api_and_answers_the_others() -> None:
    async with open_test_server(brokers=1) as running:
        image = running.controller.image

        def real_id(topic_name: str) -> Uuid:
            return image.topics_by_name[topic_name].topic_id

        for api in sorted(APIS, key=lambda one: one.key):
            for version in {api.current_versions[0], api.latest_stable}:
                shape = shape_of(api, version)
                if not shape.response:
                    continue
                await _create_topics(running)
                request = made_request(api, version, ids=real_id)
                names = {real_id(name): name for name in TOPICS[:2]}.get
                items = items_of(request, shape.request, names)
                expected = [item.subject == items[0].subject for item in items]
                first = items[0]
                state = running.server.faults.add(read_rule(_rule_about(api, first.subject)))
                response = await _ask(running, api, version, request)
                codes = [code for _, code in coded_items(api, version, response, names)]
                told = api.name, version, response
                if api.name in REFUSED_AS_A_WHOLE or "Share" in api.name:  # by the handler
                    assert REFUSED in codes, told
                else:
                    assert [code == REFUSED for code in codes] == expected, told
                assert state.hits == 1, told
                running.server.faults.remove(state.rule_id)


async def test_what_is_refused_has_not_happened() -> None:
    async with open_test_server(brokers=1) as running:
        running.server.faults.add(read_rule({"api": "CreateTopics", "error": REFUSED.name, "topic": TOPICS[0]}))
        await _create_topics(running)
        assert set(running.controller.image.topics_by_name) == {TOPICS[1]}


async def test_a_server_refuses_each_api_as_a_whole() -> None:
    async with open_test_server(brokers=1) as running:
        for api in sorted(APIS, key=lambda one: one.key):
            for version in () if api.name in OF_AUTHENTICATION else {api.current_versions[0], api.latest_stable}:
                state = running.server.faults.add(read_rule({"api": api.name, "error": REFUSED.name, "whole": True}))
                response = await _ask(running, api, version, made_request(api, version))
                shape = shape_of(api, version)
                if shape.whole_code or shape.response:
                    errors = {error["error_code"] for error in collect_errors(response)}
                    assert errors == {REFUSED}, (api.name, version, response)
                assert state.hits == 1
                running.server.faults.remove(state.rule_id)


def _rule_about(api: Api[Any, Any], subject: Any) -> dict[str, Any]:
    named = {name: value for name, value in subject._asdict().items() if value is not None}
    return {"api": api.name, "error": REFUSED.name, **named}


async def _create_topics(running: RunningServer) -> None:
    wanted = [create_topics.CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in TOPICS[:2]]
    peer = running.connect_in_memory()
    await peer.ask(create_topics.API, 7, create_topics.CreateTopicsRequest(topics=wanted))
    await peer.aclose()


async def _ask(running: RunningServer, api: Api[Any, Any], version: int, request: Any) -> Any:
    if api.name == "Produce":
        request.acks = 1
    on_broker = "broker" in api.listeners
    peer = running.connect_in_memory(Client("broker", 1) if on_broker else Client("controller"))
    response = await peer.ask(api, version, request)
    await peer.aclose()
    return response
