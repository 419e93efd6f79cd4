"""Steps that are undone at the end of a scenario: after a success, a failure, an interruption and a cancellation."""

from collections.abc import Mapping
from typing import Any

import pytest
import trio

import klamm
from klamm.control.scenario_file import read_scenario
from klamm.control.scenario_run import UNDO_SECONDS, Run, ScenarioFailed

LIMIT = "partition-limit"


class Topics:
    """The verbs of these tests on a set of names; a name that begins with a dash cannot be deleted."""

    def __init__(self, interruptions: int = 0, during: str = "a") -> None:
        self.names: list[str] = []
        self.called: list[str] = []
        self.waited: list[float] = []
        self._interruptions, self._during = interruptions, during
        self.run: Run

    def create_topic(self, name: str) -> str:
        self.names.append(name)
        self.called.append(f"create {name}")
        for _ in range(self._interruptions if name == self._during else 0):
            self.run.interrupt(KeyboardInterrupt())
        return f"id-of-{name}"

    def delete_topic(self, name: str) -> None:
        self.called.append(f"delete {name}")
        if name.startswith("-"):
            raise ValueError(f"{name} stays")
        self.names.remove(name)

    def wait_for_topic(self, topic: str, timeout_seconds: float) -> None:
        self.waited.append(timeout_seconds)

    def leader(self, topic: str, partition: int) -> int:
        raise ValueError("there is no such topic")


def run_of(steps: list[Mapping[str, Any]], client: Topics, **members: Any) -> Run:
    client.run = Run(read_scenario({"steps": steps, **members}, klamm.ControlClient), {})
    return client.run


def made(name: str, **more: Any) -> Mapping[str, Any]:
    return {"create_topic": name, "undo": {"delete_topic": name}, **more}


FAILS: Mapping[str, Any] = {"leader": {"topic": "t", "partition": 0}}


def test_the_last_step_is_undone_first() -> None:
    client = Topics()
    report = run_of([made("a"), made("b"), {"create_topic": "stays"}], client).run(client)
    assert client.called == ["create a", "create b", "create stays", "delete b", "delete a"]
    assert [(step.step, step.outcome) for step in report.steps[3:]] == [
        ("delete_topic name=b", "done"), ("delete_topic name=a", "done"),
    ]  # fmt: skip
    assert client.names == ["stays"]


def test_steps_are_undone_after_a_failure_whose_reason_stays() -> None:
    client = Topics()
    with pytest.raises(ScenarioFailed, match="there is no such topic") as failed:
        run_of([made("-a"), made("b"), FAILS, made("c")], client).run(client)
    assert client.called == ["create -a", "create b", "delete b", "delete -a"]
    assert [step.outcome for step in failed.value.report.steps] == ["done", "done", "failed", "done", "failed"]


def test_a_step_that_cannot_be_undone_fails_the_scenario_and_hinders_no_other() -> None:
    client = Topics()
    with pytest.raises(ScenarioFailed, match=r"^delete_topic name=-b: -b stays$"):
        run_of([made("a"), made("-b"), made("-c"), made("d")][::-1], client).run(client)
    assert client.called[4:] == ["delete a", "delete -b", "delete -c", "delete d"]


def test_a_step_that_should_have_been_refused_is_undone() -> None:
    client = Topics()
    with pytest.raises(ScenarioFailed, match="expected to be refused"):
        run_of([made("a", refused="no")], client).run(client)
    assert client.called == ["create a", "delete a"]


def test_what_undoes_a_step_has_the_values_of_that_moment() -> None:
    client = Topics()
    step = {"create_topic": "t-${number}", "save": "found", "undo": {"delete_topic": "t-${number}"}}
    run_of([{"repeat": {"times": 2, "steps": [step]}}], client).run(client)
    assert client.called == ["create t-1", "create t-2", "delete t-2", "delete t-1"]
    client = Topics()
    with pytest.raises(ScenarioFailed, match="there is no parameter 'fonud'; did you mean 'found'"):
        run_of([{**made("a"), "save": "found"}, {"create_topic": "b", "undo": {"delete_topic": "${fonud}"}}],
               client).run(client)  # fmt: skip
    assert client.called == ["create a", "delete a"]  # it was named before b was made
    client = Topics()
    with pytest.raises(ScenarioFailed, match="id-of-a"):
        run_of([{"create_topic": "a", "save": "found", "undo": {"delete_topic": "${found}"}}], client).run(client)


def test_an_interrupted_run_is_undone() -> None:
    client = Topics(1)
    with pytest.raises(KeyboardInterrupt):
        run_of([made("a"), made("b")], client).run(client)
    assert client.called == ["create a", "delete a"]
    client = Topics(1, during="b")
    with pytest.raises(KeyboardInterrupt):
        run_of([made("a"), made("b"), made("c")], client).run(client)
    assert client.called == ["create a", "create b", "delete b", "delete a"]
    client = Topics(2)  # the second one does not wait
    with pytest.raises(KeyboardInterrupt):
        run_of([made("a")], client).run(client)
    assert client.called == ["create a"]


