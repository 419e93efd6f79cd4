"""The events behind a snapshot: what changed, once, in order, and bounded for a page that does not read."""

import http.client
import itertools
import json
import time
from contextlib import closing
from typing import Any

import pytest
import trio
import trio.testing

import klamm
from klamm import NewTopic
from klamm.control.limits import STOP_SECONDS, UNREAD_SECONDS
from klamm.control.page import feed as feed_module
from klamm.control.page import responses, routes
from klamm.control.page.cells import UNDER_MIN_ISR
from klamm.control.page.events import Events
from klamm.control.page.feed import POLL_SECONDS
from klamm.control.page.panels import Panels
from klamm.protocol.records.configs import ConfigRecord
from tests.klamm.control.control_cluster import ControlledCluster, controlled_cluster
from tests.klamm.control.page.open_page import HOST, listening, take_snapshot
from tests.klamm.control.page.test_snapshot import expected


@pytest.fixture
def clock() -> trio.testing.MockClock:
    """The clock jumps to the next poll when nothing else happens."""
    return trio.testing.MockClock(autojump_threshold=0.005)


async def create(cluster: ControlledCluster, *topics: NewTopic) -> None:
    async with klamm.AdminClient(cluster.server.bootstrap_servers) as admin:
        for made in await admin.create_topics(topics):
            made.raise_for_error()


async def test_a_page_follows_what_happens(clock: trio.testing.MockClock) -> None:
    async with controlled_cluster() as cluster:
        await create(cluster, NewTopic("before", 4, 3))
        page = await take_snapshot(cluster)
        async with listening(cluster, page) as started:
            await create(cluster, NewTopic("orders", 6, 3), NewTopic("gone", 1, 1))
            await page.until(lambda: len(page.cells) == 11)
            assert started["status"] == 200
            assert dict(started["headers"])[b"content-type"].startswith(b"text/event-stream")
            (topics,) = [data for name, data in page.events if name == "topics"]
            assert [name for _, name in topics["added"]] == ["orders", "gone"]
            await cluster.server.stop_broker(2)
            image, settings = cluster.server.image, cluster.server.observed.settings
            await page.until(lambda: page.cells == expected(image, settings))
            await page.until(lambda: not page.brokers[2]["up"] and page.brokers[2]["leaders"] == 0)
            async with klamm.AdminClient(cluster.server.bootstrap_servers) as admin:
                await admin.delete_topics(["gone"])
            await page.until(lambda: page.last("topics")["removed"] == [topics["added"][1][0]])
            assert page.last("cluster")["topics"] == 2
            await page.until(lambda: any(line["api"] == "DeleteTopics" for line in page.last("requests")))
        assert page.is_over


async def test_what_happened_between_snapshot_and_stream_is_in_the_stream(clock: trio.testing.MockClock) -> None:
    async with controlled_cluster(brokers=1) as cluster:
        page = await take_snapshot(cluster)
        await create(cluster, NewTopic("orders", 2, 1))
        await trio.sleep(1)
        async with listening(cluster, page):
            await page.until(lambda: len(page.cells) == 2)


async def test_a_partition_that_changes_often_is_sent_as_it_is_then(clock: trio.testing.MockClock) -> None:
    async with controlled_cluster() as cluster:
        await create(cluster, NewTopic("orders", 1, 3))
        page = await take_snapshot(cluster)
        async with listening(cluster, page):
            await trio.sleep(1)
            page.events.clear()
            for leader in (2, 3, 1, 2, 3):
                await cluster.server.steering.move_leader("orders", 0, leader)
            await page.until(lambda: page.cells[0, 0][0] == 3)
            assert len([name for name, _ in page.events if name == "cells"]) <= 2


