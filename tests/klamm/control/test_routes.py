"""The responses of the control interface, route by route, including its errors."""

import json
from typing import Any

import pytest
import trio
import trio.testing

import klamm
from klamm import NewTopic
from klamm.control.app import route_groups
from klamm.control.limits import MAX_BODY_BYTES
from klamm.server.addresses import Address
from tests.klamm.control.control_cluster import ControlledCluster, controlled_cluster

JSON = dict[str, Any]


@pytest.fixture
def clock() -> trio.testing.MockClock:
    """The clock jumps through sessions and heartbeats when nothing else happens."""
    return trio.testing.MockClock(autojump_threshold=0.005)


async def create(cluster: ControlledCluster, *topics: NewTopic) -> None:
    async with klamm.AdminClient(cluster.server.bootstrap_servers) as admin:
        for made in await admin.create_topics(topics):
            made.raise_for_error()


async def test_brokers_are_listed_as_process_and_metadata_have_them() -> None:
    async with controlled_cluster(racks=("a", "b")) as cluster:
        await create(cluster, NewTopic("t", 2, 3), NewTopic("__consumer_offsets", 1, 3))
        status, brokers = await cluster.ask("GET", "/brokers")
        assert status == 200
        assert [(broker["id"], broker["rack"]) for broker in brokers] == [(1, "a"), (2, "b"), (3, "a")]
        assert cluster.server.bootstrap_servers == ",".join(f"{b['host']}:{b['port']}" for b in brokers)
        for broker in brokers:
            registered = cluster.server.image.brokers[broker["id"]]
            assert broker["broker_epoch"] == registered.broker_epoch
            assert (broker["state"], broker["fenced"], broker["in_controlled_shutdown"]) == ("up", False, False)
            assert broker["replicas"] == 3
            assert await cluster.ask("GET", f"/brokers/{broker['id']}") == (200, broker)


async def test_a_broker_is_stopped_and_started_when_the_answer_comes(clock: trio.testing.MockClock) -> None:
    async with controlled_cluster() as cluster:
        await create(cluster, NewTopic("t", 6, 3))
        status, stopped = await cluster.ask("POST", "/brokers/2/stop")
        assert (status, stopped["state"], stopped["fenced"]) == (200, "down", True)
        assert cluster.server.image.brokers[2].fenced
        status, started = await cluster.ask("POST", "/brokers/2/start")
        assert (status, started["state"], started["fenced"]) == (200, "up", False)
        assert started["broker_epoch"] > stopped["broker_epoch"]
        assert started["port"] == stopped["port"]


@pytest.mark.parametrize("crash", [("/brokers/1/stop", {"mode": "crash"}), ("/brokers/1/kill",)])
async def test_a_crash_is_answered_before_the_broker_is_fenced(clock: trio.testing.MockClock, crash: Any) -> None:
    async with controlled_cluster(configs={"broker.session.timeout.ms": "9000"}) as cluster:
        status, crashed = await cluster.ask("POST", *crash)
        assert (status, crashed["state"], crashed["fenced"]) == (200, "down", False)
        with trio.fail_after(12):
            while not cluster.server.image.brokers[1].fenced:  # noqa: ASYNC110 - on the mock clock
                await trio.sleep(0.1)


async def test_a_start_after_a_crash_waits_for_the_session(clock: trio.testing.MockClock) -> None:
    async with controlled_cluster(configs={"broker.session.timeout.ms": "9000"}) as cluster:
        await cluster.ask("POST", "/brokers/1/stop", {"mode": "crash"})
        began = trio.current_time()
        status, started = await cluster.ask("POST", "/brokers/1/start")
        assert (status, started["state"], started["fenced"]) == (200, "up", False)
        assert 6.5 < trio.current_time() - began < 11


async def test_a_start_that_takes_too_long_is_given_up(clock: trio.testing.MockClock) -> None:
    async with controlled_cluster(configs={"broker.session.timeout.ms": "400000"}) as cluster:
        await cluster.ask("POST", "/brokers/1/stop", {"mode": "crash"})
        began = trio.current_time()
        clock.autojump_threshold = 0  # Nothing arrives by socket any more, and 300 s would take thousands of jumps.
        refused = await cluster.ask("POST", "/brokers/1/start")
        assert refused == (504, {"error": "broker 1 could not register within 300 s"})
        assert 299 < trio.current_time() - began < 302
        assert (await cluster.states())[0] == ("down", False)


