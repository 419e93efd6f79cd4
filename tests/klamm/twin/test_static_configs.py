"""The static configs of brokers in a clone: what is stored, what is not, and what a twin does with them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import pytest
import trio

import klamm
from klamm.__main__ import main
from klamm.admin.types import ConfigEntry, ConfigSource, ConfigSynonym
from klamm.cluster.twin_configs import STATIC_CONFIGS_FILE
from klamm.controller.data_limits import MAX_LOG_DIRS
from klamm.twin.static_configs import ShownConfigs

CONFIGS = {
    "num.partitions": "12",
    "default.replication.factor": "2",
    "log.retention.ms": "86400000",
    "message.max.bytes": "2000",
    "min.insync.replicas": "2",
    "num.io.threads": "17",
    "log.dirs": "/data/1,/data/2",
    "delegation.token.secret.key": "do not tell",
}
OWN = {2: {"max.broker.partitions": "70", "log.retention.hours": "5"}, 3: {"num.io.threads": "3"}}


def clone(servers: str, out: Path) -> int:
    return main(["clone", "--bootstrap-server", servers, "--out", str(out)])


async def copy_of(cluster: klamm.Cluster, folder: Path) -> Path:
    assert await trio.to_thread.run_sync(clone, cluster.bootstrap_servers, folder / "copy") == 0
    return folder / "copy"


async def static_configs(servers: str) -> Any:
    """What a client of another make sees: the values of the brokers' files, by broker and name."""

    def describe() -> Any:
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": servers})
        kind, found = confluent_kafka.admin.ConfigResource, {}
        for broker_id in (1, 2, 3):
            (future,) = admin.describe_configs([kind("broker", str(broker_id))]).values()
            found[broker_id] = {
                name: entry.value
                for name, entry in future.result(10).items()
                if entry.source == confluent_kafka.admin.ConfigSource.STATIC_BROKER_CONFIG.value
                and not name.endswith("listeners")  # the ports are those of each cluster
            }
        return found

    return await trio.to_thread.run_sync(describe)


def error_of_producing(servers: str, topic: str, size: int) -> str:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    errors: list[str] = []
    producer.produce(topic, b"x" * size, on_delivery=lambda error, _: errors.append(str(error and error.name())))
    producer.flush(10)
    return errors[0]


