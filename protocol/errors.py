"""What can go wrong, by channel: bytes that are not what they should be, and items that are refused.

Bad bytes raise `ProtocolError`, here and nowhere else as another exception. A refused topic or partition is a returned
`ApiError`. The codes themselves are Kafka's and stand in `klamm.protocol.error_codes`, written from spec/errors.tsv.
"""

from dataclasses import dataclass

from klamm.protocol.error_codes import ErrorCode


class ProtocolError(Exception):
    """Bytes that are no message, or a message that has no bytes.

    `offset` is where in the bytes it was noticed (-1 when encoding), `path` the field (`topics[3].name`, empty where
    it is not known), `reason` one clause for people.
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
    """A request that is answered all the same: ApiVersions in a version that we do not know (KIP-511)."""

    def __init__(self, api_key: int, api_version: int, correlation_id: int) -> None:
        super().__init__(f"API {api_key} has no version {api_version}", offset=2, path="request_api_version")
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id


@dataclass(frozen=True, slots=True)
class ApiError:
    """Why one topic, partition or resource of a request was refused; travels in the answer."""

    code: ErrorCode
    message: str | None = None


__all__ = ["ApiError", "ErrorCode", "ProtocolError", "UnsupportedVersion"]
