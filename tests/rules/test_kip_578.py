"""KIP-578 (limits), rule by rule over a real socket: the same in both profiles."""

import pytest

from klamm import ConfigResource, ConfigSource, ErrorCode, NewPartitions, NewTopic
from klamm.controller.settings import PROFILES, Profile
from klamm.protocol.messages.topics import create_partitions, create_topics, metadata
from klamm.protocol.messages.topics.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tests.rules.situation import NONE, Row, Rows, code, shown, situation, text

row = Rows()
REFUSED = ErrorCode.POLICY_VIOLATION
NO_LIMIT = 2**63 - 1


@row("KIP-578: the limits are int64, by default 2^63-1, at least 1, visible with their sources and synonyms")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        for name in ("max.broker.partitions", "max.partitions"):
            entry = await shown(now, ConfigResource.broker(1), name)
            assert (entry.value, entry.source) == (str(NO_LIMIT), ConfigSource.DEFAULT_CONFIG)
            assert [await now.set(name, value) for value in (0, -1, NO_LIMIT + 1, "x", "1.5")] == [42] * 5
            assert [await now.set(name, value) for value in (NO_LIMIT, 1)] == [NONE] * 2
            assert await now.set(name, 5, broker_id=1) == NONE
            entry = await shown(now, ConfigResource.broker(1), name)
            assert [(synonym.value, synonym.source) for synonym in entry.synonyms] == [
                ("5", ConfigSource.DYNAMIC_BROKER_CONFIG),
                ("1", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
                (str(NO_LIMIT), ConfigSource.DEFAULT_CONFIG),
            ]


@row("KIP-578: static, dynamic cluster-wide, and per broker, where the value of the broker asked counts")
async def _(profile: Profile) -> None:
    async with situation(profile, max_partitions=1) as now:
        assert await now.set("max.partitions", 2) == NONE
        assert await now.set("max.partitions", 3, broker_id=2) == NONE
        for broker_id, most in ((1, 2), (2, 3), (3, 2)):
            codes = []
            for partitions in (most, most + 1):
                topic = CreatableTopic(name="t", num_partitions=partitions, replication_factor=1)
                body = CreateTopicsRequest(topics=[topic], validate_only=True)
                codes.append((await now.raw(create_topics.API, 7, body, broker_id)).topics[0].error_code)
            assert codes == [NONE, REFUSED]


@row("KIP-578: __consumer_offsets and __transaction_state are left out and never refused; no others")
async def _(profile: Profile) -> None:
    async with situation(profile, max_broker_partitions=1, max_partitions=1) as now:
        assert await now.create("__consumer_offsets", 5, 3) == NONE
        assert await now.create("__transaction_state", 5, 3) == NONE
        assert await now.enlarge("__consumer_offsets", 9) == NONE
        assert await now.create("__share_group_state", 1, 1) == NONE
        assert await now.create("__share_group_state_2", 1, 1) == REFUSED


@row("KIP-578: the stricter limit applies; the message names both configs with their values and what exceeds them")
async def _(profile: Profile) -> None:
    for broker_limit, cluster_limit, refusing in ((2, 50, "broker"), (20, 5, "cluster")):
        async with situation(profile, max_broker_partitions=broker_limit, max_partitions=cluster_limit) as now:
            refused = await now.try_create("t", 7, 1)
            assert code(refused) == REFUSED, refusing
            for said in (f"max.broker.partitions={broker_limit}", f"max.partitions={cluster_limit}", "7"):
                assert said in text(refused)


@row("KIP-578: CreateTopics, CreatePartitions and auto-creation refuse the offending topic only, with 44")
async def _(profile: Profile) -> None:
    async with situation(profile, max_partitions=4) as now:
        results = await now.admin.create_topics([NewTopic("a", 1, 1), NewTopic("big", 9, 1), NewTopic("b", 1, 1)])
        assert [code(result) for result in results] == [NONE, REFUSED, NONE]
        enlarged = await now.admin.create_partitions([NewPartitions("a", 9), NewPartitions("b", 2)])
        assert [code(result) for result in enlarged] == [REFUSED, NONE]
        reported = (await now.admin.metadata(["c", "d"], allow_auto_topic_creation=True)).topics
        assert [code(topic) for topic in reported] == [3, REFUSED]
        assert await now.topics() == ["a", "b", "c"]


@row("KIP-578: POLICY_VIOLATION is sent in every version")
async def _(profile: Profile) -> None:
    async with situation(profile, max_partitions=1) as now:
        await now.create("there", 1, 1)
        for version in create_topics.API.kept_versions:
            new = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
            created = await now.raw(create_topics.API, version, CreateTopicsRequest(topics=[new]))
            assert created.topics[0].error_code == REFUSED
        for version in create_partitions.API.kept_versions:
            more = CreatePartitionsTopic(name="there", count=2, assignments=None)
            body = CreatePartitionsRequest(topics=[more], timeout_ms=30_000)
            enlarged = await now.raw(create_partitions.API, version, body)
            assert enlarged.results[0].error_code == REFUSED
        for version in metadata.API.kept_versions:
            wanted = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            reported = await now.raw(metadata.API, version, wanted)
            assert reported.topics[0].error_code == REFUSED


@row("KIP-578: manual assignments are checked against the limits, too")
async def _(profile: Profile) -> None:
    async with situation(profile, max_broker_partitions=2) as now:
        refused = await now.try_place("t", [1, 2], [1, 3], [1, 2])
        assert code(refused) == REFUSED
        assert "broker 1" in text(refused)
        assert await now.place("t", [1, 2], [1, 3]) == NONE
        assert await now.enlarge("t", 3, [1, 2]) == REFUSED
        assert await now.enlarge("t", 3, [2, 3]) == NONE


@row("KIP-578: soft: what is over a limit keeps all it has, and gets nothing more")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.hold(5, 0, 0)
        assert await now.set("max.broker.partitions", 2) == NONE
        assert await now.create("t", 2, 2) == NONE
        assert await now.held() == [5, 2, 2]
        assert await now.set("max.partitions", 3) == NONE
        assert await now.create("u", 1, 1) == REFUSED
        assert await now.held() == [5, 2, 2]


@row("KIP-578, the KIP's example: counts 8, 6, 9 and limit 10: RF 3 gives 9, 7, 10; then RF 3 is refused, RF 2 is not")
async def _(profile: Profile) -> None:
    async with situation(profile, max_broker_partitions=10) as now:
        await now.hold(8, 6, 9)
        assert await now.create("first", 1, 3) == NONE
        assert await now.held() == [9, 7, 10]
        assert await now.create("second", 1, 3) == REFUSED
        assert await now.create("third", 1, 2) == NONE
        assert await now.held() == [10, 8, 10]


@row("KIP-578, the KIP's example: counts 8, 6, 9 and limit 10: two partitions RF 3 at once are refused entirely")
async def _(profile: Profile) -> None:
    async with situation(profile, max_broker_partitions=10) as now:
        await now.hold(8, 6, 9)
        assert await now.create("both", 2, 3) == REFUSED
        assert await now.held() == [8, 6, 9]


@row("KIP-578, the KIP's example: counts 10, 20, 30 and limit 40: 30 partitions RF 2 succeed")
async def _(profile: Profile) -> None:
    async with situation(profile, max_broker_partitions=40) as now:
        await now.hold(10, 20, 30)
        assert await now.create("just", 30, 2) == NONE
        assert await now.held() == [40, 40, 40]


@row("KIP-578: automatic placement finds an assignment exactly when the sum of min(headroom, P) is at least P times R")
async def _(profile: Profile) -> None:
    async with situation(profile, max_broker_partitions=10) as now:
        await now.hold(4, 8, 9)  # headroom 6, 2, 1
        for partitions, factor, fits in ((3, 2, True), (4, 2, False), (9, 1, True), (10, 1, False), (1, 3, True),
                                         (2, 3, False)):  # fmt: skip
            assert fits == (sum(min(room, partitions) for room in (6, 2, 1)) >= partitions * factor)
            (result,) = await now.admin.create_topics([NewTopic("t", partitions, factor)], validate_only=True)
            assert code(result) == (NONE if fits else REFUSED)


@row("KIP-578: several topics of one request are decided in order; each sees what the former ones took")
async def _(profile: Profile) -> None:
    async with situation(profile, max_broker_partitions=2, max_partitions=3) as now:
        wanted = [NewTopic("a", 1, 3), NewTopic("b", 2, 3), NewTopic("c", 1, 3), NewTopic("d", 1, 1)]
        for validate_only in (True, False):
            results = await now.admin.create_topics(wanted, validate_only=validate_only)
            assert [code(result) for result in results] == [NONE, REFUSED, NONE, REFUSED]
        assert await now.topics() == ["a", "c"]


@row("Order of decision: 38 first, from the number of brokers alone; then the limits, 44")
async def _(profile: Profile) -> None:
    async with situation(profile, max_partitions=1) as now:
        assert [await now.create("t", 2, 4), await now.create("t", 2, 3)] == [38, REFUSED]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("done", row.done, ids=row.rules)
async def test_row(done: Row, profile: Profile) -> None:
    await done(profile)
