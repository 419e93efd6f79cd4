"""DescribeDelegationToken (41): tokens with their secrets, for those who own or may renew them, or who have the right.

Owners and renewers see their tokens. Others need DESCRIBE on the token, or DESCRIBE_TOKENS on its owner (KIP-373).
Expired tokens are listed until they are swept.
"""

from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.handlers.tokens.token_rules import FIRST_VERSION_WITH_REQUESTER, requester_of, split_principal
from klamm.controller.metadata.delegation_tokens import DelegationToken
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.transitions.delegation_tokens import secret_key, token_hmac
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.tokens.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def handle_describe_delegation_token(
    image: MetadataImage, request: DescribeDelegationTokenRequest, context: RequestContext
) -> Outcome:
    """The tokens of the owners in the request; null: of all owners."""
    if not context.requester.may_use_tokens:
        return Outcome(DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))
    key = secret_key(context.settings)
    if key is None:
        return Outcome(DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED))
    asked = None
    if request.owners is not None:
        asked = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
    requester = str(requester_of(context))
    has_requester = context.api_version >= FIRST_VERSION_WITH_REQUESTER
    tokens = [
        _described(token, key, has_requester=has_requester)
        for token in image.delegation_tokens.values()
        if (asked is None or not asked.isdisjoint((token.owner, *token.renewers)))
        and (token.may_be_renewed_by(requester) or _is_shown(token, context))
    ]
    return Outcome(DescribeDelegationTokenResponse(tokens=tokens))


def _is_shown(token: DelegationToken, context: RequestContext) -> bool:
    return context.authorize(
        AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.token_id
    ) or context.authorize(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, token.owner)


def _described(token: DelegationToken, key: str, *, has_requester: bool) -> DescribedDelegationToken:
    owner = split_principal(token.owner)
    renewers = [split_principal(one) for one in token.renewers]
    described = DescribedDelegationToken(
        principal_type=owner.principal_type,
        principal_name=owner.name,
        issue_timestamp=token.issued_at_ms,
        expiry_timestamp=token.expires_at_ms,
        max_timestamp=token.ends_at_ms,
        token_id=token.token_id,
        hmac=token_hmac(key, token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=one.principal_type, principal_name=one.name)
            for one in renewers
        ],
    )
    if has_requester:
        requester = split_principal(token.requester)
        described.token_requester_principal_type = requester.principal_type
        described.token_requester_principal_name = requester.name
    return described
