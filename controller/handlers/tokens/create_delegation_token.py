"""CreateDelegationToken (38): makes a token with which clients log in as its owner.

Only clients that have authenticated themselves, and not by a token, may ask. A token for another owner needs the right
CREATE_TOKENS on that user (KIP-373).
"""

from typing import Final

from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.handlers.tokens.token_rules import (
    FIRST_VERSION_WITH_REQUESTER,
    USER_TYPE,
    Principal,
    joined,
    requester_of,
    tokens_are_supported,
)
from klamm.controller.metadata.delegation_tokens import DelegationToken
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.transitions.delegation_tokens import MAX_TOKENS, secret_key, token_hmac
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.tokens.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

_NO_TIME: Final = -1
MAX_RENEWERS: Final = 1_000
"""Most renewers of a token. Apache Kafka has no such limit."""


def handle_create_delegation_token(
    image: MetadataImage, request: CreateDelegationTokenRequest, context: RequestContext
) -> Outcome:
    """The new token with its secret."""
    requester = requester_of(context)
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    renewers = [Principal(one.principal_type, one.principal_name) for one in request.renewers]
    response = CreateDelegationTokenResponse(principal_type=owner.principal_type, principal_name=owner.name)
    if context.api_version >= FIRST_VERSION_WITH_REQUESTER:
        response.token_requester_principal_type = requester.principal_type
        response.token_requester_principal_name = requester.name
    fault = _fault(image, context, owner, renewers)
    if fault is not None:
        response.error_code = fault
        response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = _NO_TIME
        return Outcome(response)
    key = secret_key(context.settings)
    if key is None or not tokens_are_supported(image):
        response.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED if key is None else ErrorCode.UNSUPPORTED_VERSION
        return Outcome(response)
    lifetime_ms = context.settings.static_int("delegation.token.max.lifetime.ms")
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    ends_at_ms = context.now_ms + lifetime_ms
    renewed_ms = context.settings.static_int("delegation.token.expiry.time.ms")
    token = DelegationToken(
        token_id=str(context.new_uuid()),
        owner=str(owner),
        requester=str(requester),
        renewers=joined(renewers),
        issued_at_ms=context.now_ms,
        expires_at_ms=min(ends_at_ms, context.now_ms + renewed_ms),
        ends_at_ms=ends_at_ms,
    )
    response.issue_timestamp_ms = token.issued_at_ms
    response.expiry_timestamp_ms = token.expires_at_ms
    response.max_timestamp_ms = token.ends_at_ms
    response.token_id = token.token_id
    response.hmac = token_hmac(key, token.token_id)
    return Outcome(response, [token.record()])


def _fault(
    image: MetadataImage, context: RequestContext, owner: Principal, renewers: list[Principal]
) -> ErrorCode | None:
    if not context.requester.may_use_tokens:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if owner != requester_of(context) and not context.authorize(
        AclOperation.CREATE_TOKENS, AclResourceType.USER, str(owner)
    ):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if any(one.principal_type != USER_TYPE for one in renewers):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    if len(renewers) > MAX_RENEWERS or len(image.delegation_tokens) >= MAX_TOKENS:
        return ErrorCode.POLICY_VIOLATION
    return None
