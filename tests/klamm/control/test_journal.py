"""The journal: requests by client, broker, API and fault rule, with their bodies, and waiting for them."""

from typing import Any

import pytest
import trio

import klamm
from klamm.protocol.messages.cluster import api_versions
from klamm.server.answered_bodies import MAX_MESSAGE_BYTES
from tests.klamm.control.control_cluster import controlled_cluster


async def create(servers: str, *names: str) -> None:
    async with klamm.AdminClient(servers) as admin:
        await admin.create_topics([klamm.NewTopic(name, 1, 1) for name in names])


async def test_a_line_names_the_rules_that_hit_the_request_and_has_what_was_asked_and_answered() -> None:
    async with klamm.Cluster(brokers=2, journal_bodies=True) as cluster:
        refusing = await cluster.fail("CreateTopics", "POLICY_VIOLATION", topic="bad", times=1)
        watching = await cluster.fail("CreateTopics")
        await create(cluster.bootstrap_servers, "bad", "good")
        (line,) = await cluster.requests("CreateTopics")
        assert line.faults == [refusing.id, watching.id]
        assert line.request is not None
        assert [topic["name"] for topic in line.request["topics"]] == ["bad", "good"]
        assert line.response is not None
        assert [(topic["name"], topic["errorCode"]) for topic in line.response["topics"]] == [("bad", 44), ("good", 0)]
        assert [error["error_code"] for error in line.errors] == [44]
        assert await cluster.requests(fault=refusing) == (line,)
        assert await cluster.requests(fault="none") == ()
        assert {one.faults for one in await cluster.requests("ApiVersions")} == {None}
        assert await cluster.requests(client_id="klamm-admin", after_seq=line.seq) == ()
        brokers = {one.broker_id for one in await cluster.requests(client_id="klamm-admin")}
        for broker_id in brokers:
            assert {one.broker_id for one in await cluster.requests(broker_id=broker_id)} == {broker_id}


async def test_a_request_without_an_answer_has_a_line() -> None:
    async with klamm.Cluster(brokers=1, journal_bodies=True) as cluster:
        fault = await cluster.fail("CreateTopics", answer="close", times=1)
        with trio.move_on_after(5), pytest.raises(klamm.AdminError):
            await create(cluster.bootstrap_servers, "bad")
        (line,) = await cluster.requests(fault=fault)
        assert (line.bytes_out, line.response, line.errors) == (0, None, [])
        assert line.request is not None


async def test_bodies_are_left_out_without_the_option_and_if_they_are_large() -> None:
    async with klamm.Cluster(brokers=1) as cluster:
        await create(cluster.bootstrap_servers, "one")
        assert {(line.request, line.response) for line in await cluster.requests()} == {(None, None)}
    async with klamm.Cluster(brokers=1, journal_bodies=True) as cluster:
        await create(cluster.bootstrap_servers, *(f"{number}{'x' * 200}" for number in range(400)))
        (line,) = await cluster.requests("CreateTopics")
        assert line.bytes_in > MAX_MESSAGE_BYTES
        assert line.request is None


async def test_requests_are_queried_and_awaited_by_http() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        await create(cluster.server.bootstrap_servers, "one")
        status, listed = await cluster.ask("POST", "/requests", {"api": "CreateTopics"})
        assert status == 200
        (line,) = listed["requests"]
        for query in ("api=CreateTopics", "api=CreateTopics&client_id=klamm-admin&broker_id=1&since=-1"):
            assert await cluster.ask("GET", f"/requests?{query}") == (200, listed)
        assert await cluster.ask("GET", f"/requests?since={line['seq']}&api=CreateTopics") == (200, {"requests": []})
        waited: list[Any] = []
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                body = {"api": "CreateTopics", "count": 2, "timeout_ms": 20_000}
                waited.append(await cluster.ask("POST", "/requests/wait", body))

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await create(cluster.server.bootstrap_servers, "two")
        ((status, found),) = waited
        assert (status, len(found["requests"])) == (200, 2)
        status, found = await cluster.ask("POST", "/requests/wait", {"api": "Fetch", "timeout_ms": 10})
        assert (status, found["error"]) == (504, "there are 0 of 1 such requests after 0.01 s")


@pytest.mark.parametrize(
    ("method", "path", "body", "reason"),
    [
        ("GET", "/requests?apy=Fetch", b"", "); did you mean 'api'?"),
        ("GET", "/requests?api=Fetsh", b"", "did you mean 'Fetch'"),
        ("GET", "/requests?api=Fetch&api=Fetch", b"", "'api' is given twice"),
        ("GET", "/requests?since=soon", b"", "after_seq 'soon'"),
        ("GET", "/requests?since=-2", b"", "after_seq -2"),
        ("GET", "/requests?broker_id=99999999999", b"", "broker_id 99999999999"),
        ("GET", "/brokers?x=1", b"", "nothing can be given behind a question mark"),
        ("POST", "/requests?api=Fetch", b"", "nothing can be given behind a question mark"),
        ("POST", "/requests", {"client_id": 7}, "a string is expected"),
        ("POST", "/requests/wait", {"count": 1_001}, "count 1001"),
        ("POST", "/requests/wait", {"api": "Fetsh"}, "did you mean 'Fetch'"),
    ],
)
async def test_bad_questions_are_refused_with_the_reason(method: str, path: str, body: Any, reason: str) -> None:
    async with controlled_cluster(brokers=1) as cluster:
        status, got = await cluster.ask(method, path, body)
        assert status == 400
        assert reason in got["error"]


async def test_a_cluster_waits_for_requests() -> None:
    async with klamm.Cluster(brokers=1) as cluster:
        with pytest.raises(TimeoutError, match=r"there are 0 of 2 such requests after 0\.01 s"):
            await cluster.wait_for_requests("CreateTopics", count=2, timeout_seconds=0.01)
        with pytest.raises(klamm.ClusterError, match="did you mean 'Fetch'"):
            await cluster.wait_for_requests("Fetsh")
        await create(cluster.bootstrap_servers, "one")
        (line,) = await cluster.wait_for_requests("CreateTopics", client_id="klamm-admin")
        assert line.api == "CreateTopics"
        assert (await cluster.wait_for_requests(api_versions.API.name))[0].seq == 0
