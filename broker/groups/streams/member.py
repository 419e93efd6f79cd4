"""A member of a streams group, as its records describe it: one thread of a Kafka Streams application."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from klamm.broker.groups.streams.tasks import AssignedTasks

LEAVING_EPOCH: Final = -1
LEAVING_STATIC_EPOCH: Final = -2
NO_TOPOLOGY_EPOCH: Final = -1


class MemberState(IntEnum):
    """The states in CurrentMemberAssignment records. The table of transitions is in `klamm.broker.groups.streams`."""

    STABLE = 0
    UNREVOKED_TASKS = 1
    UNRELEASED_TASKS = 2
    UNKNOWN = 127
    """Written by a newer broker."""


@dataclass(frozen=True, slots=True)
class UserEndpoint:
    """Where a process of the application answers queries about its state (`application.server`)."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Member:
    """A member; those made without more than an id have not joined yet."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = NO_TOPOLOGY_EPOCH
    process_id: str = ""
    """Members of one process share its disk: a process has a task at most once."""
    user_endpoint: UserEndpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: AssignedTasks = field(default_factory=AssignedTasks)
    pending_revocation: AssignedTasks = field(default_factory=AssignedTasks)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch
