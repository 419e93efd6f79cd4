"""The context of a decision: the third argument of a handler, after the image and the request.

Time, random numbers and new ids come from here, before a record is made, so that replay needs none of them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace

import numpy as np

from klamm.controller.authorizer import (
    CLUSTER_NAME,
    Access,
    AclOperation,
    AclResourceType,
    all_operations,
    refused_as_a_whole,
)
from klamm.controller.liveness import BrokerLiveness
from klamm.controller.quotas.mutations import UNLIMITED, MutationQuota
from klamm.controller.random_ids import new_uuid, random_bytes
from klamm.controller.reading import Readings
from klamm.controller.requester import Requester
from klamm.controller.settings import Settings
from klamm.controller.steps import ITEMS_AT_ONCE
from klamm.controller.topic_policy import RequestedTopic, Verdicts
from klamm.protocol.errors import ApiError
from klamm.protocol.served import ApiTable
from klamm.protocol.uuid import ZERO_UUID, Uuid
from klamm.quick_dataclasses import dataclass

# A request's records are one batch. With the ids of replicas, ISR and directories, this many take about 250 MB.
MAX_PLACED_REPLICAS_PER_REQUEST = 10_000_000


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """The identity of the cluster and its controller: fixed while the process runs."""

    cluster_id: str
    controller_id: int
    directory_id: Uuid = ZERO_UUID
    """The id of the directory of the metadata log."""
    is_dynamic: bool = False
    """Whether the quorum is dynamic: kraft.version 1, in which voters have directory ids and can change."""
    controller_end_point: tuple[str, int] | None = None
    """Host and port of the controller listener, if there is one."""
    leader_epoch: int = 0
    """The epoch in which the controller leads the metadata log. Each start of the process begins another one."""


@dataclass(slots=True)
class Ledger:
    """Sums over the items of one request that have been decided: each item sees what the earlier ones took."""

    replicas: dict[int, int] = field(default_factory=dict)
    """The number of new replicas by broker id, without topics that no limit applies to."""
    partitions: int = 0
    """The number of new partitions, without those of topics that no limit applies to."""
    replicas_left: int = MAX_PLACED_REPLICAS_PER_REQUEST
    """How many more replicas the request may place."""
    verdicts: Verdicts | None = None
    """The create-topic policy's verdicts so far on the request's topics; None: there is no policy."""
    unjudged: list[RequestedTopic] = field(default_factory=list)
    """Topics that the policy has to judge before the request can be decided. If there are any, the outcome is
    dropped."""


@dataclass(slots=True)
class RequestContext:
    """Everything a decision may depend on besides the image and the request."""

    # The requester and its rights.
    requester: Requester
    api_version: int
    access: Access | None
    """What the requester may do; None: everything. Handlers ask the methods below."""
    served: ApiTable
    """The APIs that the requester is served, by key."""
    # The time of the decision.
    now_ms: int
    """The time on the controller's clock."""
    log_end_offset: int
    """The offset that the first record of this request will get."""
    rng: np.random.Generator
    # Facts of the cluster that are not in the image.
    settings: Settings
    cluster: ClusterIdentity
    root_log_level: Callable[[int], str | None]
    """The level of a node's root logger, by node id; None if no request has set it (soft state)."""
    liveness: BrokerLiveness
    # This request.
    ledger: Ledger = field(default_factory=Ledger)
    readings: Readings | None = None
    """What a thread has read for this request so far. A handler that lacks something raises Unread; None: it reads
    everything itself."""
    at_once: int = ITEMS_AT_ONCE
    """About how many items are decided in one step, if the handler pauses."""
    mutations: MutationQuota = UNLIMITED
    """The requester's quota of partitions to make or delete. An outcome that took of it has its effects."""
    throttle_time_ms: int = 0
    """For how long the request throttles its client, as far as that is known before the decision."""

    def for_version(self, api_version: int) -> "RequestContext":
        """The same context for a request of another version, made on the client's behalf."""
        return replace(self, api_version=api_version)

    def authorize(self, operation: AclOperation, resource_type: AclResourceType, resource_name: str) -> bool:
        """Whether the requester may do this to this resource, which need not exist."""
        return self.access is None or self.access.allows(operation, resource_type, resource_name)

    def authorize_cluster(self, operation: AclOperation) -> bool:
        """Whether the requester may do this to the cluster as a whole."""
        return self.authorize(operation, AclResourceType.CLUSTER, CLUSTER_NAME)

    def authorize_some(self, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Whether there may be a resource of the type to which the requester may do this."""
        return self.access is None or self.access.allows_some(operation, resource_type)

    def refuse_cluster(self, operation: AclOperation) -> ApiError | None:
        """The error for a request that needs this right on the cluster, if the requester lacks it; else None."""
        return None if self.authorize_cluster(operation) else refused_as_a_whole(operation)

    def denied(self, operation: AclOperation, resource_type: AclResourceType, names: Iterable[str]) -> frozenset[str]:
        """Those of the names to which the requester may not do this. The names are not examined if everything is
        allowed."""
        return self.access.denied(operation, resource_type, names) if self.access else frozenset()

    def permits(self, operation: AclOperation, resource_type: AclResourceType) -> Callable[[str], bool]:
        """A function from a name to the result of `authorize`, for many names."""
        return self.access.permits(operation, resource_type) if self.access else lambda _: True

    def authorized_operations(self, resource_type: AclResourceType, names: Sequence[str]) -> Sequence[int]:
        """For each resource the operations that the requester may perform, as bits of AclOperation (KIP-430)."""
        if self.access is None:
            return [all_operations(resource_type)] * len(names)
        return self.access.operations(resource_type, names)

    def cluster_authorized_operations(self) -> int:
        """The same for the cluster; no operation for a requester that may not describe the cluster."""
        if not self.authorize_cluster(AclOperation.DESCRIBE):
            return 0
        return self.authorized_operations(AclResourceType.CLUSTER, [CLUSTER_NAME])[0]

    def new_uuid(self) -> Uuid:
        """A fresh id from the seeded generator."""
        return new_uuid(random_bytes(self.rng))
