"""KIP-179's AlterTopics, rule by rule over a real socket: the same in both profiles.

A move is seen in progress while a broker that it needs is stopped.
"""

from typing import Any

import pytest

import klamm
from klamm import PolicyViolation, RequestedTopic, TopicAlteration
from klamm.admin.types import ConfigAlteration, ConfigResource
from klamm.controller.settings import PROFILES, Profile
from klamm.protocol.messages.security import create_acls
from klamm.protocol.messages.security.create_acls import AclCreation, CreateAclsRequest
from klamm.protocol.messages.topics import alter_topics
from klamm.protocol.messages.topics.alter_topics import AlterTopicRequest, AlterTopicsRequest
from tests.rules.situation import NONE, Row, Rows, Situation, code, eventually, situation, text
from tests.rules.test_reassignment import done, move, moves

row = Rows()
REFUSED = 44
ON = {"enable_under_replicated_topic_creation": "true"}


async def alter(now: Situation, *wanted: TopicAlteration, validate_only: bool = False) -> list[int]:
    """Error codes in the order of the request."""
    results = await now.admin.alter_topics(wanted, validate_only=validate_only)
    assert [result.topic_name for result in results] == [one.topic_name for one in wanted]
    return [code(result) for result in results]


def to(count: int = -1, factor: int = -1, **assignment: list[int]) -> TopicAlteration:
    """What topic t is to become; `p0=[1, 2]` places partition 0."""
    return TopicAlteration("t", count, factor, {int(name[1:]): brokers for name, brokers in assignment.items()})


@row("KIP-179: -1 means no change; 0 also when the values equal the present ones, nothing changes then")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.place("t", [1, 2], [2, 3])
        before = await now.partitions("t")
        for wanted in (to(), to(2), to(factor=2), to(2, 2), to(p1=[2, 3]), to(p0=[1, 2], p1=[2, 3])):
            assert await alter(now, wanted) == [NONE]
        assert await now.partitions("t") == before
        assert await moves(now) == {}


@row("KIP-179: needs ClusterAction on the cluster, 31")
async def _(profile: Profile) -> None:
    guarded: dict[str, Any] = {
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow_everyone_if_no_acl_found": "true",
    }
    async with situation(profile, **guarded) as now:
        await now.create("t", 1, 1)
        deny = AclCreation(
            resource_type=4,
            resource_name="kafka-cluster",
            resource_pattern_type=3,
            principal="User:ANONYMOUS",
            host="*",
            operation=9,
            permission_type=2,
        )
        answer = await now.raw(create_acls.API, 3, CreateAclsRequest(creations=[deny]))
        assert [result.error_code for result in answer.results] == [0]
        assert await alter(now, to(2), TopicAlteration("none", 2)) == [31, 31]
        assert len(await now.partitions("t")) == 1


@row("KIP-179: 17 unknown topic; 37 bad partition count, also a decrease; 38 bad replication factor")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.create("t", 3, 1)
        assert await alter(now, TopicAlteration("none", 3)) == [17]
        assert [await alter(now, to(count)) for count in (2, 0, -2)] == [[37]] * 3
        assert [await alter(now, to(factor=factor)) for factor in (0, -2, 4)] == [[38]] * 3
        assert await alter(now, to(4, 4)) == [38]


@row("KIP-179: 25 unknown broker id; fenced brokers are known")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.place("t", [1])
        assert [await alter(now, to(p0=[broker_id])) for broker_id in (4, -1)] == [[25]] * 2
        await now.cluster.stop_broker(3)
        assert await alter(now, to(p0=[3])) == [NONE]
        assert await moves(now) == {("t", 0): ((3, 1), (3,), (1,))}


@row("KIP-179: 42 assignment together with a new count or factor, or duplicate topics")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.place("t", [1], [2])
        assert await alter(now, to(3, p0=[3])) == [42]
        assert await alter(now, to(factor=2, p0=[3, 1], p1=[2, 3])) == [42]
        wanted = [AlterTopicRequest(topic="t", num_partitions=count) for count in (3, 4)]
        body = AlterTopicsRequest(alter_topic_requests=[*wanted, AlterTopicRequest(topic="none")])
        answer = await now.raw(alter_topics.API, 0, body, broker_id=2)
        assert [(one.topic, one.error_code) for one in answer.topic_errors] == [("t", 42), ("none", 17)]
        assert await now.replicas("t") == [(1,), (2,)]


@row("KIP-179: 39 unknown partition, duplicate brokers, lists of unequal length")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.place("t", [1], [2])
        for wanted in (to(p2=[1]), to(p0=[1, 1], p1=[1, 2]), to(p0=[1, 2], p1=[1]), to(p0=[])):
            assert await alter(now, wanted) == [39]


@row("KIP-179: 60 while a reassignment of the topic is in progress")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.place("t", [1], [1])
        await now.place("u", [1])
        await now.cluster.stop_broker(3)
        assert await move(now, {("t", 1): [3]}) == [NONE]
        assert [await alter(now, wanted) for wanted in (to(3), to(factor=2), to(p0=[2]), to())] == [[60]] * 4
        assert await alter(now, TopicAlteration("u", 2, 2)) == [NONE]
        assert await move(now, {("t", 1): None}) == [NONE]
        assert await alter(now, to(3)) == [NONE]


@row(
    "KIP-179: 44 limits; KIP-578: AlterTopics answers POLICY_VIOLATION for the offending topic only, with both configs"
)
async def _(profile: Profile) -> None:
    async with situation(profile, max_broker_partitions=2, max_partitions=4) as now:
        await now.hold(0, 1, 1)
        await now.place("t", [1])
        results = await now.admin.alter_topics([to(factor=3), TopicAlteration("on-2", 3, 2)])
        assert [code(result) for result in results] == [NONE, REFUSED]
        for said in ("max.broker.partitions=2", "max.partitions=4"):
            assert said in text(results[1])
        await done(now)
        assert await now.held() == [1, 2, 2]
        (refused,) = await now.admin.alter_topics([TopicAlteration("on-3", 3, 1)])
        assert (code(refused), "max.partitions=4" in text(refused)) == (REFUSED, True), text(refused)
        assert await alter(now, to(p0=[3, 2, 1])) == [NONE]
        (refused,) = await now.admin.alter_topics([TopicAlteration("on-3", replica_assignments={0: [2]})])
        assert (code(refused), "1 new replica beside the 2 on broker 2" in text(refused)) == (REFUSED, True)


@row("KIP-179: count and factor together are allowed; new partitions get the new factor")
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=4) as now:
        await now.place("t", [1], [2])
        assert await alter(now, to(4, 3)) == [NONE]
        assert [len(replicas) for replicas in await now.replicas("t")] == [3] * 4
        await done(now)
        assert [replicas[0] for replicas in await now.replicas("t")][:2] == [1, 2]
        assert all(set(one.isr) == set(one.replicas) for one in await now.partitions("t"))


@row("KIP-179: a partial assignment's lists must all have the topic's factor; one naming every partition may change it "
     "uniformly")  # fmt: skip
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.place("t", [1, 2], [2, 3])
        assert await alter(now, to(p0=[1])) == [39]
        assert await alter(now, to(p0=[1, 2, 3])) == [39]
        assert await alter(now, to(p0=[3, 2])) == [NONE]
        await done(now)
        assert await alter(now, to(p0=[3, 2], p1=[1])) == [39]
        assert await alter(now, to(p0=[3], p1=[2])) == [NONE]
        assert await now.replicas("t") == [(3,), (2,)]
        assert await alter(now, to(p0=[3, 1, 2], p1=[2, 3, 1])) == [NONE]
        await done(now)
        assert await now.replicas("t") == [(3, 1, 2), (2, 3, 1)]


