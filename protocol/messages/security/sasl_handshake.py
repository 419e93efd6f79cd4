"""SaslHandshake: API key 17, versions 0 to 1, never flexible.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class SaslHandshakeRequest(Message):
    mechanism: str = field("string", default="")


@message
class SaslHandshakeResponse(Message):
    error_code: int = field("int16", default=0)
    mechanisms: Sequence[str] = field(["string"], default=())


API = Api(
    key=17,
    name="SaslHandshake",
    versions=span(0, 1),
    flexible_since=None,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=1,
    request=SaslHandshakeRequest,
    response=SaslHandshakeResponse,
)
