"""Scenarios that klamm.Cluster runs on trio: the same verbs, reports and refusals, with pauses by trio's clock."""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import klamm
from klamm.control.client import ControlClient
from klamm.control.scenario_file import VERBS, shipped_scenarios

TOPIC = "orders"


def test_the_cluster_has_every_verb_with_the_arguments_of_the_control_client() -> None:
    import inspect

    for verb in VERBS:
        given, wanted = (
            list(inspect.signature(getattr(one, verb)).parameters) for one in (klamm.Cluster, ControlClient)
        )
        assert given == wanted, verb


async def test_a_shipped_scenario_runs_and_reports() -> None:
    configs: dict[str, str | float] = {"broker.session.timeout.ms": 500, "broker.heartbeat.interval.ms": 100}
    async with klamm.Cluster(brokers=3, configs=configs) as cluster:
        await cluster.create_topic(TOPIC, 3, 3)
        report = await cluster.run_scenario("rolling-restart", topic=TOPIC)
        assert [step.step.split()[0] for step in report.steps] == [
            "wait_for_topic", *3 * ["stop_broker", "start_broker", "wait_for_isr"],
        ]  # fmt: skip
        assert {step.outcome for step in report.steps} == {"done"}
        steps: list[Any] = [
            {"add_fault": {"id": "seen", "api": "Fetch"}},
            {"leader": {"topic": TOPIC, "partition": 0}, "save": "found"},
            {"kill_broker": "${found}"},
            {"stop_broker": "${found}", "refused": "is down already"},
            {"each_broker": {"steps": [{"expire_session": "${broker}"}]}},
            {"start_broker": "${found}"},
            {"remove_fault": "seen"},
        ]
        report = await cluster.run_scenario({"steps": steps})
        outcomes = [step.outcome for step in report.steps]
        assert outcomes == ["done", "done", "done", "refused", "done", "done", "done", "done"]
        assert [fault.id for fault in report.faults] == ["seen"]


async def test_a_failed_step_and_a_misspelt_one_end_it() -> None:
    async with klamm.Cluster(brokers=1) as cluster:
        rule = {"add_fault": {"id": "left", "api": "Fetch"}}
        with pytest.raises(klamm.ScenarioFailed, match="no simulated broker 9") as failed:
            await cluster.run_scenario({"steps": [rule, {"stop_broker": 9}, rule]})
        assert [step.outcome for step in failed.value.report.steps] == ["done", "failed"]
        assert await cluster.faults() == ()
        with pytest.raises(ValueError, match="there is no verb 'stop_brokr'"):
            await cluster.run_scenario({"steps": [{"stop_brokr": 1}]})
        with pytest.raises(ValueError, match="there is no scenario 'rolling-restar'"):
            await cluster.run_scenario("rolling-restar")
        with pytest.raises(klamm.ScenarioFailed, match="timeout_seconds"):
            await cluster.run_scenario({"parameters": {"x": "y"}, "steps": [
                {"wait_for_topic": {"topic": "t", "timeout_seconds": "${x}"}}
            ]})  # fmt: skip


async def test_a_scenario_that_never_ends_is_ended_also_within_a_wait(autojump_clock: MockClock) -> None:
    async with klamm.Cluster(brokers=1) as cluster:
        rule = {"add_fault": {"id": "left", "api": "Fetch"}}
        for steps in (
            [{"wait_for_topic": {"topic": "none", "timeout_seconds": 300}}],
            [{"repeat": {"times": 4_000, "steps": [{"pause": 0.5}]}}],
            [{"pause": 3_600}],
            [{"remove_faults": {}, "at": 3_600}],
        ):
            began = trio.current_time()
            with pytest.raises(klamm.ScenarioFailed):
                await cluster.run_scenario({"timeout_seconds": 20, "steps": [rule, *steps]})
            assert trio.current_time() - began == pytest.approx(20, abs=1)
            assert await cluster.faults() == ()


async def test_rules_of_a_cancelled_scenario_are_removed(autojump_clock: MockClock) -> None:
    async with klamm.Cluster(brokers=1) as cluster:
        with trio.move_on_after(5):
            await cluster.run_scenario({"steps": [{"add_fault": {"id": "left", "api": "Fetch"}}, {"pause": 60}]})
        assert await cluster.faults() == ()


async def test_the_manual_clock_is_advanced_by_a_step() -> None:
    async with klamm.Cluster(brokers=1, clock="manual", start_ms=1_000) as cluster:
        before = await cluster.now_ms()
        await cluster.run_scenario({"steps": [{"advance": "5m"}]})
        assert await cluster.now_ms() == before + 300_000


def test_shipped_scenarios_are_named_in_the_refusal(tmp_path: Path) -> None:
    cluster = klamm.Cluster()

    async def run() -> None:
        async with cluster:
            with pytest.raises(ValueError, match=", ".join(shipped_scenarios())):
                await cluster.run_scenario("none")

    trio.run(run)