@row("KIP-179: AlterTopics makes no placeholders, too few live: 38; shrinking drops placeholders first")
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=1, **ON) as now:
        await now.create("t", 1, 3)
        await now.create("u", 1, 2)
        assert await now.replicas("t") == [(1, -1, -2)]
        assert await alter(now, TopicAlteration("u", 2)) == [38]
        assert await alter(now, TopicAlteration("u", replication_factor=3)) == [38]
        assert await alter(now, to(factor=2)) == [NONE]
        assert await now.replicas("t") == [(1, -1)]
        assert await now.cluster.add_broker() == 2
        assert [*await now.replicas("t"), *await now.replicas("u")] == [(1, 2), (1, 2)]


@row("KIP-179: a new factor adds replicas rack-aware with the fewest moves")
async def _(profile: Profile) -> None:
    async with situation(profile, brokers=4, racks=["a", "a", "b", "b"]) as now:
        await now.place("t", [1], [2], [3], [4])
        assert await alter(now, to(factor=2)) == [NONE]
        await done(now)
        replicas = await now.replicas("t")
        assert [first for first, _ in replicas] == [1, 2, 3, 4]
        assert all((first in (1, 2)) != (second in (1, 2)) for first, second in replicas)


@row("KIP-179: or removes from the end, never the leader while another can go")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.place("t", [1, 2, 3], [3, 2, 1])
        await now.cluster.stop_broker(3)
        await now.cluster.start_broker(3)

        async def in_sync() -> bool:
            return all(len(one.isr) == 3 for one in await now.partitions("t"))

        await eventually(in_sync)
        assert await alter(now, to(factor=2)) == [NONE]
        assert await now.replicas("t") == [(1, 2), (3, 2)]
        assert await alter(now, to(factor=1)) == [NONE]
        assert await now.replicas("t") == [(1,), (2,)]
        assert [one.leader for one in await now.partitions("t")] == [1, 2]


@row("KIP-179: validate_only checks everything and changes nothing; what has begun can be cancelled")
async def _(profile: Profile) -> None:
    async with situation(profile) as now:
        await now.place("t", [1])
        assert await alter(now, to(3, 2), validate_only=True) == [NONE]
        assert await alter(now, to(3, 4), validate_only=True) == [38]
        assert await now.replicas("t") == [(1,)]
        await now.cluster.stop_broker(3)
        assert await alter(now, to(p0=[3])) == [NONE]
        assert await move(now, {("t", 0): None}) == [NONE]
        assert await now.replicas("t") == [(1,)]


@row("KIP-179: the create-topic policy applies to alterations too, with the topic's configs in its view")
async def _(profile: Profile) -> None:
    seen: list[RequestedTopic] = []

    def policy(topic: RequestedTopic) -> None:
        seen.append(topic)
        if topic.replication_factor == 1 and topic.configs.get("min.insync.replicas") == "2":
            raise PolicyViolation("one replica is not enough")

    cluster = klamm.Cluster(brokers=2, profile=profile, topic_policy=policy)
    async with cluster, klamm.AdminClient(cluster.bootstrap_servers) as admin:
        now = Situation(cluster, admin, profile)
        await now.place("t", [1, 2])
        resource = ConfigResource.topic("t")
        await now.admin.incremental_alter_configs({resource: [ConfigAlteration("min.insync.replicas", "2")]})
        seen.clear()
        (refused,) = await now.admin.alter_topics([to(2, 1)])
        assert (code(refused), text(refused)) == (REFUSED, "one replica is not enough")
        assert len((await now.replicas("t"))[0]) == 2
        assert await alter(now, to(3), TopicAlteration("none", 3)) == [NONE, 17]
        assert await alter(now, to(p0=[2, 1])) == [NONE]
        assert [(one.num_partitions, one.replication_factor) for one in seen] == [(2, 1), (3, 2), (None, None)]
        assert {len(one) for one in (seen[2].replica_assignments or {}).values()} == {2}
        assert all(dict(one.configs) == {"min.insync.replicas": "2"} for one in seen)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("shown", row.done, ids=row.rules)
async def test_row(shown: Row, profile: Profile) -> None:
    await shown(profile)
