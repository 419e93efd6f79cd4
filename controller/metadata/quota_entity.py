"""What a client quota applies to: a user, a client id, an address, or a user together with a client id."""

from collections.abc import Iterable
from typing import Final, TypeAlias

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Entity types with their names, sorted by type. The name None stands for the default entity: all users, client ids or
addresses that have no quota of their own."""


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """The entity of these types and names. If a type comes twice, the last name counts, as in Kafka."""
    return tuple(sorted(dict(parts).items(), key=lambda part: part[0]))