async def test_a_twin_of_a_clone_has_the_static_configs_of_each_broker(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with klamm.Cluster(brokers=3, configs=CONFIGS, broker_configs=OWN) as cluster:
        original = await static_configs(cluster.bootstrap_servers)
        copy = await copy_of(cluster, tmp_path)
    said = capfd.readouterr().err
    assert f"klamm clone: 9 static configs of brokers: stored in {STATIC_CONFIGS_FILE}\n" in said
    assert (
        "klamm clone: static configs not stored (secrets, or hidden by the brokers): delegation.token.secret.key\n"
        in said
    )
    assert "do not tell" not in (copy / STATIC_CONFIGS_FILE).read_text()
    async with klamm.Cluster(twin=copy) as twin, klamm.AdminClient(twin.bootstrap_servers) as admin:
        found = await static_configs(twin.bootstrap_servers)
        for name, configs in original.items():
            assert configs.pop("delegation.token.secret.key") is None
            assert found[name] == configs, name
        assert [one["log_dir"] for one in await twin.log_dirs(2)] == ["/data/1", "/data/2"]
        (made,) = await admin.create_topics([klamm.NewTopic("of-defaults")])
        assert (made.num_partitions, made.replication_factor, made.error) == (12, 2, None)
        (topic,) = await admin.describe_configs([klamm.ConfigResource.topic("of-defaults")])
        effective = {name: topic.configs[name].value for name in ("retention.ms", "min.insync.replicas")}
        assert effective == {"retention.ms": "86400000", "min.insync.replicas": "2"}
        assert await trio.to_thread.run_sync(error_of_producing, twin.bootstrap_servers, "of-defaults", 3_000) == (
            "MSG_SIZE_TOO_LARGE"
        )
    assert "no other effect here" not in capfd.readouterr().err  # the user has not set them


async def test_what_the_user_sets_replaces_the_configs_of_all_brokers(tmp_path: Path) -> None:
    shared = {"log.retention.ms": "7", "log.segment.bytes": "1048576"}
    own = {2: {**OWN[2], "num.network.threads": "4", "log.roll.hours": "3"}, 3: {"num.io.threads": "3"}}
    async with klamm.Cluster(brokers=3, configs=shared, broker_configs=own) as cluster:
        copy = await copy_of(cluster, tmp_path)
    given = {"log.retention.minutes": "9", "num.io.threads": "1"}
    given_to_2 = {"max.broker.partitions": "8", "log.roll.ms": "60000"}
    async with klamm.Cluster(twin=copy, configs=given, broker_configs={2: given_to_2}) as twin:
        found = await static_configs(twin.bootstrap_servers)
    everywhere = {"log.segment.bytes": "1048576", **given}
    ours = {*shared, *given, *given_to_2, *(name for configs in own.values() for name in configs)}
    set_by_name = {
        broker_id: {name: value for name, value in configs.items() if name in ours}
        for broker_id, configs in found.items()
    }
    own_of_2 = {**everywhere, **given_to_2, "num.network.threads": "4"}
    assert set_by_name == {1: everywhere, 2: own_of_2, 3: everywhere}


async def test_a_static_config_is_stored_under_the_dynamic_one_that_overrides_it(tmp_path: Path) -> None:
    resource = klamm.ConfigResource.broker(2)
    async with (
        klamm.Cluster(brokers=3, configs={"max.partitions": 50}) as cluster,
        klamm.AdminClient(cluster.bootstrap_servers) as admin,
    ):
        await admin.incremental_alter_configs({resource: [klamm.ConfigAlteration("max.partitions", "90")]})
        copy = await copy_of(cluster, tmp_path)
    async with klamm.Cluster(twin=copy) as twin, klamm.AdminClient(twin.bootstrap_servers) as admin:
        (found,) = await admin.describe_configs([resource], keys=["max.partitions"], include_synonyms=True)
    levels = [(one.value, one.source.name) for one in found.configs["max.partitions"].synonyms][:2]
    assert levels == [("90", "DYNAMIC_BROKER_CONFIG"), ("50", "STATIC_BROKER_CONFIG")]


async def test_klamm_try_obeys_the_stored_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with klamm.Cluster(brokers=3, configs={"max.broker.partitions": 2}) as cluster:
        copy = await copy_of(cluster, tmp_path)
    changes = tmp_path / "changes.json"
    changes.write_text(
        json.dumps({"steps": [{"create-topic": {"name": "t", "partitions": 3, "replication-factor": 3}}]})
    )
    capsys.readouterr()
    command = ["try", "--twin", str(copy), str(changes), "--fail-on", "limit"]
    assert await trio.to_thread.run_sync(main, command) == 1
    captured = capsys.readouterr()
    assert "refused: topic 't': POLICY_VIOLATION" in captured.out
    (copy / STATIC_CONFIGS_FILE).write_text("{}")
    assert await trio.to_thread.run_sync(main, command) == 0
    assert f"finds nothing; {copy / STATIC_CONFIGS_FILE} has none either. Give" in capsys.readouterr().err


def entry(name: str, value: str | None, **members: Any) -> ConfigEntry:
    source = members.pop("source", ConfigSource.STATIC_BROKER_CONFIG)
    synonyms = (ConfigSynonym(name, value, ConfigSource.STATIC_BROKER_CONFIG),)
    return ConfigEntry(name, value, source, read_only=True, **{"is_sensitive": False, "synonyms": synonyms, **members})


def shown(*brokers: Sequence[ConfigEntry]) -> ShownConfigs:
    found = ShownConfigs()
    for broker_id, entries in enumerate(brokers, 1):
        found.add(broker_id, {one.name: one for one in entries})
    return found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listeners", "PLAINTEXT://h:1"),
        ("node.id", "7"),
        ("broker.rack", "a"),
        ("log.dirs", ",".join(f"/data/{number}" for number in range(MAX_LOG_DIRS + 1))),
        ("cordoned.log.dirs", "/data/1"),
        ("process.roles", "broker,controller"),
        ("controller.quorum.voters", "1@h:1"),
        ("controller.quorum.bootstrap.servers", "h:1"),
        ("controller.listener.names", "C"),
        ("listener.name.external.max.connections", "5"),
        ("listener.name.external.ssl.keystore.location", "/k"),
        ("ssl.truststore.location", "/k"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:a"),
        ("create.topic.policy.class.name", "com.example.Policy"),
        ("inter.broker.listener.name", "INTERNAL"),
        ("replica.selector.class", "com.example.Selector"),
        ("zookeeper.connect", "h:1"),
        ("num.partitions", "0"),
    ],
)
def test_what_a_twin_cannot_have_is_not_stored(name: str, value: str) -> None:
    found = shown([entry(name, value)])
    assert json.loads(found.stored().as_text()) == {"all_brokers": {}, "brokers": {}}
    named = [line for line in found.lines() if line.endswith(f": {name}")]
    assert len(named) == (0 if name in ("listeners", "node.id", "broker.rack") else 1)


