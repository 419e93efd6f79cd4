"""SCRAM credentials: for each user and mechanism the keys from which no password can be computed."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.kind import Replay, SnapshotRecord
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.protocol.fields import Message
from klamm.protocol.records.security import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from klamm.quick_dataclasses import dataclass

SCRAM_SHA_256: Final = 1
SCRAM_SHA_512: Final = 2


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What the server knows of one password."""

    salt: bytes = field(repr=False)
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


class ScramCredentials(dict[tuple[str, int], ScramCredential]):
    """The credential by user and number of the mechanism, in the order in which they were made."""

    def replays(self) -> Mapping[type[Message], Replay]:
        return {UserScramCredentialRecord: self._set, RemoveUserScramCredentialRecord: self._remove}

    def run_replays(self) -> Mapping[type[Message], Replay]:
        return {}

    def mechanisms_of(self, user: str) -> list[int]:
        """The numbers of the mechanisms for which the user has a credential, the highest first."""
        return [one for one in (SCRAM_SHA_512, SCRAM_SHA_256) if (user, one) in self]

    def _set(self, record: UserScramCredentialRecord, delta: Delta) -> None:
        self[record.name, record.mechanism] = ScramCredential(
            bytes(record.salt), record.iterations, bytes(record.stored_key), bytes(record.server_key)
        )
        delta.scram_credentials.add((record.name, record.mechanism))

    def _remove(self, record: RemoveUserScramCredentialRecord, delta: Delta) -> None:
        # As in Kafka, a record may remove a credential that does not exist.
        self.pop((record.name, record.mechanism), None)
        delta.scram_credentials.add((record.name, record.mechanism))

    def save(self, _room: PartitionTable | None) -> "_Saved":
        return _Saved(dict(self))

    def facts(self) -> dict[str, Any]:
        return {"scram_credentials": dict(self), "order of SCRAM credentials": list(self)}


@dataclass(frozen=True, slots=True)
class _Saved:
    credentials: Mapping[tuple[str, int], ScramCredential]

    def records(self) -> Iterator[SnapshotRecord]:
        for (user, mechanism), one in self.credentials.items():
            yield UserScramCredentialRecord(
                name=user,
                mechanism=mechanism,
                salt=one.salt,
                stored_key=one.stored_key,
                server_key=one.server_key,
                iterations=one.iterations,
            )
