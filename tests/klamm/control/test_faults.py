"""Fault rules by HTTP, by `klamm control fault`, from a file, and from `klamm.Cluster`."""

import json
from pathlib import Path
from typing import Any

import pytest
import trio

import klamm
from klamm.cluster.fault_rules import read_fault_file
from klamm.cluster.options import ClusterOptions
from klamm.cluster.plan import FREE_PORTS, plan_cluster
from klamm.control.command import decode_control_options
from klamm.control.tables import as_text
from klamm.controller.settings import SettingsError
from tests.klamm.control.control_cluster import controlled_cluster

REFUSED = klamm.ErrorCode.POLICY_VIOLATION


async def create(servers: str, name: str) -> int:
    """The error code of a new topic."""
    async with klamm.AdminClient(servers) as admin:
        (made,) = await admin.create_topics([klamm.NewTopic(name, 1, 1)])
        return 0 if made.error is None else int(made.error.code)


async def test_a_listener_that_no_broker_has_is_refused() -> None:
    async with klamm.Cluster(brokers=1, listeners=("PLAINTEXT://127.0.0.1:0", "INSIDE://127.0.0.1:0")) as cluster:
        with pytest.raises(klamm.ClusterError, match="listener 'NOPE': the listeners are INSIDE, PLAINTEXT"):
            await cluster.add_fault(listener="NOPE", answer="close")
        for listener in ("INSIDE", "IN*", "PLAINTEXT"):
            await cluster.add_fault(listener=listener, answer="close")


async def test_a_rule_is_added_hit_shown_awaited_and_removed() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        rule = {"api": "CreateTopics", "topic": "bad-*", "error": "POLICY_VIOLATION", "times": 1}
        status, added = await cluster.ask("POST", "/faults", rule)
        assert status == 201
        expected = {"id": "fault-1", "rule": rule, "state": "active", "matches": 0, "hits": 0, "requests": []}
        assert added == expected
        assert await cluster.ask("GET", "/faults") == (200, {"faults": [added]})
        waited: list[Any] = []
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                waited.append(await cluster.ask("POST", "/faults/fault-1/wait", {"hits": 1, "timeout_ms": 20_000}))

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            assert await create(cluster.server.bootstrap_servers, "bad-1") == REFUSED
        ((status, shown),) = waited
        assert (status, shown["hits"], shown["state"]) == (200, 1, "over")
        assert shown["requests"][0] | {"time_ms": 0, "correlation_id": 0, "api_version": 0} == {
            "time_ms": 0, "api": "CreateTopics", "api_version": 0, "correlation_id": 0, "client_id": "klamm-admin",
            "broker_id": 1, "items": ["bad-1"],
        }  # fmt: skip
        assert await create(cluster.server.bootstrap_servers, "bad-1") == 0
        status, removed = await cluster.ask("DELETE", "/faults/fault-1")
        assert (status, removed) == (200, shown | {"state": "removed"})
        assert (await cluster.ask("GET", "/faults/fault-1"))[0] == 404
        assert await cluster.ask("DELETE", "/faults") == (200, {"removed": 0})


async def test_bad_rules_and_waits_are_refused_with_the_reason() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        for method, path, body, status, reason in (
            ("POST", "/faults", {"topc": 1}, 400, "did you mean 'topic'?"),
            ("POST", "/faults", b"[]", 400, "must be a JSON object"),
            ("POST", "/faults", b'{"times": NaN}', 400, "no JSON"),
            ("POST", "/faults/fault-1/wait", {"hits": 0}, 400, "hits 0"),
            ("POST", "/faults/fault-1/wait", {"timeout_ms": 300_001}, 400, "timeout_ms"),
            ("POST", "/faults/fault-1/wait", {}, 404, "there is no rule 'fault-1'"),
            ("GET", "/faults/fault-1", b"", 404, "there is no rule"),
            ("DELETE", "/faults/fault-1", b"", 404, "there is no rule"),
            ("PUT", "/faults", b"", 405, "only DELETE and GET and HEAD and POST"),
        ):
            assert (got := await cluster.ask(method, path, body))[0] == status, (path, got)
            assert reason in got[1]["error"]
        await cluster.ask("POST", "/faults", {"id": "mine"})
        status, got = await cluster.ask("POST", "/faults/mine/wait", {"timeout_ms": 10})
        assert (status, got["error"]) == (504, "rule mine has 0 of 1 hit after 0.01 s")
        assert (await cluster.ask("POST", "/faults", {"id": "mine"}))[0] == 400


async def test_a_wait_ends_when_its_rule_is_removed() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        await cluster.ask("POST", "/faults", {"id": "mine", "api": "Heartbeat"})
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                status, got = await cluster.ask("POST", "/faults/mine/wait", {"timeout_ms": 60_000})
                assert (status, got["error"]) == (504, "rule mine was removed with 0 of 1 hit")

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await cluster.ask("DELETE", "/faults/mine")


