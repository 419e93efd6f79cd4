"""What profile `kip` and profile `kafka` answer differently, row by row of docs/profiles.md, over a real socket."""

from collections.abc import Awaitable, Callable

import pytest

from klamm import NewTopic
from klamm.controller.settings import PROFILES, Profile
from klamm.protocol.messages.topics import create_topics
from klamm.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from tests.rules.situation import NONE, code, situation, text

Answers = dict[Profile, object]
Row = Callable[[Profile], Awaitable[object]]
ROWS: list[tuple[str, Row, Answers]] = []


def row(rule: str, *, kip: object, kafka: object) -> Callable[[Row], Row]:
    """One row: its words, what is done, and what each profile answers."""

    def add(done: Row) -> Row:
        ROWS.append((rule, done, {"kip": kip, "kafka": kafka}))
        return done

    return add


@row("CreatePartitions: topic unknown", kip=17, kafka=3)
async def _(profile: Profile) -> object:
    async with situation(profile) as now:
        return await now.enlarge("unknown", 2)


@row("CreatePartitions: size of assignments differs from the number of new partitions", kip=42, kafka=39)
async def _(profile: Profile) -> object:
    async with situation(profile) as now:
        await now.create("t", 1, 1)
        return await now.enlarge("t", 3, [1])


@row("CreateTopics v2-v3 that relies on a default", kip=[37, 38, 37] * 2, kafka=[0, 0, 0] * 2)
async def _(profile: Profile) -> object:
    found = []
    async with situation(profile) as now:
        for version in (2, 3):
            topics = [
                CreatableTopic(name=f"t{version}-{partitions}-{replicas}", num_partitions=partitions,
                               replication_factor=replicas)
                for partitions, replicas in ((-1, 1), (1, -1), (-1, -1))
            ]  # fmt: skip
            answer = await now.raw(create_topics.API, version, CreateTopicsRequest(topics=topics))
            found += [topic.error_code for topic in answer.topics]
    return found


@row("Automatic placement: a fenced broker is never chosen, or last in its rack and never leads",
     kip={(1, 2), (2, 1)}, kafka={(1, 2), (1, 3), (2, 1), (2, 3)})  # fmt: skip
async def _(profile: Profile) -> object:
    async with situation(profile, racks=("a", "b", "c")) as now:
        await now.cluster.stop_broker(3)
        await now.create("t", 12, 2)
        rows = set(await now.replicas("t"))
        assert all(replicas[0] != 3 for replicas in rows)
        return rows


@row("Automatic placement: rack-alternated round robin, which skips full brokers", kip=[4, 4, 4, 0], kafka=[4, 4, 4, 0])
async def _(profile: Profile) -> object:
    async with situation(profile, brokers=4, racks=("a", "a", "b", "b"), max_broker_partitions=4) as now:
        assert await now.place("full", *[[4]] * 4) == NONE
        assert await now.create("t", 6, 2) == NONE
        return [sum(broker_id in replicas for replicas in await now.replicas("t")) for broker_id in (1, 2, 3, 4)]


@row("Too few live brokers for the replication factor", kip=[38, 38], kafka=[0, 38])
async def _(profile: Profile) -> object:
    async with situation(profile) as now:
        await now.cluster.stop_broker(3)
        return [await now.create("t", 1, 3), await now.create("u", 1, 4)]


@row("Too few live brokers when KIP-409 is on: placeholders, which min ISR in live brokers allows",
     kip=[(1, 2, -1), (1, 2, -1, -2), 38], kafka=[(1, 2, 3), (1, 2, 3, -1), 38])  # fmt: skip
async def _(profile: Profile) -> object:
    async with situation(profile, enable_under_replicated_topic_creation="true") as now:
        await now.cluster.stop_broker(3)
        found: list[object] = []
        for factor in (3, 4):
            assert await now.create(f"t{factor}", 1, factor) == NONE
            (replicas,) = await now.replicas(f"t{factor}")
            found.append((*sorted(replicas[:2]), *replicas[2:]))
        return [*found, await now.create("u", 1, 4, min_insync_replicas="3")]


@row("Some brokers have a rack, some not: racks are ignored, or none is a rack of its own", kip=True, kafka=False)
async def _(profile: Profile) -> object:
    async with situation(profile, brokers=2) as now:
        assert await now.cluster.add_broker("r") == 3
        await now.create("t", 12, 2)
        return {1, 2} in [set(replicas) for replicas in await now.replicas("t")]


@row("More than 10,000 partitions in one request", kip=NONE, kafka=44)
async def _(profile: Profile) -> object:
    async with situation(profile) as now:
        return await now.create("t", 10_001, 1)


@row("More than 1,000,000 partitions in one request", kip="1000000",
     kafka="Excessively large number of partitions per request.")  # fmt: skip
async def _(profile: Profile) -> object:
    async with situation(profile) as now:
        wanted = [NewTopic("t", 1_000_000, 1), NewTopic("u", 1, 1)]
        results = await now.admin.create_topics(wanted)
        assert [code(result) for result in results] == [44, 44]
        assert await now.topics() == []
        return "1000000" if "1000000" in text(results[0]) else text(results[0])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("done", "answers"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
async def test_row(done: Row, answers: Answers, profile: Profile) -> None:
    assert await done(profile) == answers[profile]