async def test_brokers_are_added_and_removed() -> None:
    async with controlled_cluster(brokers=1, racks=("a", "b")) as cluster:
        assert [(await cluster.ask("POST", "/brokers", body))[1]["rack"] for body in (b"", {"rack": "z"})] == ["b", "z"]
        status, added = await cluster.ask("POST", "/brokers", {"rack": None})
        assert (status, added["id"], added["rack"], added["state"], added["fenced"]) == (201, 4, "b", "up", False)
        assert await cluster.ask("DELETE", "/brokers/4") == (200, {"id": 4, "state": "removed"})
        assert 4 not in cluster.server.image.brokers
        assert await cluster.ask("GET", "/brokers/4") == (404, {"error": "there is no simulated broker 4"})


async def test_a_broker_that_is_down_can_be_removed(clock: trio.testing.MockClock) -> None:
    async with controlled_cluster() as cluster:
        await cluster.ask("POST", "/brokers/3/stop", {"mode": "crash"})
        assert (await cluster.ask("DELETE", "/brokers/3"))[0] == 200
        assert sorted(cluster.server.image.brokers) == [1, 2]


async def test_an_added_broker_says_where_it_is() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        _, headers, _ = await cluster.respond("POST", "/brokers")
        assert headers["location"] == "/brokers/2"


@pytest.mark.parametrize(("first", "second", "refusal"), [
    ("stop", "stop", "broker 2 is being started or stopped already"),
    ("stop", "start", "broker 2 is being started or stopped already"),
    ("stop", "remove", "broker 2 is being started or stopped already"),
])  # fmt: skip
async def test_of_two_changes_of_one_broker_at_once_one_is_refused(first: str, second: str, refusal: str) -> None:
    answers: dict[str, tuple[int, JSON]] = {}
    async with controlled_cluster() as cluster, trio.open_nursery() as nursery:

        async def change(which: str, name: str) -> None:
            method, path = ("DELETE", "/brokers/2") if name == "remove" else ("POST", f"/brokers/2/{name}")
            answers[which] = await cluster.ask(method, path)

        await create(cluster, NewTopic("t", 3, 3))  # so that the shutdown has to wait
        nursery.start_soon(change, "first", first)
        with trio.fail_after(5):
            while not cluster.server.image.brokers[2].in_controlled_shutdown:
                await trio.lowlevel.checkpoint()
        await change("second", second)
    assert answers["second"] == (409, {"error": refusal})
    assert answers["first"][0] == 200


async def test_a_client_that_goes_away_does_not_stop_half_a_change(clock: trio.testing.MockClock) -> None:
    async with controlled_cluster(configs={"broker.session.timeout.ms": "9000"}) as cluster:
        await cluster.ask("POST", "/brokers/2/stop", {"mode": "crash"})
        with trio.move_on_after(1) as left:
            await cluster.ask("POST", "/brokers/2/start")
        assert left.cancelled_caught
        assert (await cluster.ask("POST", "/brokers/2/start"))[0] == 409
        with trio.fail_after(12):
            while (await cluster.states())[1] != ("up", False):  # noqa: ASYNC110 - on the mock clock
                await trio.sleep(0.1)


async def test_a_port_that_somebody_else_took_is_a_conflict() -> None:
    async with controlled_cluster() as cluster:
        _, stopped = await cluster.ask("POST", "/brokers/2/stop", {"mode": "crash"})
        taken = await trio.open_tcp_listeners(stopped["port"], host="127.0.0.1")
        status, refused = await cluster.ask("POST", "/brokers/2/start")
        assert status == 409
        assert f"cannot listen on 127.0.0.1:{stopped['port']}" in refused["error"]
        for listener in taken:
            await listener.aclose()