async def test_a_cluster_in_the_event_loop_has_the_same_methods() -> None:
    async with klamm.Cluster(brokers=1) as cluster:
        fault = await cluster.fail("CreateTopics", klamm.ErrorCode.POLICY_VIOLATION.name, topic="bad", times=1)
        assert await create(cluster.bootstrap_servers, "bad") == REFUSED
        assert (await cluster.wait_for_fault(fault)).state == "over"
        assert [one.hits for one in await cluster.faults()] == [1]
        assert (await cluster.fault("fault-1")).requests[0]["items"] == ["bad"]
        await cluster.add_fault(broker=(1,), answer="none", client_id="nobody")
        assert (await cluster.remove_fault(fault)).state == "removed"
        assert await cluster.remove_faults() == 1
        with pytest.raises(klamm.ClusterError, match="did you mean 'Produce'"):
            await cluster.fail("Prodcue")
        for call in (cluster.fault, cluster.remove_fault, cluster.wait_for_fault):
            with pytest.raises(klamm.ClusterError, match="there is no rule"):
                await call("fault-1")


def command(*words: str) -> tuple[str, str, Any]:
    options = decode_control_options(("--url", "http://127.0.0.1:1", "fault", *words), {})
    return options.method, options.path, options.body


def test_the_commands_are_requests() -> None:
    assert command("list") == ("GET", "/faults", None)
    assert command("clear") == ("DELETE", "/faults", None)
    assert command("show", "a") == ("GET", "/faults/a", None)
    assert command("remove", "a/b") == ("DELETE", "/faults/a%2Fb", None)
    assert command("wait", "a", "--hits", "3", "--seconds", "4") == (
        "POST", "/faults/a/wait", {"hits": 3, "timeout_ms": 4000},
    )  # fmt: skip
    words = "--api Produce --api Fetch --broker 2 --partition 0 --topic orders --client-id a* --whole --after --times 2"
    more = "--error REQUEST_TIMED_OUT --skip 0 --every 3 --for-ms 50 --probability 0.5 --throttle-time-ms 9"
    values = ("--delay-ms", '{"min": 1, "max": 2}', "--where", "acks=-1", "--set", "a=text")
    assert command("add", *words.split(), *more.split(), *values)[2] == {
        "api": ["Produce", "Fetch"], "broker": [2], "partition": [0], "topic": "orders", "client_id": "a*",
        "error": "REQUEST_TIMED_OUT", "whole": True, "after": True, "times": 2, "skip": 0, "every": 3, "for_ms": 50,
        "probability": 0.5, "throttle_time_ms": 9, "delay_ms": {"min": 1, "max": 2}, "where": {"acks": -1},
        "set": {"a": "text"},
    }  # fmt: skip


def test_rules_are_printed_as_lines() -> None:
    hit = {"api": "Produce", "api_version": 9, "client_id": None, "broker_id": 1, "items": ["o-0", "o-1"]}
    rule = {"id": "f", "state": "active", "hits": 3, "rule": {"topic": "a\x1b"}, "requests": [hit]}
    line = 'f  active  hits 3  {"topic": "a\\u001b"}\n'
    assert as_text({"faults": [rule, rule]}) == line * 2
    assert as_text(rule) == line + "  Produce v9  -  broker 1  o-0 o-1\n"
    assert as_text({"removed": 2}) == "2 rules are removed\n"
    assert as_text({"removed": 1}) == "1 rule is removed\n"


async def test_rules_of_a_file_apply_from_the_start(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    file.write_text(json.dumps({"faults": [{"api": "CreateTopics", "error": "POLICY_VIOLATION", "times": 1}]}))
    async with klamm.Cluster(brokers=1, faults=file) as cluster:
        assert await create(cluster.bootstrap_servers, "first") == REFUSED
        assert await create(cluster.bootstrap_servers, "first") == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting"),
        ("7", "7 is no list of rules"),
        ('{"faults": 7}', "7 is no list of rules"),
        ('{"steps": [{"create-topic": {"name": "a"}}]}', r"member 'faults', is expected, but it has 'steps'$"),
        ('{"faults": [], "b": 1, "c": 1, "d": 1}', r"is expected, but it has 'faults', 'b', 'c'$"),
        ("{}", "is expected, but it has no member$"),
        ('[{"api": "Produce"}, {"api": "X"}]', "rule 2: api 'X' is not served here"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_has_no_rules_is_refused_by_name(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "faults.json"
    file.write_text(text)
    with pytest.raises(SettingsError, match=reason) as refused:
        plan_cluster(ClusterOptions(faults=file), {}, FREE_PORTS)
    assert str(file) in str(refused.value)
    with pytest.raises(SettingsError, match="No such file"):
        plan_cluster(ClusterOptions(faults=tmp_path / "none"), {}, FREE_PORTS)


def test_yaml_needs_its_package_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text("- api: Produce\n  times: 2\n")
    try:
        import yaml  # noqa: F401
    except ImportError:
        with pytest.raises(ValueError, match=r"YAML needs PyYAML: pip install 'klamm\[yaml\]', or write JSON"):
            read_fault_file(file)
        return
    (rule,) = read_fault_file(file)
    assert (rule.apis[0].name, rule.times) == ("Produce", 2)