def test_waits_are_bounded_after_the_end_of_the_scenario() -> None:
    client = Topics()
    waits = [{"create_topic": "a", "undo": {"wait_for_topic": {"topic": "a", "timeout_seconds": 300}}}]
    with pytest.raises(ScenarioFailed, match=r"did not end within 0\.05 s"):
        run_of([*waits, {"pause": 30}], client, timeout_seconds=0.05).run(client)
    assert client.waited == [UNDO_SECONDS]


@pytest.mark.parametrize(
    ("undo", "reason"),
    [
        ({"delet_topic": "a"}, "step 1: undo: there is no verb 'delet_topic'; did you mean 'delete_topic'"),
        ({"pause": 1}, "one verb alone is expected"),
        ({"repeat": {"times": 1, "steps": [{"delete_topic": "a"}]}}, "one verb alone is expected"),
        ({"delete_topic": "a", "at": 1}, "one verb alone is expected"),
        ({"delete_topic": "a", "undo": {"create_topic": "a"}}, "one verb alone is expected"),
        ([], "step 1: undo: .* is no object"),
        ({}, "one verb is expected"),
    ],
)
def test_what_cannot_undo_a_step_is_refused_before_the_first_step(undo: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_scenario({"steps": [{"create_topic": "a", "undo": undo}]}, klamm.ControlClient)


async def topic_names(cluster: klamm.Cluster) -> list[str]:
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        return sorted(one.topic_name or "" for one in (await admin.metadata()).topics)


async def test_without_a_limit_the_scenario_names_what_it_needs() -> None:
    async with klamm.Cluster(brokers=1) as cluster:
        with pytest.raises(ScenarioFailed, match=r"klamm serve with --set max\.broker\.partitions=N") as failed:
            await cluster.run_scenario(LIMIT)
        assert len(failed.value.report.steps) == 1
        assert await topic_names(cluster) == []
    async with klamm.Cluster(brokers=1, profile="kafka", configs={"max.broker.partitions": 20}) as cluster:
        with pytest.raises(ScenarioFailed, match="without --profile kafka"):
            await cluster.run_scenario(LIMIT)


@pytest.mark.parametrize(
    ("configs", "broker_configs", "limit"),
    [
        ({"max.partitions": 70}, {}, 70),
        ({"max.partitions": 70, "max.broker.partitions": 50}, {}, 50),
        ({}, {2: {"max.broker.partitions": 40}}, 40),
    ],
)
async def test_the_smallest_limit_is_that_of_the_cluster_or_of_a_broker(
    configs: Mapping[str, int], broker_configs: Mapping[int, Mapping[str, int]], limit: int
) -> None:
    async with klamm.Cluster(brokers=2, configs=configs, broker_configs=broker_configs) as cluster:
        assert await cluster.partition_limit() == limit


async def test_no_topic_of_the_scenario_remains_and_no_other_is_deleted() -> None:
    async with klamm.Cluster(brokers=1, configs={"max.broker.partitions": 30}) as cluster:
        with pytest.raises(ScenarioFailed, match="expected to be refused"):
            await cluster.run_scenario(LIMIT, too_many=3)  # it is within the limit
        assert await topic_names(cluster) == []
        await cluster.create_topic("limit-within")
        with pytest.raises(ScenarioFailed, match="TOPIC_ALREADY_EXISTS"):
            await cluster.run_scenario(LIMIT)
        assert await topic_names(cluster) == ["limit-within"]


class SlowCluster(klamm.Cluster):
    """A cluster whose topics are made, or deleted, before the caller learns it."""

    slow = "create"

    async def create_topic(
        self,
        name: str,
        num_partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str | float] | None = None,
    ) -> None:
        await super().create_topic(name, num_partitions, replication_factor, configs)
        await trio.sleep(2 if self.slow == "create" else 0)

    async def delete_topic(self, name: str) -> None:
        await trio.sleep(2 if self.slow == "delete" else 0)
        await super().delete_topic(name)


@pytest.mark.parametrize(("slow", "steps"), [
    ("create", [made("a")]), ("delete", [made("a"), {"pause": 60}]), ("none", [made("a"), {"pause": 60}]),
])  # fmt: skip
async def test_a_cancelled_run_is_undone(slow: str, steps: list[Mapping[str, Any]]) -> None:
    async with SlowCluster(brokers=1) as cluster:
        cluster.slow = slow
        with trio.move_on_after(0.5) as scope:
            await cluster.run_scenario({"steps": steps})
        assert scope.cancelled_caught or slow == "create"
        assert await topic_names(cluster) == []


async def test_what_takes_too_long_to_be_undone_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klamm.control.scenario_run.UNDO_SECONDS", 0.2)
    async with SlowCluster(brokers=1) as cluster:
        cluster.slow = "delete"
        with trio.move_on_after(0.5) as scope:
            await cluster.run_scenario({"steps": [made("a"), {"pause": 60}]})
        assert scope.cancelled_caught
        assert await topic_names(cluster) == ["a"]