def test_as_many_directories_as_a_broker_may_have_are_stored() -> None:
    most = ",".join(f"/data/{number}" for number in range(MAX_LOG_DIRS))
    assert shown([entry("log.dirs", most)]).stored().shared == {"log.dirs": most}


@pytest.mark.parametrize("name", ["ssl.keystore.password", "delegation.token.secret.key", "com.example.token"])
def test_a_secret_is_not_stored_even_if_a_broker_shows_it(name: str) -> None:
    found = shown([entry(name, "hush", is_sensitive=name == "com.example.token")])
    assert "hush" not in found.stored().as_text()
    assert list(found.lines()) == [f"static configs not stored (secrets, or hidden by the brokers): {name}"]


def test_the_authorizers_configs_are_the_twins_own_although_kafka_hides_them() -> None:
    found = shown([entry("super.users", None, is_sensitive=True), entry("my.plugin", None, is_sensitive=True)])
    assert list(found.lines()) == [
        "static configs not stored (secrets, or hidden by the brokers): my.plugin",
        "static configs not stored (a twin has listeners and an authorizer of its own): super.users",
    ]


def test_values_that_all_brokers_have_are_those_of_the_cluster() -> None:
    found = shown(
        [entry("num.partitions", "3"), entry("num.io.threads", "5")],
        [entry("num.partitions", "3"), entry("num.io.threads", "6")],
    )
    assert found.stored().shared == {"num.partitions": "3"}
    assert found.stored().own == {1: {"num.io.threads": "5"}, 2: {"num.io.threads": "6"}}
    assert list(shown([]).lines()) == []


def test_configs_that_decide_for_the_cluster_are_named_if_brokers_differ() -> None:
    found = shown([entry("max.partitions", "60")], [entry("max.partitions", "60")], [entry("max.partitions", "70")])
    differs = "60 on 2 of 3 brokers, 70 on 1 of 3 brokers"
    line = f"static configs differ: max.partitions is {differs}; --set max.partitions=VALUE gives all brokers of a twin"
    assert list(found.lines()) == [
        f"1 static config of brokers: stored in {STATIC_CONFIGS_FILE}",
        f"{line} one value",
    ]


def test_other_sources_and_other_units_are_no_static_config() -> None:
    of_hours = ConfigSynonym("log.retention.hours", "9", ConfigSource.STATIC_BROKER_CONFIG)
    found = shown(
        [
            entry("log.retention.ms", "32400000", synonyms=(of_hours,)),
            entry("num.partitions", "1", source=ConfigSource.DEFAULT_CONFIG, synonyms=()),
            entry("num.io.threads", "9", synonyms=()),  # Kafka before 1.1 shows no synonyms
        ]
    )
    assert found.stored().shared == {"num.io.threads": "9"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "the file is empty; a JSON object is expected"),
        ("[]", "the file is a list of 0; a JSON object is expected"),
        ('{"all": {}}', "'all' is none of its members, which are all_brokers, brokers"),
        ('{"all_brokers": []}', "all_brokers is a list of 0; a JSON object is expected"),
        ('{"all_brokers": {"num.partitions": 3}}', "'num.partitions' of all_brokers is 3; a string is expected"),
        ('{"all_brokers": {"num.partitons": "3"}}', "num.partitons"),
        ('{"brokers": 1}', "brokers is 1; a JSON object is expected"),
        ('{"brokers": {"x": {}}}', "'x' in brokers is no id of a broker"),
        ('{"brokers": {"2": {"num.partitions": "0"}}}', "num.partitions"),
    ],
)
async def test_a_file_that_was_spoilt_is_named(tmp_path: Path, content: str, reason: str) -> None:
    async with klamm.Cluster(brokers=1) as cluster:
        copy = await copy_of(cluster, tmp_path)
    (copy / STATIC_CONFIGS_FILE).write_text(content)
    with pytest.raises(klamm.ClusterError) as refused:
        klamm.Cluster(twin=copy)
    assert str(copy / STATIC_CONFIGS_FILE) in str(refused.value)
    assert reason in str(refused.value)


async def test_a_copy_without_the_file_has_no_static_configs(tmp_path: Path) -> None:
    configs: Mapping[str, str] = {"num.io.threads": "4"}
    async with klamm.Cluster(brokers=3, configs=configs) as cluster:
        copy = await copy_of(cluster, tmp_path)
    (copy / STATIC_CONFIGS_FILE).unlink()
    async with klamm.Cluster(twin=copy) as twin:
        assert all("num.io.threads" not in found for found in (await static_configs(twin.bootstrap_servers)).values())
