"""ExpireDelegationToken (40): removes a token at once, or sets another time at which it expires."""

from klamm.controller.context import RequestContext
from klamm.controller.handlers.tokens.token_rules import own_token
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.tokens.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from klamm.protocol.records.security import RemoveDelegationTokenRecord


def handle_expire_delegation_token(
    image: MetadataImage, request: ExpireDelegationTokenRequest, context: RequestContext
) -> Outcome:
    """The new time at which the token expires; now, if it is removed."""
    if not context.requester.may_use_tokens:
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return Outcome(ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1))
    token = own_token(image, context, bytes(request.hmac))
    if isinstance(token, ErrorCode):
        return Outcome(ExpireDelegationTokenResponse(error_code=token))
    if request.expiry_time_period_ms < 0:
        removal = RemoveDelegationTokenRecord(token_id=token.token_id)
        return Outcome(ExpireDelegationTokenResponse(expiry_timestamp_ms=context.now_ms), [removal])
    if token.is_expired(context.now_ms):
        return Outcome(ExpireDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    expires_at_ms = min(token.ends_at_ms, context.now_ms + request.expiry_time_period_ms)
    record = token.record()
    record.expiration_timestamp = expires_at_ms
    return Outcome(ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_at_ms), [record])
