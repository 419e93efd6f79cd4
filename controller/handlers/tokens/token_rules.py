"""What the requests about one token have in common: the order of their checks, and principals as texts."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from klamm.controller.authorizer import ANONYMOUS
from klamm.controller.context import RequestContext
from klamm.controller.metadata.delegation_tokens import DelegationToken
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata_versions import FIRST_LEVEL_WITH_DELEGATION_TOKENS
from klamm.controller.transitions.delegation_tokens import find_by_hmac, secret_key
from klamm.protocol.errors import ErrorCode

USER_TYPE: Final = "User"
FIRST_VERSION_WITH_REQUESTER: Final = 3
"""Before it, responses of CreateDelegationToken and DescribeDelegationToken do not name who asked for the token."""


class Principal(NamedTuple):
    """A principal in its two parts."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


def split_principal(text: str) -> Principal:
    """The parts of a principal, such as `User:alice`."""
    principal_type, _, name = text.partition(":")
    return Principal(principal_type, name)


def requester_of(context: RequestContext) -> Principal:
    """Who asks."""
    return split_principal(context.requester.principal or ANONYMOUS)


def tokens_are_supported(image: MetadataImage) -> bool:
    """Whether the metadata log can have delegation tokens."""
    return image.features.metadata_version >= FIRST_LEVEL_WITH_DELEGATION_TOKENS


def own_token(image: MetadataImage, context: RequestContext, secret: bytes) -> DelegationToken | ErrorCode:
    """The token with this secret, if the requester may renew it, or why not."""
    key = secret_key(context.settings)
    if key is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    if not tokens_are_supported(image):
        return ErrorCode.UNSUPPORTED_VERSION
    token = find_by_hmac(image, key, secret)
    if token is None:
        return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    if not token.may_be_renewed_by(str(requester_of(context))):
        return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    return token


def joined(principals: Iterable[Principal]) -> tuple[str, ...]:
    """The principals as texts."""
    return tuple(map(str, principals))
