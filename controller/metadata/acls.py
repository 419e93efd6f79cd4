"""The access control entries of the cluster: by id as in the log, by name for filters, by rule for checks.

The order of `by_id` is that of creation.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from klamm.controller.authorizer import WILDCARD, Acl, AclIndex
from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.kind import Replay, ReplayError, SnapshotRecord
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.protocol.fields import Message
from klamm.protocol.records.security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass


class AclTable:
    """All entries."""

    def __init__(self) -> None:
        self.by_id: dict[Uuid, Acl] = {}
        self.index = AclIndex()
        self._by_name: dict[str, dict[Uuid, Acl]] = {}
        self._lengths: dict[int, int] = {}
        """The number of different names of each length."""
        self._times: dict[Acl, int] = {}
        """The number of ids of equal entries; above 1 only in logs of other controllers."""

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, acl: Acl) -> bool:
        """Whether an equal entry exists."""
        return acl in self._times

    def add(self, acl_id: Uuid, acl: Acl) -> None:
        """Add an entry. Raises KeyError if an entry has this id."""
        if acl_id in self.by_id:
            raise KeyError(acl_id)
        self.by_id[acl_id] = acl
        if acl.resource_name not in self._by_name:
            self._by_name[acl.resource_name] = {}
            self._lengths[len(acl.resource_name)] = self._lengths.get(len(acl.resource_name), 0) + 1
        self._by_name[acl.resource_name][acl_id] = acl
        self._times[acl] = self._times.get(acl, 0) + 1
        self.index.add(acl)

    def remove(self, acl_id: Uuid) -> None:
        """Remove an entry. Raises KeyError if no entry has this id."""
        acl = self.by_id.pop(acl_id)
        same_name = self._by_name[acl.resource_name]
        del same_name[acl_id]
        if not same_name:
            del self._by_name[acl.resource_name]
            self._lengths[len(acl.resource_name)] -= 1
            if not self._lengths[len(acl.resource_name)]:
                del self._lengths[len(acl.resource_name)]
        self._times[acl] -= 1
        if not self._times[acl]:
            del self._times[acl]
        self.index.remove(acl)

    def named(self, resource_name: str) -> Iterator[tuple[Uuid, Acl]]:
        """The entries with this name, of any pattern type, in the order of creation."""
        yield from self._by_name.get(resource_name, {}).items()

    def starting(self, resource_name: str) -> Iterator[tuple[Uuid, Acl]]:
        """The entries whose name is a prefix of this name, or the wildcard: all that may match it."""
        beginnings = (resource_name[:length] for length in sorted(self._lengths) if length <= len(resource_name))
        for name in dict.fromkeys((*beginnings, WILDCARD)):
            yield from self.named(name)

    def replays(self) -> Mapping[type[Message], Replay]:
        return {AccessControlEntryRecord: self._replay_entry, RemoveAccessControlEntryRecord: self._replay_removal}

    def run_replays(self) -> Mapping[type[Message], Replay]:
        return {}

    def _replay_entry(self, record: AccessControlEntryRecord, delta: Delta) -> None:
        acl = Acl(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )
        try:
            self.add(record.id, acl)
        except KeyError:
            raise ReplayError(f"an access control entry with id {record.id} exists already") from None
        delta.acls.add(record.id)

    def _replay_removal(self, record: RemoveAccessControlEntryRecord, delta: Delta) -> None:
        try:
            self.remove(record.id)
        except KeyError:
            raise ReplayError(f"no access control entry with id {record.id} to remove") from None
        delta.acls.add(record.id)

    def save(self, _room: PartitionTable | None) -> "_Saved":
        return _Saved(self.by_id.copy())

    def facts(self) -> dict[str, Any]:
        return {"acls": dict(self.by_id), "order of acls": list(self.by_id)}


@dataclass(frozen=True, slots=True)
class _Saved:
    by_id: dict[Uuid, Acl]

    def records(self) -> Iterator[SnapshotRecord]:
        for acl_id, acl in self.by_id.items():
            yield AccessControlEntryRecord(
                id=acl_id,
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
