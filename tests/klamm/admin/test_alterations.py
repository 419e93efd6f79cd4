"""The admin client alters configs: those of a broker at that broker, all others at any broker, with a result for
each."""

import pytest

import klamm
from klamm import ConfigAlteration, ConfigOperation, ConfigResource, ConfigSource, ErrorCode, NewTopic

LIMIT = "max.broker.partitions"
TOPIC, NO_TOPIC = ConfigResource.topic("t"), ConfigResource.topic("nope")
FIRST, SECOND, ALL = ConfigResource.broker(1), ConfigResource.broker(2), ConfigResource.broker()


async def shown(admin: klamm.AdminClient, resource: ConfigResource, name: str) -> tuple[str | None, ConfigSource]:
    (result,) = await admin.describe_configs([resource], keys=[name])
    entry = result.raise_for_error().configs[name]
    return entry.value, entry.source


async def test_configs_are_set_deleted_appended_and_subtracted() -> None:
    async with klamm.Cluster(brokers=1) as cluster, klamm.AdminClient(cluster.bootstrap_servers) as admin:
        await admin.create_topics([NewTopic("t", 1, 1, {"flush.ms": "5"})])
        for alterations, name, value in (
            ([ConfigAlteration("retention.ms", "1000")], "retention.ms", "1000"),
            ([ConfigAlteration.delete("flush.ms")], "flush.ms", str(2**63 - 1)),
            ([ConfigAlteration.append("cleanup.policy", "compact")], "cleanup.policy", "delete,compact"),
            ([ConfigAlteration.subtract("cleanup.policy", "delete")], "cleanup.policy", "compact"),
            ([ConfigAlteration("flush.ms", "7", ConfigOperation.SET)], "flush.ms", "7"),
        ):
            (result,) = await admin.incremental_alter_configs({TOPIC: alterations})
            assert (result.resource, result.error) == (TOPIC, None)
            assert (await shown(admin, TOPIC, name))[0] == value


async def test_each_resource_has_its_result_and_each_broker_is_asked_itself() -> None:
    async with klamm.Cluster(brokers=2) as cluster, klamm.AdminClient(cluster.bootstrap_servers) as admin:
        wanted = {
            SECOND: [ConfigAlteration(LIMIT, "20")],
            NO_TOPIC: [ConfigAlteration("flush.ms", "5")],
            FIRST: [ConfigAlteration(LIMIT, "many")],
            ALL: [ConfigAlteration(LIMIT, "30")],
        }
        results = await admin.incremental_alter_configs(wanted)
        assert [result.resource for result in results] == list(wanted)
        codes = [result.error.code if result.error else ErrorCode.NONE for result in results]
        assert codes == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.NONE,
        ]
        assert await shown(admin, SECOND, LIMIT) == ("20", ConfigSource.DYNAMIC_BROKER_CONFIG)
        assert await shown(admin, FIRST, LIMIT) == ("30", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        with pytest.raises(klamm.RequestFailed, match=r"^broker '1': INVALID_REQUEST \(42\): Invalid value many"):
            results[2].raise_for_error()


async def test_configs_are_replaced_as_a_whole_or_only_checked() -> None:
    async with klamm.Cluster(brokers=1) as cluster, klamm.AdminClient(cluster.bootstrap_servers) as admin:
        await admin.create_topics([NewTopic("t", 1, 1, {"flush.ms": "5"})])
        for validate_only, flush_ms in ((True, "5"), (False, str(2**63 - 1))):
            (result,) = await admin.alter_configs({TOPIC: {"retention.ms": "1"}}, validate_only=validate_only)
            assert result.raise_for_error() is result
            assert (await shown(admin, TOPIC, "flush.ms"))[0] == flush_ms
        assert await admin.incremental_alter_configs({}) == ()
        alteration = {TOPIC: [ConfigAlteration("retention.ms", "2")]}
        await admin.incremental_alter_configs(alteration, validate_only=True)
        assert (await shown(admin, TOPIC, "retention.ms"))[0] == "1"