async def test_panels_are_sent_when_they_differ(clock: trio.testing.MockClock) -> None:
    async with controlled_cluster(brokers=1) as cluster:
        page = await take_snapshot(cluster)
        async with listening(cluster, page):
            await trio.sleep(2)
            page.events.clear()
            await trio.sleep(2)
            assert page.events == []
            await cluster.ask(
                "POST",
                "/faults",
                {"id": "first", "client_id": "<b>*", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"},
            )
            await page.until(lambda: page.events)
            ((name, data),) = page.events
            (rule,) = data
            assert (name, rule["key"], rule["hits"]) == ("faults", "first", 0)
            assert rule["rule"] == {"client_id": "<b>*", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"}


async def test_the_brokers_that_differ_are_sent(clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A move of a leader sends two brokers, and a broker that is gone is named; in pieces of one broker, too."""
    monkeypatch.setattr(feed_module, "BROKERS_AT_ONCE", 1)
    async with controlled_cluster(brokers=4) as cluster:
        await create(cluster, NewTopic("orders", replica_assignments={0: [1, 3], 1: [2, 3], 2: [4, 3]}))
        page = await take_snapshot(cluster)
        async with listening(cluster, page):
            await trio.sleep(2)
            page.events.clear()
            await cluster.server.steering.move_leader("orders", 0, 3)
            await page.until(lambda: page.brokers[3]["leaders"] == 1)
            sent = [data for name, data in page.events if name == "brokers"]
            assert [[one["id"] for one in data["changed"]] for data in sent] == [[1, 3]]
            assert [data["removed"] for data in sent] == [[]]
            await cluster.server.remove_broker(4)
            await page.until(lambda: 4 not in page.brokers)
            page.events.clear()
            await trio.sleep(2)
            assert "brokers" not in [name for name, _ in page.events]  # once is enough
            assert page.brokers == {one["id"]: one for one in (await take_snapshot(cluster)).head["brokers"]}


async def test_the_panel_of_brokers_rests_after_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it takes 20 ms, it is made at most every 400 ms, and the last change is sent."""
    made: list[float] = []
    brokers = Panels.brokers

    def slow(panels: Panels, broker_ids: list[int] | None = None) -> list[dict[str, Any]]:
        made.append(trio.current_time())
        end = time.monotonic() + 0.02
        while time.monotonic() < end:
            pass
        return brokers(panels, broker_ids)

    async with controlled_cluster() as cluster:
        await create(cluster, NewTopic("orders", 1, 3))
        page = await take_snapshot(cluster)
        monkeypatch.setattr(Panels, "brokers", slow)
        async with listening(cluster, page):
            begun = trio.current_time()
            leader = 1
            while trio.current_time() < begun + 1.2:
                leader = leader % 3 + 1
                await cluster.server.steering.move_leader("orders", 0, leader)
                await trio.sleep(0.05)
            await page.until(lambda: page.brokers[leader]["leaders"] == 1)
        gaps = [later - earlier for earlier, later in itertools.pairwise(made)]
        assert min(gaps) > 0.02 * feed_module.BROKERS_REST
        assert len(made) <= 5


async def test_another_snapshot_lets_every_panel_be_sent_again(clock: trio.testing.MockClock) -> None:
    """The new page may have seen a state between two events, which the next event has to correct."""
    async with controlled_cluster(brokers=1) as cluster:
        page = await take_snapshot(cluster)
        async with listening(cluster, page):
            await trio.sleep(2)
            page.events.clear()
            await take_snapshot(cluster)
            panels = {"cluster", "brokers", "moves", "faults", "clock", "groups"}
            await page.until(lambda: {name for name, _ in page.events} >= panels)


async def test_what_changed_while_no_page_was_open_is_in_the_next_snapshot(
    clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "UNWATCHED_SECONDS", 0.5)
    async with controlled_cluster() as cluster:
        await create(cluster, NewTopic("orders", 3, 3))
        before = await take_snapshot(cluster)
        await trio.sleep(2)
        records = [ConfigRecord(resource_type=4, resource_name="", name=f"max{what}partitions", value="9")
                   for what in (".", ".broker.")]  # fmt: skip
        records.append(ConfigRecord(resource_type=2, resource_name="orders", name="min.insync.replicas", value="3"))
        cluster.server._parts.controller.commit_steered(records)
        await cluster.server.stop_broker(2)
        after = await take_snapshot(cluster)
        assert (before.head["cluster"]["partition_limit"], after.head["cluster"]["partition_limit"]) == (None, 9)
        assert [broker["limit"] for broker in after.head["brokers"]] == [9, 9, 9]
        assert [broker["leaders"] > 0 for broker in after.head["brokers"]] == [True, False, True]
        assert all(state & UNDER_MIN_ISR for _, state, *_ in after.cells.values())


async def test_a_manual_clock_is_followed(clock: trio.testing.MockClock) -> None:
    async with controlled_cluster(brokers=1, clock="manual", start_ms=0) as cluster:
        page = await take_snapshot(cluster)
        assert page.head["clock"]["now_ms"] == 0
        async with listening(cluster, page):
            await cluster.ask("POST", "/clock/advance", {"ms": 5000})
            await page.until(lambda: page.last("clock")["now_ms"] == 5000)


async def test_without_a_page_nothing_is_done(clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    published = []

    class Counting(feed_module.Feed):
        async def _publish(self) -> None:
            published.append(trio.current_time())
            await super()._publish()

    monkeypatch.setattr("klamm.control.app.Feed", Counting)
    monkeypatch.setattr(feed_module, "UNWATCHED_SECONDS", 2.0)
    async with controlled_cluster(brokers=1) as cluster:
        await create(cluster, NewTopic("orders", 2, 1))
        await trio.sleep(1)
        assert published == []
        page = await take_snapshot(cluster)
        began = trio.current_time()
        await trio.sleep(8)
        assert 2 / POLL_SECONDS * 0.8 <= len(published) <= 2 / POLL_SECONDS + 2
        assert published[-1] <= began + 2 + 2 * POLL_SECONDS
        async with listening(cluster, page):  # it slept for too long
            await page.until(lambda: page.is_over)
            assert page.events[-1][0] == "reset"


@pytest.mark.parametrize("number", [10**9, 1])
async def test_an_unknown_number_is_told_to_begin_again(clock: trio.testing.MockClock, number: int) -> None:
    async with controlled_cluster(brokers=1) as cluster:
        page = await take_snapshot(cluster)
        async with listening(cluster, page, number=number):
            await page.until(lambda: page.is_over)
        assert page.events == [("reset", {})]


@pytest.mark.parametrize("number", ["", "x", "-1", "²", "1" * 16])
async def test_a_number_is_expected(number: str) -> None:
    async with controlled_cluster(brokers=1) as cluster:
        status, _, _ = await cluster.respond("GET", "/page/events", headers={**HOST, "Last-Event-ID": number})
        assert status == 400
        assert (await cluster.respond("GET", "/page/events", headers=HOST))[0] == 400


async def test_head_has_the_headers_alone() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        for path in ("/page/events", "/page/snapshot"):
            status, _, content = await cluster.respond("HEAD", path, headers={**HOST, "Last-Event-ID": "0"})
            assert (status, content) == (200, b"")


async def test_a_page_that_does_not_read_is_let_go(clock: trio.testing.MockClock) -> None:
    async with controlled_cluster(brokers=1) as cluster:
        page = await take_snapshot(cluster)
        async with listening(cluster, page, reads=False):
            began = trio.current_time()
            await trio.lowlevel.checkpoint()
            with trio.fail_after(UNREAD_SECONDS + 1):
                await cluster.ask("POST", "/faults", {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"})
                await trio.sleep(UNREAD_SECONDS + 0.5)
            other = await take_snapshot(cluster)
            async with listening(cluster, other):
                await cluster.ask("DELETE", "/faults")
                await other.until(lambda: other.last("faults") == [])
            assert trio.current_time() - began < UNREAD_SECONDS + 2


async def test_only_so_many_pages_at_a_time(clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "MAX_LISTENERS", 2)
    async with controlled_cluster(brokers=1) as cluster:
        pages = [await take_snapshot(cluster) for _ in range(3)]
        async with listening(cluster, pages[0]) as one, listening(cluster, pages[1]) as other:
            await trio.sleep(0.5)
            assert one["status"] == other["status"] == 200
            async with listening(cluster, pages[2]) as third:
                await pages[2].until(lambda: third)
                assert third["status"] == 503
        async with listening(cluster, pages[2]) as third:
            await pages[2].until(lambda: third)
            assert third["status"] == 200


async def test_a_change_of_too_many_partitions_is_a_new_snapshot(
    clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "MAX_CHANGED", 9)
    async with controlled_cluster(brokers=1) as cluster:
        page = await take_snapshot(cluster)
        async with listening(cluster, page):
            await create(cluster, NewTopic("few", 9, 1))
            await page.until(lambda: len(page.cells) == 9)
            await create(cluster, NewTopic("many", 10, 1))
            await page.until(lambda: page.is_over)
            assert page.events[-1] == ("reset", {})
        assert len((await take_snapshot(cluster)).cells) == 19


async def test_a_quiet_stream_says_that_it_lives(
    clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "QUIET_SECONDS", 2.0)
    async with controlled_cluster(brokers=1) as cluster:
        page = await take_snapshot(cluster)
        async with listening(cluster, page):
            await trio.sleep(1.5)
            page.events.clear()
            await trio.sleep(5)
            assert set(page.events) == {("quiet", None)}
            assert len(page.events) in (2, 3)


def test_a_stopping_server_ends_the_streams_at_once() -> None:
    with klamm.ServerProcess(brokers=1, control=True) as server:
        host, _, port = server.control_url.removeprefix("http://").rpartition(":")
        with closing(http.client.HTTPConnection(host, int(port), timeout=20)) as connection:
            connection.request("GET", "/page/snapshot")
            snapshot = connection.getresponse().read()
            seq = json.loads(snapshot[4 : 4 + int.from_bytes(snapshot[:4], "little")])["seq"]
            connection.request("GET", "/page/events", headers={"Last-Event-ID": str(seq)})
            response = connection.getresponse()
            assert response.status == 200
            began = time.monotonic()
            server.stop()
            assert time.monotonic() - began < STOP_SECONDS
            assert response.read().endswith(b"\n\n")
            assert server.stderr_text() == ""


def test_events_are_kept_up_to_their_bytes() -> None:
    events = Events(max_bytes=200)
    for number in range(1, 100):
        events.add("n", b"%d" % number)
        assert sum(map(len, events._events)) == events._bytes <= 200
    body, last = events.after(97, 10**6) or (b"", 0)
    assert (body, last) == (b"id: 98\nevent: n\ndata: 98\n\nid: 99\nevent: n\ndata: 99\n\n", 99)
    assert events.after(97, 1) == (b"id: 98\nevent: n\ndata: 98\n\n", 98)
    assert events.after(99, 1) == (b"", 99)
    kept = len(events._events)
    assert events.after(99 - kept, 1) is not None
    assert events.after(98 - kept, 1) is None
    assert events.after(100, 1) is None
    events.add("large", 1000 * b"x")
    assert (events.after(99, 1) or (b"",))[0].endswith(1000 * b"x" + b"\n\n")
    events.drop_all()
    assert events.after(100, 1) is None
    assert events.after(events.count, 1) == (b"", events.count)
