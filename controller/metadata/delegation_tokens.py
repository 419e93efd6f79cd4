"""Delegation tokens: who they stand for, who may renew them, and until when. Their secrets are not stored: they follow
from the id of the token and `delegation.token.secret.key`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.kind import Replay, SnapshotRecord
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.protocol.fields import Message
from klamm.protocol.records.security import DelegationTokenRecord, RemoveDelegationTokenRecord
from klamm.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """One token. Principals are as in ACLs, such as `User:alice`; times are in ms since 1970."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_at_ms: int
    expires_at_ms: int
    """When it expires unless it is renewed."""
    ends_at_ms: int
    """When it can no longer be renewed."""

    def is_expired(self, now_ms: int) -> bool:
        return min(self.expires_at_ms, self.ends_at_ms) < now_ms

    def may_be_renewed_by(self, principal: str) -> bool:
        """Whether this is the owner or a renewer."""
        return principal == self.owner or principal in self.renewers

    def record(self) -> DelegationTokenRecord:
        return DelegationTokenRecord(
            owner=self.owner,
            requester=self.requester,
            renewers=self.renewers,
            issue_timestamp=self.issued_at_ms,
            max_timestamp=self.ends_at_ms,
            expiration_timestamp=self.expires_at_ms,
            token_id=self.token_id,
        )


class DelegationTokens(dict[str, DelegationToken]):
    """The tokens by id, in the order in which they were made. Expired ones are included until they are swept."""

    def replays(self) -> Mapping[type[Message], Replay]:
        return {DelegationTokenRecord: self._set, RemoveDelegationTokenRecord: self._remove}

    def run_replays(self) -> Mapping[type[Message], Replay]:
        return {}

    def _set(self, record: DelegationTokenRecord, delta: Delta) -> None:
        self[record.token_id] = DelegationToken(
            token_id=record.token_id,
            owner=record.owner,
            requester=record.requester,
            renewers=tuple(record.renewers),
            issued_at_ms=record.issue_timestamp,
            expires_at_ms=record.expiration_timestamp,
            ends_at_ms=record.max_timestamp,
        )
        delta.delegation_tokens.add(record.token_id)

    def _remove(self, record: RemoveDelegationTokenRecord, delta: Delta) -> None:
        # As in Kafka, a record may remove a token that does not exist.
        self.pop(record.token_id, None)
        delta.delegation_tokens.add(record.token_id)

    def save(self, _room: PartitionTable | None) -> "_Saved":
        return _Saved(tuple(self.values()))

    def facts(self) -> dict[str, Any]:
        return {"delegation_tokens": dict(self), "order of delegation tokens": list(self)}


@dataclass(frozen=True, slots=True)
class _Saved:
    tokens: tuple[DelegationToken, ...]

    def records(self) -> Iterator[SnapshotRecord]:
        return iter([token.record() for token in self.tokens])
