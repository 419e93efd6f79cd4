"""SaslHandshake (17) outside of an authentication: ILLEGAL_SASL_STATE.

Listeners with SASL answer it themselves before a client is authenticated (`klamm.server.sasl.authenticator`).
"""

from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle_sasl_handshake(_image: MetadataImage, _request: SaslHandshakeRequest, _context: RequestContext) -> Outcome:
    """The error, without the mechanisms."""
    return Outcome(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
