"""Which quota applies to a client: the precedence of entities (Kafka: ClientQuotaManager's DefaultQuotaCallback)."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from klamm.controller.metadata.client_quotas import Quotas
from klamm.controller.metadata.quota_entity import CLIENT_ID, USER, QuotaEntity

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"

_PRINCIPAL_TYPE: Final = "User:"


class Sharing(NamedTuple):
    """The clients that use a quota together. An empty name: all users, or all client ids."""

    user: str
    client_id: str


class Limit(NamedTuple):
    """A quota that applies to a client."""

    shared_by: Sharing
    bound: float
    """Per second, in the unit of the quota."""


def user_of(principal: str | None) -> str | None:
    """The user that quotas of users apply to; None: the cluster itself, which has no quota."""
    return None if principal is None else principal.removeprefix(_PRINCIPAL_TYPE)


def find_limit(quotas: Mapping[QuotaEntity, Quotas], key: str, user: str, client_id: str) -> Limit | None:
    """The quota `key` of a client; None: it has none. The first entity of `_entities` that has the quota decides."""
    for entity, shared_by in _entities(user, client_id):
        found = quotas.get(entity)
        if found is not None and key in found:
            return Limit(shared_by, found[key])
    return None


def _entities(user: str, client_id: str) -> tuple[tuple[QuotaEntity, Sharing], ...]:
    """The entities that a client belongs to, the one that counts most first."""
    of_user = Sharing(user, "")
    if not client_id:  # an empty client id is not among those with a default quota
        return ((((USER, user),), of_user), (((USER, None),), of_user))
    own, of_client = Sharing(user, client_id), Sharing("", client_id)
    return (
        (((CLIENT_ID, client_id), (USER, user)), own),
        (((CLIENT_ID, None), (USER, user)), own),
        (((USER, user),), of_user),
        (((CLIENT_ID, client_id), (USER, None)), own),
        (((CLIENT_ID, None), (USER, None)), own),
        (((USER, None),), of_user),
        (((CLIENT_ID, client_id),), of_client),
        (((CLIENT_ID, None),), of_client),
    )
