"""Short forms of requests that describe and alter configs, and of their results."""

from collections.abc import Mapping, Sequence
from typing import Any

from klamm.protocol.messages.configs import alter_configs, describe_configs, incremental_alter_configs
from klamm.protocol.messages.configs.list_config_resources import ListConfigResourcesRequest
from tests.controller.handlers.cluster import DrivenCluster

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
CONTROLLER = None
Resource = tuple[int, str]
Edit = tuple[str, int, str | None]
Result = tuple[int, str | None]


def incremental(
    resources: Sequence[tuple[Resource, Sequence[Edit]]], *, validate_only: bool = False
) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in edits
                ],
            )
            for (kind, name), edits in resources
        ],
        validate_only=validate_only,
    )


def replacing(
    resources: Sequence[tuple[Resource, Mapping[str, str | None]]], *, validate_only: bool = False
) -> alter_configs.AlterConfigsRequest:
    return alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[alter_configs.AlterableConfig(name=key, value=value) for key, value in configs.items()],
            )
            for (kind, name), configs in resources
        ],
        validate_only=validate_only,
    )


def edit(
    cluster: DrivenCluster, resource: Resource, *edits: Edit, broker_id: int | None = 1, validate_only: bool = False
) -> Result:
    """The result of editing one resource."""
    request = incremental([(resource, edits)], validate_only=validate_only)
    [result] = cluster.ask(request, broker_id=broker_id).responses
    return result.error_code, result.error_message


def set_configs(
    cluster: DrivenCluster, resource: Resource, configs: Mapping[str, str], *, broker_id: int | None = 1
) -> None:
    """Set configs; an error fails the test."""
    edits = [(name, SET, value) for name, value in configs.items()]
    assert edit(cluster, resource, *edits, broker_id=broker_id) == (0, None)


def described(
    cluster: DrivenCluster, resource: Resource, *keys: str, broker_id: int | None = 1
) -> dict[str, tuple[str | None, int, list[tuple[str, str | None, int]]]]:
    """By config: value, source, synonyms."""
    request = describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(
                resource_type=resource[0], resource_name=resource[1], configuration_keys=list(keys) or None
            )
        ],
        include_synonyms=True,
    )
    [result] = cluster.ask(request, broker_id=broker_id).results
    assert result.error_code == 0, result.error_message
    return {
        config.name: (config.value, config.config_source, [(s.name, s.value, s.source) for s in config.synonyms])
        for config in result.configs
    }


def listed(cluster: DrivenCluster, *types: int, version: int = 1) -> Any:
    """Error code and the resources, in the order of the answer."""
    answer = cluster.ask(ListConfigResourcesRequest(resource_types=types), version=version)
    return answer.error_code, [(found.resource_type, found.resource_name) for found in answer.config_resources]
