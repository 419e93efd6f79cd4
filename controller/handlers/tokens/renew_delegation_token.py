"""RenewDelegationToken (39): lets a token live longer, up to the end that it was made with."""

from klamm.controller.context import RequestContext
from klamm.controller.handlers.tokens.token_rules import own_token
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.tokens.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


def handle_renew_delegation_token(
    image: MetadataImage, request: RenewDelegationTokenRequest, context: RequestContext
) -> Outcome:
    """The new time at which the token expires."""
    if not context.requester.may_use_tokens:
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return Outcome(RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1))
    token = own_token(image, context, bytes(request.hmac))
    if isinstance(token, ErrorCode):
        return Outcome(RenewDelegationTokenResponse(error_code=token))
    if token.is_expired(context.now_ms):
        return Outcome(RenewDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    period_ms = context.settings.static_int("delegation.token.expiry.time.ms")
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    expires_at_ms = min(token.ends_at_ms, context.now_ms + period_ms)
    record = token.record()
    record.expiration_timestamp = expires_at_ms
    return Outcome(RenewDelegationTokenResponse(expiry_timestamp_ms=expires_at_ms), [record])