@pytest.mark.parametrize(("method", "path", "body", "status", "said"), [
    ("POST", "/brokers/2/stop", b"{", 400, "the body is no JSON: Expecting property name"),
    ("POST", "/brokers/2/stop", b"mode=crash", 400, "the body is no JSON"),
    ("POST", "/brokers/2/stop", b"\xff", 400, "the body is not UTF-8"),
    ("POST", "/brokers/2/stop", b"\xef\xbb\xbf{}", 400, "the body is no JSON"),
    ("POST", "/brokers/2/stop", b"[" * 50_000, 400, "the body is no JSON: it is nested too deeply"),
    ("POST", "/brokers/2/stop", b"[]", 400, "the body must be a JSON object, not []"),
    ("POST", "/brokers/2/stop", b'"crash"', 400, "the body must be a JSON object, not 'crash'"),
    ("POST", "/brokers/2/stop", b"null", 400, "the body must be a JSON object, not None"),
    ("POST", "/brokers/2/stop", {"mode": "gently"}, 400, "mode 'gently': 'shutdown' or 'crash' is expected"),
    ("POST", "/brokers/2/stop", {"mode": None}, 400, "mode None: 'shutdown' or 'crash' is expected"),
    ("POST", "/brokers/2/stop", {"mode": ["crash"]}, 400, "mode ['crash']"),
    ("POST", "/brokers/2/stop", {"mod": "crash"}, 400, "there is no member 'mod' (known: mode); did you mean 'mode'?"),
    ("POST", "/brokers/2/stop", b'{"mode":"crash","mode":"shutdown"}', 400, "'mode' is given twice"),
    ("POST", "/brokers/2/stop", b'{"mode":NaN}', 400, "NaN is no JSON value"),
    ("POST", "/brokers/2/stop", b'{"mode":%s}' % (b"9" * 5000), 400, "the body is no JSON"),
    ("POST", "/brokers/2/stop?mode=crash", b"", 400, "nothing can be given behind a question mark"),
    ("POST", "/brokers/2/start", {"mode": "crash"}, 400, "there is no member 'mode' (none can be given here)"),
    ("DELETE", "/brokers/2", {"force": True}, 400, "there is no member 'force' (none can be given here)"),
    ("POST", "/brokers", {"rack": ""}, 400, "rack '' has no name"),
    ("POST", "/brokers", {"rack": 3}, 400, "rack 3: a name is expected"),
    ("POST", "/brokers", {"rack": "a\nb"}, 400, "printable characters are expected"),
    ("POST", "/brokers", b'{"rack":"\\ud800"}', 400, "printable characters are expected"),
    ("POST", "/brokers", {"rack": "x" * 256}, 400, "up to 255"),
    ("POST", "/brokers", {"id": 9}, 400, "there is no member 'id' (known: rack)"),
    ("POST", "/brokers", b" " * (MAX_BODY_BYTES + 1), 413, f"the body is longer than {MAX_BODY_BYTES} bytes"),
    ("POST", "/brokers/2/start", b"", 409, "broker 2 is up already"),
    ("POST", "/brokers/9/stop", b"", 404, "there is no simulated broker 9"),
    ("POST", "/brokers/9/start", b"", 404, "there is no simulated broker 9"),
    ("DELETE", "/brokers/0", b"", 404, "there is no simulated broker 0"),
    ("DELETE", "/brokers/-1", b"", 404, "there is no simulated broker '-1'"),
    ("DELETE", "/brokers/+2", b"", 404, "there is no simulated broker '+2'"),
    ("DELETE", "/brokers/2.0", b"", 404, "there is no simulated broker '2.0'"),
    ("DELETE", "/brokers/%D9%A2", b"", 404, "there is no simulated broker '٢'"),
    ("DELETE", "/brokers/" + "9" * 5000, b"", 404, "there is no simulated broker '999"),
    ("GET", "/page", b"", 404, "there is nothing at '/page'"),
    ("GET", "/brokers/", b"", 404, "there is nothing at '/brokers/'"),
    ("GET", "/fault", b"", 404, "there is nothing at '/fault'"),
    ("GET", "/%00%ff", b"", 404, "there is nothing at"),
    ("PUT", "/brokers", b"", 405, "'PUT' is not possible here, only GET and HEAD and POST"),
    ("GET", "/brokers/2/stop", b"", 405, "'GET' is not possible here, only POST"),
    ("OPTIONS", "/brokers/2/stop", b"", 405, "'OPTIONS' is not possible here, only POST"),
])  # fmt: skip
async def test_what_cannot_be_done_is_said_in_one_line(
    method: str, path: str, body: bytes | JSON, status: int, said: str
) -> None:
    async with controlled_cluster(brokers=2) as cluster:
        answered, refusal = await cluster.ask(method, path, body)
        assert answered == status
        assert list(refusal) == ["error"]
        assert said in refusal["error"]
        assert await cluster.states() == [("up", False), ("up", False)]
        assert cluster.events.getvalue() == ""


async def test_a_wrong_method_is_told_the_right_ones() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        _, headers, _ = await cluster.respond("PATCH", "/brokers/1")
        assert headers["allow"] == "DELETE, GET, HEAD"


