"""SaslAuthenticate (36) outside of an authentication: ILLEGAL_SASL_STATE.

Listeners with SASL answer it themselves before a client is authenticated (`klamm.server.sasl.authenticator`).
"""

from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle_sasl_authenticate(
    _image: MetadataImage, _request: SaslAuthenticateRequest, _context: RequestContext
) -> Outcome:
    """The error, with Kafka's text."""
    return Outcome(
        SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    )
