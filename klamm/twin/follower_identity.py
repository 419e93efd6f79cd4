"""Whose copy a directory holds, and who its follower is to the leader: `meta.properties` of a copy."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from klamm.controller.log.data_dir import CLONE_ID, META_PROPERTIES, load_small_file, pairs_of, replace_file
from klamm.controller.log.errors import LogError
from klamm.protocol.uuid import Uuid

FIRST_REPLICA_ID: Final = 1_000_000_000
"""Replica ids of followers are random numbers from here on: no cluster numbers its nodes like that."""
_PROPERTIES_VERSION: Final = "1"


@dataclass(frozen=True, slots=True)
class FollowerIdentity:
    """Whose copy a directory holds, and who this follower is to the leader."""

    cluster_id: str
    replica_id: int
    directory_id: Uuid


def load_follower_identity(data_dir: Path) -> FollowerIdentity | None:
    """The identity in a directory; None: nothing was copied into it yet. Raises LogError: it is of another kind."""
    path = data_dir / META_PROPERTIES
    text = load_small_file(path)
    if text is None:
        return None
    found = pairs_of(text)
    if found.get("node.id") == CLONE_ID:
        raise LogError(
            f"{data_dir} is a copy that klamm clone wrote, which klamm follow cannot continue: klamm serve --twin "
            "begins with it. Use another directory"
        )
    try:
        replica_id = int(found["node.id"])
        if replica_id < FIRST_REPLICA_ID or found["version"] != _PROPERTIES_VERSION:
            raise LogError(f"{data_dir} belongs to node {replica_id} of a cluster, and is not a copy of klamm follow")
        return FollowerIdentity(found["cluster.id"], replica_id, Uuid.from_text(found["directory.id"]))
    except (KeyError, ValueError) as error:
        raise LogError(f"{path} is not a file of klamm follow: {error}") from None


def write_follower_identity(data_dir: Path, identity: FollowerIdentity) -> None:
    """Write it durably. Raises LogError."""
    properties = {
        "version": _PROPERTIES_VERSION,
        "node.id": identity.replica_id,
        "cluster.id": identity.cluster_id,
        "directory.id": identity.directory_id,
    }
    replace_file(data_dir / META_PROPERTIES, "".join(f"{name}={value}\n" for name, value in properties.items()))
