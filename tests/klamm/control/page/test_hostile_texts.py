"""Names of clients and brokers are cut before they are sent to a page, and a long journal costs a page nothing."""

import time
from dataclasses import replace
from typing import Any

import trio
from confluent_kafka import Consumer

import klamm
from klamm.control.page.panels import MAX_REQUESTS, MAX_TEXT, Panels
from klamm.server.recent_requests import RecentRequests
from klamm.server.request_log import RequestLine
from tests.server.test_request_log import make_line

LONG = "<b>" * 10_000


def joined(bootstrap_servers: str, group_id: str) -> Consumer:
    """The only member of a group, with a long client id."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group_id, "client.id": LONG[:20_000]})
    consumer.subscribe(["orders"])
    for _ in range(200):
        consumer.poll(0.1)
        if consumer.assignment():
            return consumer
    raise AssertionError("the group was not stable in time")


async def test_long_ids_of_groups_and_clients_are_cut_and_differ() -> None:
    one, other = LONG[:5_000] + "1", LONG[:5_000] + "2"
    cut = LONG[:MAX_TEXT] + "…"
    async with klamm.Cluster(brokers=1, configs={"group.initial.rebalance.delay.ms": 0}) as cluster:
        await cluster.create_topic("orders", 1)
        servers = cluster.bootstrap_servers
        consumers = [await trio.to_thread.run_sync(joined, servers, group_id) for group_id in ("short", one, other)]
        groups = Panels(cluster._up).groups()
        for consumer in consumers:
            await trio.to_thread.run_sync(consumer.close)
    assert sorted(group["id"] for group in groups) == [cut, cut, "short"]
    assert len({group["key"] for group in groups}) == 3
    assert next(group["key"] for group in groups if group["id"] == "short") == "short"
    assert all(len(group["key"]) < 2 * MAX_TEXT for group in groups)
    assert [[member["client_id"] for member in group["members"]] for group in groups] == [[cut]] * 3


async def test_what_a_broker_of_its_own_registers_is_cut() -> None:
    async with klamm.Cluster(brokers=1) as cluster:
        image = cluster._up.image
        own = image.brokers[1]
        (point,) = own.end_points
        image.brokers[7] = replace(own, broker_id=7, rack=LONG, end_points=(replace(point, host=LONG),))
        try:
            (found,) = Panels(cluster._up).brokers([7])
        finally:
            del image.brokers[7]
    assert found["rack"] == LONG[:MAX_TEXT] + "…"
    assert found["address"] == f"{LONG[:MAX_TEXT]}…:{point.port}"


def test_a_million_lines_cost_a_page_as_much_as_a_hundred() -> None:
    recent = RecentRequests[RequestLine]()
    error = {"error_code": 3, "topic_name": LONG[:256], "resource_name": None, "partition_index": 0,
             "error_message": LONG[:256]}  # fmt: skip
    refused = make_line(client_id=LONG[:250], principal=LONG[:250], errors=[error] * 5)
    plain = make_line(client_id=LONG[:250])
    for seq in range(1_000_000):
        recent.add(seq, plain if seq % 4 else refused)
    began = time.thread_time()
    found = recent.newest(-1, MAX_REQUESTS, 1_000)
    assert time.thread_time() - began < 0.05
    assert MAX_REQUESTS < len(found) <= 2 * MAX_REQUESTS
    assert found[-1][0] == 999_999


async def test_the_texts_of_a_request_are_cut() -> None:
    async with klamm.Cluster(brokers=1) as cluster:
        server, journal = cluster._up, cluster._up.journal
        error = {"error_code": 3, "topic_name": None, "resource_name": LONG[:256], "partition_index": None,
                 "error_message": LONG[:256]}  # fmt: skip
        line = make_line(client_id=LONG, principal=LONG, errors=[error] * 9)
        lines = [{"seq": seq, "time": "", "microseconds": 1, "faults": (), **_members(line)} for seq in range(3)]
        newest = type(journal).newest
        try:
            type(journal).newest = lambda *_: lines  # type: ignore[method-assign]
            found = Panels(server).requests(-1)
        finally:
            type(journal).newest = newest  # type: ignore[method-assign]
    (one, *_) = found
    cut = LONG[:MAX_TEXT] + "…"
    assert (one["client_id"], one["principal"]) == (cut, cut)
    assert [(error["about"], error["message"]) for error in one["errors"]] == [(cut, cut)] * 3
    assert one["error_count"] == 9


def _members(line: RequestLine) -> dict[str, Any]:
    return {name: getattr(line, name)
            for name in ("broker_id", "principal", "client_id", "api", "api_version", "errors")}  # fmt: skip
