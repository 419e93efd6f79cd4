"""Klamm: a simulated Kafka controller. What users import stands here; everything else may change.

Names are loaded when they are first asked for (PEP 562), so that `klamm serve` imports neither the admin client nor
the test cluster.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from controller.topic_policy import RequestedTopic
    from klamm.admin_client import AdminClient
    from klamm.admin_errors import AdminError, ClusterUnreachable, NotSupportedByBroker, RequestFailed
    from klamm.admin_partition_types import (
        ElectionType,
        LogDir,
        LogDirReplica,
        PartitionReassignment,
        PartitionResult,
        ReplicaEndOffset,
        ReplicaStatus,
        TopicPartition,
        TopicPartitionReplica,
    )
    from klamm.admin_types import (
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
    from klamm.cluster import Cluster, ClusterError
    from klamm.control.client import (
        ControlClient,
        ControlError,
        ControlledBroker,
        ControlRefused,
        ControlUnreachable,
        TakenSnapshot,
    )
    from klamm.server_process import ServerFailed, ServerProcess
    from klamm.topic_policy import PolicyViolation
    from protocol.errors import ApiError, ErrorCode
    from protocol.uuid import Uuid

_MODULES = {
    "controller.topic_policy": ("RequestedTopic",),
    "klamm.admin_client": ("AdminClient",),
    "klamm.admin_errors": ("AdminError", "ClusterUnreachable", "NotSupportedByBroker", "RequestFailed"),
    "klamm.admin_partition_types": (
        "ElectionType",
        "LogDir",
        "LogDirReplica",
        "PartitionReassignment",
        "PartitionResult",
        "ReplicaEndOffset",
        "ReplicaStatus",
        "TopicPartition",
        "TopicPartitionReplica",
    ),
    "klamm.admin_types": (
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
    "klamm.cluster": ("Cluster", "ClusterError"),
    "klamm.control.client": (
        "ControlClient",
        "ControlError",
        "ControlRefused",
        "ControlUnreachable",
        "ControlledBroker",
        "TakenSnapshot",
    ),
    "klamm.topic_policy": ("PolicyViolation",),
    "klamm.server_process": ("ServerFailed", "ServerProcess"),
    "protocol.errors": ("ApiError", "ErrorCode"),
    "protocol.uuid": ("Uuid",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AdminClient",
    "AdminError",
    "ApiError",
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
    "LogDir",
    "LogDirReplica",
    "NewPartitions",
    "NewTopic",
    "NotSupportedByBroker",
    "PartitionDescription",
    "PartitionReassignment",
    "PartitionResult",
    "PolicyViolation",
    "ReplicaEndOffset",
    "ReplicaStatus",
    "RequestFailed",
    "RequestedTopic",
    "ResourceConfigs",
    "ResourceResult",
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


def _check_rooms() -> None:
    from klamm.rooms import foreign_room

    problem = foreign_room()
    if problem is not None:
        raise ImportError(problem)


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _check_rooms()
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
