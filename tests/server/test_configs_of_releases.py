"""The config APIs answer with the configs of the release of each client: of the cluster, a listener or a client id."""

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from klamm.controller.client import Client
from klamm.controller.config_definitions.table import broker_definitions
from klamm.controller.releases import RELEASES, Emulation, decode_releases
from klamm.controller.settings import Settings
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.configs import describe_configs, incremental_alter_configs
from klamm.protocol.messages.topics import create_topics
from tests.server.harness import Peer, open_test_server

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
REMOVED = "message.downconversion.enable"


def acting(emulation: Emulation) -> Settings:
    return Settings(seed=1, emulation=emulation)


async def described(peer: Peer, resource_type: int, name: str) -> dict[str, str | None] | int:
    """The values by name, or the error code."""
    resource = describe_configs.DescribeConfigsResource(resource_type=resource_type, resource_name=name)
    request = describe_configs.DescribeConfigsRequest(resources=[resource])
    (result,) = (await peer.ask(describe_configs.API, 2, request)).results
    return result.error_code or {config.name: config.value for config in result.configs}


async def altered(peer: Peer, resource_type: int, resource_name: str, name: str, value: str) -> tuple[int, str | None]:
    config = incremental_alter_configs.AlterableConfig(name=name, config_operation=0, value=value)
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=resource_type, resource_name=resource_name, configs=[config]
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    (result,) = (await peer.ask(incremental_alter_configs.API, 0, request)).responses
    return result.error_code, result.error_message


async def created(
    peer: Peer, topic_name: str, configs: Mapping[str, str] = MappingProxyType({}), version: int = 5
) -> create_topics.CreatableTopicResult:
    entries = [create_topics.CreatableTopicConfig(name=name, value=value) for name, value in configs.items()]
    topic = create_topics.CreatableTopic(name=topic_name, num_partitions=1, replication_factor=1, configs=entries)
    request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=1000)
    (result,) = (await peer.ask(create_topics.API, version, request)).topics
    assert isinstance(result, create_topics.CreatableTopicResult)
    return result


async def test_each_client_sees_and_sets_the_configs_of_its_release() -> None:
    emulation = decode_releases("4.3,OLD=2.8,client:peer=3.9")
    async with open_test_server(settings=acting(decode_releases("4.3,OLD=2.8"))) as running:
        new = running.connect_in_memory(Client("broker", 1))
        old = running.connect_in_memory(Client("broker", 1, listener_name="OLD"))
        assert (await created(new, "new", {REMOVED: "false"})).error_code == ErrorCode.INVALID_CONFIG
        made = await created(old, "old", {REMOVED: "false", "segment.bytes": "14"})
        shown = {config.name: config.value for config in made.configs or ()}
        assert (made.error_code, len(shown), shown[REMOVED]) == (0, 26, "false")
        for peer, number in ((new, 33), (old, 26)):
            configs = await described(peer, TOPIC, "old")
            assert isinstance(configs, dict)
            assert len(configs) == number
            assert configs.get(REMOVED) == (None if number == 33 else "false")
        of_brokers = [await described(peer, BROKER, "1") for peer in (new, old)]
        assert isinstance(of_brokers[0], dict)
        assert isinstance(of_brokers[1], dict)
        assert (of_brokers[0]["metric.reporters"], of_brokers[1]["metric.reporters"]) == (
            "org.apache.kafka.common.metrics.JmxReporter", ""
        )  # fmt: skip
        assert of_brokers[1]["zookeeper.session.timeout.ms"] == "18000"
        assert "process.roles" in of_brokers[0]
        assert "process.roles" not in of_brokers[1]
        code, message = await altered(old, TOPIC, "old", "compression.gzip.level", "3")
        assert (code, message) == (ErrorCode.INVALID_CONFIG, "Unknown topic config name: compression.gzip.level")
        assert await altered(new, TOPIC, "new", "x", "3") == (40, "Unknown topic config name: x")
    async with open_test_server(settings=acting(emulation)) as running:
        of_client = await described(running.connect_in_memory(Client("broker", 1)), BROKER, "1")
        assert isinstance(of_client, dict)
        assert of_client["group.coordinator.rebalance.protocols"] == "classic"


async def test_a_new_topic_of_an_old_client_may_have_what_a_new_client_cannot_change() -> None:
    """All configs of a topic are validated together: one that the client's release lacks prevents changes of all."""
    async with open_test_server(settings=acting(decode_releases("4.3,OLD=2.8"))) as running:
        old = running.connect_in_memory(Client("broker", 1, listener_name="OLD"))
        new = running.connect_in_memory(Client("broker", 1))
        await created(old, "t", {REMOVED: "false"})
        refused = await altered(new, TOPIC, "t", "retention.ms", "5")
        assert refused == (ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {REMOVED}")
        assert await altered(old, TOPIC, "t", "retention.ms", "5") == (0, None)


@pytest.mark.parametrize(
    ("release", "known"), [("2.1", [TOPIC, BROKER]), ("3.6", [LOGGER]), ("3.9", [METRICS]), ("4.0", [GROUP])]
)
async def test_types_of_resources_that_a_release_does_not_have(release: str, known: list[int]) -> None:
    async with open_test_server(settings=acting(Emulation(RELEASES[release]))) as running:
        peer = running.connect_in_memory(Client("broker", 1))
        await created(peer, "t", version=3 if release == "2.1" else 5)
        names = {TOPIC: "t", BROKER: "1", LOGGER: "1", METRICS: "m", GROUP: "g"}
        for resource_type, name in names.items():
            is_known = resource_type <= max(known)
            answer = await described(peer, resource_type, name)
            assert isinstance(answer, dict) is is_known, (release, resource_type)
            if not is_known:
                assert answer == ErrorCode.INVALID_REQUEST
            if release != "2.1" and resource_type in (METRICS, GROUP):
                code, message = await altered(peer, resource_type, name, "x", "1")
                unknown = (ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
                assert ((code, message) == unknown) is not is_known


@pytest.mark.parametrize("release", ["4.0", "4.1"])
async def test_configs_of_client_metrics_that_are_not_set_are_listed_since_4_1(release: str) -> None:
    async with open_test_server(settings=acting(Emulation(RELEASES[release]))) as running:
        peer = running.connect_in_memory(Client("broker", 1))
        assert await altered(peer, METRICS, "m", "interval.ms", "1000") == (0, None)
        expected = {"interval.ms": "1000"} if release == "4.0" else {"interval.ms": "1000", "match": "", "metrics": ""}
        assert await described(peer, METRICS, "m") == expected


async def test_a_broker_of_a_former_release_accepts_names_of_later_ones_unseen() -> None:
    async with open_test_server(settings=acting(Emulation(RELEASES["3.9"]))) as running:
        peer = running.connect_in_memory(Client("broker", 1))
        assert await altered(peer, BROKER, "1", "group.consumer.assignment.interval.ms", "77") == (0, None)
        configs = await described(peer, BROKER, "1")
        assert isinstance(configs, dict)
        assert configs["group.consumer.assignment.interval.ms"] is None
        code, message = await altered(peer, BROKER, "1", "zookeeper.connect", "a")
        assert (code, message) == (42, "Cannot update these configs dynamically: [zookeeper.connect]")


@pytest.mark.parametrize(
    ("release", "roles", "controllers"),
    [("3.0", "", None), ("3.3", "broker", "CONTROLLER"), ("4.3", "broker", "CONTROLLER")],
)
async def test_a_broker_lists_the_configs_of_its_release_and_says_what_it_is(
    release: str, roles: str, controllers: str | None
) -> None:
    later = {"share.coordinator.state.topic.min.isr": "1"}  # for few brokers, Klamm sets it whatever the release is
    settings = Settings(seed=1, emulation=Emulation(RELEASES[release]), static_configs=later)
    async with open_test_server(settings=settings) as running:
        configs = await described(running.connect_in_memory(Client("broker", 1)), BROKER, "1")
        assert isinstance(configs, dict)
        assert list(configs) == list(broker_definitions(release))
        assert (configs["process.roles"], configs["controller.listener.names"]) == (roles, controllers)
        assert configs["node.id"] == configs["broker.id"] == "1"
