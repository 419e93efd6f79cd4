"""Streams groups (KIP-1071): a hundred members join, until each has its tasks. Beside Apache Kafka, if asked for.

One process asks each server in turn, so that the client's cost is the same for both; each server has one broker.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final

from bench.measure_groups import GIVE_UP_SECONDS, Asker, rows_of
from bench.processes import ServerProcess
from bench.raw_client import RawClient, Refused, create_topics_frame, refuse_errors
from bench.rows import Row
from bench.workbench import Workbench
from klamm.protocol.messages.configs import incremental_alter_configs as configs
from klamm.protocol.messages.groups import find_coordinator
from klamm.protocol.messages.streams import streams_group_heartbeat as streams

TOPIC: Final = "lines"
TASKS: Final = 1_000
MEMBERS: Final = 100
THREADS: Final = 4
"""Members of one process."""
STANDBY_REPLICAS: Final = (0, 1)
GROUP_TYPE: Final = 32
HEARTBEAT, ALTER, FIND = 0, 1, 4


def measure_streams(bench: Workbench) -> list[Row]:
    """Without standby tasks, and with one for each task."""
    with ExitStack() as stack:
        servers: list[ServerProcess] = [stack.enter_context(bench.klamm(brokers=1))]
        if bench.kafka_class_path:
            servers.append(stack.enter_context(bench.kafka(stack.enter_context(bench.folder()))))
        askers = {server.name: _asker(server) for server in servers}
        count = bench.samples(MEMBERS, 10)
        rows = []
        for replicas in STANDBY_REPLICAS:
            found = {name: _rebalance(name, asker, count, replicas) for name, asker in askers.items()}
            standby = f", {replicas} standby task each" if replicas else ""
            what = f"{count:,} members join a streams group of {TASKS:,} tasks{standby}, until each has its tasks"
            rows += rows_of("streams", what, "ms", found, {"kafka": 1.0})
        return rows


def _asker(server: ServerProcess) -> Asker:
    client = RawClient(server.addresses[0])
    refuse_errors(client.exchange(create_topics_frame(TOPIC, TASKS, 1)).payload)
    asker = Asker(client)
    request = find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"])
    give_up_at = time.monotonic() + GIVE_UP_SECONDS
    while asker.ask(find_coordinator.API, FIND, request)[0].coordinators[0].error_code:
        if time.monotonic() > give_up_at:
            raise Refused(f"{server.name} has no coordinator")
        time.sleep(0.05)
    return asker


def _configure(asker: Asker, group_id: str, **values: int) -> None:
    names = {name: f"streams.{name.replace('_', '.')}" for name in values}
    altered = [configs.AlterableConfig(name=names[name], value=str(value)) for name, value in values.items()]
    resource = configs.AlterConfigsResource(resource_type=GROUP_TYPE, resource_name=group_id, configs=altered)
    found, _ = asker.ask(configs.API, ALTER, configs.IncrementalAlterConfigsRequest(resources=[resource]))
    if found.responses[0].error_code:
        raise Refused(f"configs of the group: {found.responses[0].error_message}")


class _Member:
    """What a member knows."""

    def __init__(self, number: int) -> None:
        self.member_id = f"m{number}"
        self.process_id = f"p{number // THREADS}"
        self.epoch = 0
        self.active: Sequence[int] = ()
        self.standby: Sequence[int] = ()

    def beat(self, asker: Asker, group_id: str, changelogs: list[streams.TopicInfo]) -> None:
        joins = self.epoch == 0
        one = streams.Subtopology(subtopology_id="0", source_topics=[TOPIC], state_changelog_topics=changelogs)
        request = streams.StreamsGroupHeartbeatRequest(
            group_id=group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            topology=streams.Topology(subtopologies=[one]) if joins else None,
            process_id=self.process_id if joins else None,
            active_tasks=_listed(self.active),
            standby_tasks=_listed(self.standby),
            warmup_tasks=[],
        )
        found, _ = asker.accepted(streams.API, HEARTBEAT, request)
        self.epoch = found.member_epoch
        if found.active_tasks is not None:
            self.active = [at for each in found.active_tasks for at in each.partitions]
            self.standby = [at for each in found.standby_tasks for at in each.partitions]


def _listed(partitions: Sequence[int]) -> list[streams.TaskIds]:
    return [streams.TaskIds(subtopology_id="0", partitions=partitions)] if partitions else []


def _rebalance(name: str, asker: Asker, count: int, replicas: int) -> float:
    """Members join one after the other, then beat until all tasks have their members. Returns the milliseconds."""
    group_id = f"streams-{replicas}"
    changelogs = [streams.TopicInfo(name=f"{group_id}-changelog")] if replicas else []
    _configure(asker, group_id, assignment_interval_ms=0, initial_rebalance_delay_ms=0, num_standby_replicas=replicas)
    members = [_Member(number) for number in range(count)]
    began = time.perf_counter()
    while not _is_settled(members, replicas):
        if time.perf_counter() > began + GIVE_UP_SECONDS:
            raise Refused(f"{name}: {count} members do not become stable")
        for member in members:
            member.beat(asker, group_id, changelogs)
    return (time.perf_counter() - began) * 1_000


def _is_settled(members: Sequence[_Member], replicas: int) -> bool:
    active, standby = (sum(len(each) for each in tasks) for tasks in zip(*_tasks(members), strict=True))
    return len({member.epoch for member in members}) == 1 and active == TASKS and standby == TASKS * replicas


def _tasks(members: Sequence[_Member]) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    return ((member.active, member.standby) for member in members)
