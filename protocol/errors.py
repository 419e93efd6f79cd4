"""The two kinds of errors: malformed bytes, and items of a request that are refused.

Malformed bytes raise `ProtocolError`, and no other exception. For a refused topic or partition an `ApiError` is
returned. The codes are Kafka's, in `klamm.protocol.error_codes`, which is generated from spec/errors.tsv.
"""

from klamm.protocol.error_codes import ErrorCode
from klamm.quick_dataclasses import dataclass


class ProtocolError(Exception):
    """Bytes cannot be decoded, or a message cannot be encoded.

    `offset` is the byte at which the error was found (-1 when encoding), `path` the field (`topics[3].name`, empty if
    it is not known), `reason` one clause for users.
    """

    def __init__(self, reason: str, *, offset: int = -1, path: str = "") -> None:
        super().__init__(reason, offset, path)
        self.reason = reason
        self.offset = offset
        self.path = path

    def __str__(self) -> str:
        at = f" at byte {self.offset}" if self.offset >= 0 else ""
        field = f" in {self.path}" if self.path else ""
        return f"{self.reason}{field}{at}"


class UnsupportedVersion(ProtocolError):
    """An ApiVersions request of an unsupported version, which is answered nevertheless (KIP-511)."""

    def __init__(self, api_key: int, api_version: int, correlation_id: int) -> None:
        super().__init__(f"API {api_key} has no version {api_version}", offset=2, path="request_api_version")
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id


class NotServed(ProtocolError):
    """A request of an API or a version that is not served here."""

    def __init__(self, reason: str, api_key: int, api_version: int, api_name: str, *, offset: int, path: str) -> None:
        super().__init__(reason, offset=offset, path=path)
        self.api_key = api_key
        self.api_version = api_version
        self.api_name = api_name
        """The name in Kafka; `unknown API` if Kafka has none of this key."""


@dataclass(frozen=True, slots=True)
class ApiError:
    """The reason why a topic, partition or resource of a request was refused."""

    code: ErrorCode
    message: str | None = None


__all__ = ["ApiError", "ErrorCode", "ProtocolError", "UnsupportedVersion"]
