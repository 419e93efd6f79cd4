"""A running cluster and the few things that the tables of rules do with it, in words as short as the rules'."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import trio

import klamm
from klamm import ConfigAlteration, ConfigResource, ErrorCode, NewPartitions, NewTopic
from klamm.admin.types import ConfigEntry
from klamm.controller.settings import Profile
from klamm.protocol.api import Api
from klamm.protocol.fields import Message
from tests.klamm.serve.test_kip_578_versions import exchange

NONE = ErrorCode.NONE
Row = Callable[[Profile], Awaitable[None]]
SECONDS = 20


class Rows:
    """A table of rules: `@row("the rule's words")` above what shows it."""

    def __init__(self) -> None:
        self.rules: list[str] = []
        self.done: list[Row] = []

    def __call__(self, rule: str) -> Callable[[Row], Row]:
        def add(done: Row) -> Row:
            self.rules.append(rule)
            self.done.append(done)
            return done

        return add


def code(result: Any) -> ErrorCode:
    """What became of an item, as its number."""
    return result.error.code if result.error else NONE


def text(result: Any) -> str:
    assert result.error is not None
    return result.error.message or ""


@dataclass(frozen=True)
class Situation:
    """A cluster, a client of its broker 1, and the profile that the cluster has."""

    cluster: klamm.Cluster
    admin: klamm.AdminClient
    profile: Profile

    async def try_create(self, name: str, partitions: int = -1, replicas: int = -1, **configs: str) -> Any:
        """The result for one topic; `min_insync_replicas="2"` is a config."""
        given = {key.replace("_", "."): value for key, value in configs.items()}
        (result,) = await self.admin.create_topics([NewTopic(name, partitions, replicas, given)])
        return result

    async def create(self, name: str, partitions: int = -1, replicas: int = -1, **configs: str) -> ErrorCode:
        return code(await self.try_create(name, partitions, replicas, **configs))

    async def try_place(self, name: str, *rows: Sequence[int]) -> Any:
        (result,) = await self.admin.create_topics([NewTopic(name, replica_assignments=dict(enumerate(rows)))])
        return result

    async def place(self, name: str, *rows: Sequence[int]) -> ErrorCode:
        return code(await self.try_place(name, *rows))

    async def try_enlarge(self, name: str, count: int, *rows: Sequence[int], validate_only: bool = False) -> Any:
        wanted = NewPartitions(name, count, rows or None)
        (result,) = await self.admin.create_partitions([wanted], validate_only=validate_only)
        return result

    async def enlarge(self, name: str, count: int, *rows: Sequence[int], validate_only: bool = False) -> ErrorCode:
        return code(await self.try_enlarge(name, count, *rows, validate_only=validate_only))

    async def set(self, name: str, value: object, broker_id: int | None = None) -> ErrorCode:
        alteration = {ConfigResource.broker(broker_id): [ConfigAlteration(name, str(value))]}
        (result,) = await self.admin.incremental_alter_configs(alteration)
        return code(result)

    async def partitions(self, name: str) -> tuple[klamm.PartitionDescription, ...]:
        (topic,) = (await self.admin.metadata([name])).topics
        return topic.raise_for_error().partitions

    async def replicas(self, name: str) -> list[tuple[int, ...]]:
        return [tuple(partition.replicas) for partition in await self.partitions(name)]

    async def topics(self) -> list[str]:
        return sorted(topic.topic_name or "" for topic in (await self.admin.metadata()).topics)

    async def held(self, brokers: int = 3) -> list[int]:
        """Replicas of broker 1, 2, …, counted from Metadata."""
        reported = (await self.admin.metadata()).topics
        lists = [partition.replicas for topic in reported for partition in topic.partitions]
        return [sum(broker_id in replicas for replicas in lists) for broker_id in range(1, brokers + 1)]

    async def hold(self, *counts: int) -> None:
        """Give broker 1, 2, … so many partitions of one replica."""
        for broker_id, count in enumerate(counts, 1):
            if count:
                assert await self.place(f"on-{broker_id}", *[[broker_id]] * count) == NONE

    async def raw(self, api: Api[Any, Any], version: int, body: Message, broker_id: int = 1) -> Any:
        """The answer of one broker to a request in one version."""
        answer = await exchange(self.cluster.bootstrap_servers.split(",")[broker_id - 1], api, version, body)
        assert answer is not None
        return answer


@asynccontextmanager
async def situation(
    profile: Profile, brokers: int = 3, racks: Sequence[str] = (), **configs: object
) -> AsyncIterator[Situation]:
    """`max_partitions=3` is a config; `racks` in the order of the brokers."""
    given = {name.replace("_", "."): str(value) for name, value in configs.items()}
    cluster = klamm.Cluster(brokers=brokers, racks=racks, seed=7, profile=profile, configs=given)
    async with cluster, klamm.AdminClient(cluster.bootstrap_servers) as admin:
        yield Situation(cluster, admin, profile)


async def shown(now: Situation, resource: ConfigResource, name: str) -> ConfigEntry:
    (result,) = await now.admin.describe_configs([resource], keys=[name], include_synonyms=True)
    return result.raise_for_error().configs[name]


async def eventually(claim: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the claim is true; each look is a request to the server."""
    with trio.fail_after(SECONDS):
        while not await claim():
            pass