@pytest.mark.parametrize(("listen", "headers", "status"), [
    ("127.0.0.1", {"Host": "127.0.0.1:8080"}, 200),
    ("127.0.0.1", {"Host": "localhost"}, 200),
    ("127.0.0.1", {"Host": "[::1]:8080"}, 200),
    ("127.0.0.1", {"Host": "LOCALHOST:1"}, 200),
    ("127.1", {"Host": "rebound.example:8080"}, 403),
    ("127.1", {"Host": "127.1:8080"}, 200),
    ("localhost", {"Host": "rebound.example:8080"}, 403),
    ("127.0.0.1", {"Host": "rebound.example"}, 403),
    ("::1", {"Host": "127.0.0.1.rebound.example:80"}, 403),
    ("0.0.0.0", {"Host": "klamm.internal:8080"}, 200),
    ("0.0.0.0", {"Host": "klamm.internal", "Origin": "http://klamm.internal"}, 403),
    ("127.0.0.1", {"Host": "127.0.0.1", "Origin": "null"}, 403),
    ("127.0.0.1", {"Host": "127.0.0.1:8080", "Origin": "http://127.0.0.1:8080"}, 200),
    ("127.0.0.1", {"Host": "127.0.0.1:8080", "Origin": "http://127.0.0.1:8081"}, 403),
    ("127.0.0.1", {"Host": "127.0.0.1:8080", "Origin": "https://127.0.0.1:8080"}, 403),
    ("127.0.0.1", {"Host": "rebound.example", "Origin": "http://rebound.example"}, 403),
    ("127.0.0.1", {"Host": "", "Origin": "http://"}, 403),
])  # fmt: skip
async def test_web_pages_are_kept_out(listen: str, headers: dict[str, str], status: int) -> None:
    async with controlled_cluster(brokers=1, listen=Address(listen, 0)) as cluster:
        assert (await cluster.ask("GET", "/brokers", headers=headers))[0] == status


async def test_a_bug_is_one_line_for_the_client_and_an_event_for_us() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        del cluster.server.brokers.by_id  # any exception would do
        for method, path in (("GET", "/brokers"), ("POST", "/brokers")):
            status, refusal = await cluster.ask(method, path)
            assert (status, list(refusal)) == (500, ["error"])
            assert "bug" in refusal["error"]
            assert "Traceback" not in refusal["error"]
        cluster.server.brokers.by_id = {}
        logged = [json.loads(line) for line in cluster.events.getvalue().splitlines()]
    reported = [event["event"] for event in logged if "control" in event["event"]]
    assert reported == ["bug: a control request failed", "bug: a change asked for by control failed"]


async def test_nothing_is_changed_any_more_when_the_server_stops() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        cluster.changes.stopping = True
        assert await cluster.ask("POST", "/brokers") == (503, {"error": "the server is stopping"})


async def test_the_description_has_the_routes_and_only_those() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        _, description = await cluster.ask("GET", "/openapi.json")
        for path, operations in description["paths"].items():
            described = {method.upper() for method in operations if method != "parameters"}
            _, headers, _ = await cluster.respond("PATCH", path.replace("{broker_id}", "1").replace("{topic}", "t"))
            assert set(headers["allow"].split(", ")) - {"HEAD"} == described
        groups = route_groups(cluster.server, cluster.changes)
        assert {path.replace(":path}", "}") for group in groups for path in group.views} == set(
            description["paths"]
        ) - {"/openapi.json"}
    for path, operations in description["paths"].items():
        assert ("parameters" in operations) == ("{" in path)


async def test_answers_have_the_members_that_are_described(clock: trio.testing.MockClock) -> None:
    async with controlled_cluster() as cluster:
        _, description = await cluster.ask("GET", "/openapi.json")
        requested: list[tuple[str, str, str]] = [
            ("/brokers/{broker_id}", "GET", "/brokers/1"),
            ("/brokers/{broker_id}/stop", "POST", "/brokers/1/stop"),
            ("/brokers/{broker_id}/stop", "POST", "/brokers/1/stop"),
            ("/brokers/{broker_id}/start", "POST", "/brokers/1/start"),
            ("/brokers/{broker_id}/start", "POST", "/brokers/7/start"),
            ("/brokers", "POST", "/brokers"),
            ("/brokers/{broker_id}", "DELETE", "/brokers/4"),
        ]
        seen = set()
        for template, method, path in requested:
            status, content = await cluster.ask(method, path)
            response = description["paths"][template][method.lower()]["responses"][str(status)]
            name = response["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            schema = description["components"]["schemas"][name]
            assert set(content) == set(schema["required"]) == set(schema["properties"])
            for member, value in content.items():
                assert _is_of_type(value, schema["properties"][member])
            seen.add(name)
    assert seen == {"Broker", "RemovedBroker", "Error"}


def _is_of_type(value: object, schema: JSON) -> bool:
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    types = {"integer": int, "string": str, "boolean": bool, "null": type(None), "object": dict}
    return type(value) in {types[name] for name in names} and value in schema.get("enum", [value])
