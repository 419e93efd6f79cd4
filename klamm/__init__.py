"""Klamm: a simulated Kafka controller. The names of this module are the public API; all others may change.

A name's module is imported when the name is first used (PEP 562), so that `klamm serve` imports neither the admin
client nor the test cluster.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0"

if TYPE_CHECKING:
    from klamm.admin.client import AdminClient
    from klamm.admin.client_configs import InvalidClientProperties
    from klamm.admin.errors import (
        AdminError,
        AuthenticationFailed,
        ClusterUnreachable,
        NotSupportedByBroker,
        RequestFailed,
    )
    from klamm.admin.partition_types import (
        ElectionType,
        LogDir,
        LogDirReplica,
        PartitionReassignment,
        PartitionResult,
        ReplicaEndOffset,
        ReplicaResult,
        ReplicaStatus,
        TopicPartition,
        TopicPartitionReplica,
    )
    from klamm.admin.types import (
        Broker,
        ClusterDescription,
        ClusterMetadata,
        ConfigAlteration,
        ConfigEntry,
        ConfigOperation,
        ConfigResource,
        ConfigResourceType,
        ConfigSource,
        ConfigSynonym,
        CreatedTopic,
        NewPartitions,
        NewTopic,
        PartitionDescription,
        ResourceConfigs,
        ResourceResult,
        TopicAlteration,
        TopicDescription,
        TopicResult,
    )
    from klamm.cluster.client_configs import NoClientConfig
    from klamm.cluster.cluster import Cluster, ClusterError
    from klamm.cluster.server_process import ServerFailed, ServerProcess
    from klamm.cluster.topic_policy import PolicyViolation
    from klamm.control.client import (
        ControlClient,
        ControlError,
        ControlledBroker,
        ControlRefused,
        ControlUnreachable,
        TakenSnapshot,
    )
    from klamm.control.fault_verbs import Fault
    from klamm.control.recorded import LoggedRequest, Record
    from klamm.control.scenario_run import Happened, Report, ScenarioFailed
    from klamm.controller.topic_policy import RequestedTopic
    from klamm.protocol.errors import ApiError, ErrorCode
    from klamm.protocol.uuid import Uuid

_MODULES = {
    "klamm.controller.topic_policy": ("RequestedTopic",),
    "klamm.admin.client": ("AdminClient",),
    "klamm.admin.client_configs": ("InvalidClientProperties",),
    "klamm.admin.errors": (
        "AdminError",
        "AuthenticationFailed",
        "ClusterUnreachable",
        "NotSupportedByBroker",
        "RequestFailed",
    ),
    "klamm.admin.partition_types": (
        "ElectionType",
        "LogDir",
        "LogDirReplica",
        "PartitionReassignment",
        "PartitionResult",
        "ReplicaEndOffset",
        "ReplicaResult",
        "ReplicaStatus",
        "TopicPartition",
        "TopicPartitionReplica",
    ),
    "klamm.admin.types": (
        "Broker",
        "ClusterDescription",
        "ClusterMetadata",
        "ConfigAlteration",
        "ConfigEntry",
        "ConfigOperation",
        "ConfigResource",
        "ConfigResourceType",
        "ConfigSource",
        "ConfigSynonym",
        "CreatedTopic",
        "NewPartitions",
        "NewTopic",
        "PartitionDescription",
        "ResourceConfigs",
        "ResourceResult",
        "TopicAlteration",
        "TopicDescription",
        "TopicResult",
    ),
    "klamm.cluster.client_configs": ("NoClientConfig",),
    "klamm.cluster.cluster": ("Cluster", "ClusterError"),
    "klamm.control.client": (
        "ControlClient",
        "ControlError",
        "ControlRefused",
        "ControlUnreachable",
        "ControlledBroker",
        "TakenSnapshot",
    ),
    "klamm.control.fault_verbs": ("Fault",),
    "klamm.control.scenario_run": ("Happened", "Report", "ScenarioFailed"),
    "klamm.control.recorded": ("LoggedRequest", "Record"),
    "klamm.cluster.topic_policy": ("PolicyViolation",),
    "klamm.cluster.server_process": ("ServerFailed", "ServerProcess"),
    "klamm.protocol.errors": ("ApiError", "ErrorCode"),
    "klamm.protocol.uuid": ("Uuid",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AdminClient",
    "AdminError",
    "ApiError",
    "AuthenticationFailed",
    "Broker",
    "Cluster",
    "ClusterDescription",
    "ClusterError",
    "ClusterMetadata",
    "ClusterUnreachable",
    "ConfigAlteration",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "ConfigSynonym",
    "ControlClient",
    "ControlError",
    "ControlRefused",
    "ControlUnreachable",
    "ControlledBroker",
    "CreatedTopic",
    "ElectionType",
    "ErrorCode",
    "Fault",
    "Happened",
    "InvalidClientProperties",
    "LogDir",
    "LogDirReplica",
    "LoggedRequest",
    "NewPartitions",
    "NewTopic",
    "NoClientConfig",
    "NotSupportedByBroker",
    "PartitionDescription",
    "PartitionReassignment",
    "PartitionResult",
    "PolicyViolation",
    "Record",
    "ReplicaEndOffset",
    "ReplicaResult",
    "ReplicaStatus",
    "Report",
    "RequestFailed",
    "RequestedTopic",
    "ResourceConfigs",
    "ResourceResult",
    "ScenarioFailed",
    "ServerFailed",
    "ServerProcess",
    "TakenSnapshot",
    "TopicAlteration",
    "TopicDescription",
    "TopicPartition",
    "TopicPartitionReplica",
    "TopicResult",
    "Uuid",
    "__version__",
]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
