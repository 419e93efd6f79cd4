"""KIP-195 (more partitions) and KIP-464 (defaults), rule by rule over a real socket: the same in both profiles."""

import pytest

from klamm import ConfigResource, ConfigSource, NewPartitions, NewTopic
from klamm.controller.settings import PROFILES, Profile
from klamm.protocol.messages.security import create_acls
from klamm.protocol.messages.security.create_acls import AclCreation, CreateAclsRequest
from klamm.protocol.messages.topics import create_topics, metadata
from klamm.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tests.rules.situation import NONE, Row, Rows, code, shown, situation

row = Rows()
REFUSED = 44


@row("KIP-195: one result per topic, in request order, with its name; a duplicated name is INVALID_REQUEST once")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        for name in ("b", "a"):
            await now.create(name, 1, 1)
        wanted = [NewPartitions(name, 2) for name in ("b", "twice", "a", "twice")]
        results = await now.admin.create_partitions(wanted)
        assert [(result.topic_name, code(result)) for result in results] == [("b", 0), ("twice", 42), ("a", 0)]


@row("KIP-195: count at most the present one is INVALID_PARTITIONS 37")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.create("t", 3, 1)
        assert [await now.enlarge("t", count) for count in (3, 2, 0, -1)] == [37] * 4


@row("KIP-195: an assignment of another length than the replication factor is INVALID_REPLICA_ASSIGNMENT 39")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.create("t", 1, 2)
        assert [await now.enlarge("t", 2, replicas) for replicas in ([1], [1, 2, 3], [])] == [39] * 3
        assert await now.enlarge("t", 2, [3, 1]) == NONE
        assert (await now.replicas("t"))[1] == (3, 1)


@row("KIP-195: duplicate, unknown or negative broker ids are INVALID_REPLICA_ASSIGNMENT 39")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.create("t", 1, 2)
        assert [await now.enlarge("t", 2, replicas) for replicas in ([1, 1], [1, 9], [1, -1])] == [39] * 3


@row("KIP-195: validate_only checks everything, limits included, and changes nothing")
async def _(profile: Profile) -> None:
    async with situation(profile, max_partitions=2) as now:
        await now.create("t", 1, 1)
        assert await now.enlarge("t", 3, validate_only=True) == REFUSED
        assert await now.enlarge("t", 2, [9], validate_only=True) == 39
        assert await now.enlarge("t", 2, validate_only=True) == NONE
        assert len(await now.partitions("t")) == 1


@row("KIP-195: a Metadata request sent after the answer, to any broker, shows the new count")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.create("t", 1, 1)
        assert await now.enlarge("t", 5) == NONE
        body = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        for broker_id in (1, 2, 3):
            assert len((await now.raw(metadata.API, 12, body, broker_id)).topics[0].partitions) == 5


@row("KIP-195: without ALTER it is TOPIC_AUTHORIZATION_FAILED 29, whether the topic exists or not")
async def _(profile: Profile) -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    async with situation(profile, authorizer_class_name=authorizer, allow_everyone_if_no_acl_found="true") as now:
        await now.create("there", 1, 1)
        no_alter = AclCreation(resource_type=2, resource_name="*", resource_pattern_type=3,
                               principal="User:ANONYMOUS", host="*", operation=7, permission_type=2)  # fmt: skip
        (made,) = (await now.raw(create_acls.API, 3, CreateAclsRequest(creations=[no_alter]))).results
        assert made.error_code == NONE
        results = [await now.try_enlarge(name, 2) for name in ("there", "nowhere")]
        assert [code(result) for result in results] == [29, 29]
        assert results[0].error == results[1].error


@row("KIP-464: from version 4 on -1 means num.partitions and default.replication.factor, each on its own")
async def _(profile: Profile) -> None:
    async with situation(profile, num_partitions=4, default_replication_factor=3) as now:
        for version in (4, 5, 7):
            for partitions, factor in ((-1, -1), (2, -1), (-1, 1)):
                name = f"t{version}-{partitions}-{factor}"
                topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor)
                answer = await now.raw(create_topics.API, version, CreateTopicsRequest(topics=[topic]))
                assert answer.topics[0].error_code == NONE
                rows = await now.replicas(name)
                assert (len(rows), len(rows[0])) == (4 if partitions < 0 else 2, 3 if factor < 0 else 1)


@row("KIP-464: with manual assignments both counts must be -1")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        wanted = [NewTopic(f"t{partitions}{factor}", partitions, factor, {}, {0: [1]})
                  for partitions, factor in ((1, -1), (-1, 1), (1, 1), (-1, -1))]  # fmt: skip
        assert [code(result) for result in await now.admin.create_topics(wanted)] == [42, 42, 42, 0]


@row("KIP-464: both configs are static and read-only, from the settings, else Kafka's default")
async def _(profile: Profile) -> None:
    async with situation(profile, num_partitions=4) as now:
        for name in ("num.partitions", "default.replication.factor"):
            assert await now.set(name, 2) == await now.set(name, 2, broker_id=1) == 42
            entry = await shown(now, ConfigResource.broker(1), name)
            assert entry.read_only
            assert (entry.value, entry.source) == (
                ("4", ConfigSource.STATIC_BROKER_CONFIG)
                if name == "num.partitions"
                else ("1", ConfigSource.DEFAULT_CONFIG)
            )


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("done", row.done, ids=row.rules)
async def test_row(done: Row, profile: Profile) -> None:
    await done(profile)
