"""The access control entries of the cluster: by id as the log has them, by name for filters, by rule for checks.

Replay alone changes them. The order of `by_id` is that of creation.
"""

from collections.abc import Iterator

from klamm.controller.authorizer import WILDCARD, Acl, AclIndex
from klamm.protocol.uuid import Uuid


class AclTable:
    """All entries."""

    def __init__(self) -> None:
        self.by_id: dict[Uuid, Acl] = {}
        self.index = AclIndex()
        self._by_name: dict[str, dict[Uuid, Acl]] = {}
        self._lengths: dict[int, int] = {}
        """How many different names there are of each length."""
        self._times: dict[Acl, int] = {}
        """How many ids an entry has; more than one only in logs from elsewhere."""

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, acl: Acl) -> bool:
        """Whether there is an equal entry."""
        return acl in self._times

    def add(self, acl_id: Uuid, acl: Acl) -> None:
        """Raises KeyError if there is an entry with this id."""
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
        """Raises KeyError if there is no entry with this id."""
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
        """The entries with this name, whatever their pattern type, as they were created."""
        yield from self._by_name.get(resource_name, {}).items()

    def starting(self, resource_name: str) -> Iterator[tuple[Uuid, Acl]]:
        """The entries whose name is a beginning of this one, or the wildcard: all that may match it."""
        beginnings = (resource_name[:length] for length in sorted(self._lengths) if length <= len(resource_name))
        for name in dict.fromkeys((*beginnings, WILDCARD)):
            yield from self.named(name)
