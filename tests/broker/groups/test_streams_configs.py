"""The configs in force for a streams group: the broker's and the group's own."""

from klamm.broker.groups.streams.in_cluster import StreamsSettingsInForce
from klamm.broker.groups.streams.outcome import StreamsSettings
from klamm.controller.settings import Settings
from klamm.protocol.messages.configs import incremental_alter_configs as configs
from tests.controller.handlers.cluster import DrivenCluster

GROUP = "g"


def test_the_configs_of_the_broker_and_of_the_group_are_in_force() -> None:
    static = {"group.streams.max.size": "7", "group.streams.initial.rebalance.delay.ms": "1"}
    cluster = DrivenCluster(1, configs=static)
    in_force = StreamsSettingsInForce(Settings(static_configs=static), 1)
    assert in_force.of(cluster.image, GROUP) == StreamsSettings(
        session_timeout_ms=45_000,
        heartbeat_interval_ms=5_000,
        assignment_interval_ms=1_000,
        initial_rebalance_delay_ms=1,
        standby_replicas=0,
        max_size=7,
    )
    values = {
        "session.timeout.ms": 50_000,
        "heartbeat.interval.ms": 6_000,
        "assignment.interval.ms": 2_000,
        "initial.rebalance.delay.ms": 0,
        "num.standby.replicas": 2,
    }
    altered = [configs.AlterableConfig(name=f"streams.{name}", value=str(value)) for name, value in values.items()]
    resource = configs.AlterConfigsResource(resource_type=32, resource_name=GROUP, configs=altered)
    answer = cluster.ask(configs.IncrementalAlterConfigsRequest(resources=[resource]))
    assert not answer.responses[0].error_code, answer.responses[0].error_message
    assert in_force.of(cluster.image, GROUP) == StreamsSettings(50_000, 6_000, 2_000, 0, 2, 7)
    assert in_force.of(cluster.image, "other").session_timeout_ms == 45_000
