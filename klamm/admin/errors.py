"""The exceptions of `klamm.AdminClient`; all derive from `AdminError`.

A request as a whole fails in four ways: no broker answered (`ClusterUnreachable`), broker and client do not trust each
other (`AuthenticationFailed`), the broker supports no version of the API that can express it (`NotSupportedByBroker`),
or the broker refused it (`RequestFailed`). If the broker refuses single topics or resources, nothing is raised: the
`error` of the result has the reason, and its `raise_for_error()` raises `RequestFailed`.
"""

from klamm.protocol.errors import ApiError, ErrorCode


def _with_servers(bootstrap_servers: str, reason: str) -> str:
    """The reason, with the bootstrap servers in front of it unless they are in it."""
    return reason if bootstrap_servers in reason else f"{bootstrap_servers}: {reason}"


class AdminError(Exception):
    """The base class of the errors that the admin client raises."""


class ClusterUnreachable(AdminError):
    """No response: no server listens at the address, the connection broke, the time limit passed, or the response is
    invalid.

    If the connection was established, it is unknown whether the cluster made the change. The next call connects again.
    """

    def __init__(self, bootstrap_servers: str, reason: str) -> None:
        super().__init__(bootstrap_servers, reason)
        self.bootstrap_servers = bootstrap_servers
        self.reason = reason

    def __str__(self) -> str:
        return _with_servers(self.bootstrap_servers, self.reason)


class AuthenticationFailed(AdminError):
    """The broker refused the client's password, token or certificate, or the client refused the broker's certificate.

    No request was sent. Other brokers are not tried.
    """

    def __init__(self, bootstrap_servers: str, reason: str) -> None:
        super().__init__(bootstrap_servers, reason)
        self.bootstrap_servers = bootstrap_servers
        self.reason = reason

    def __str__(self) -> str:
        return _with_servers(self.bootstrap_servers, self.reason)


class NotSupportedByBroker(AdminError):
    """The broker and Klamm have no version of the API in common, or no common version can express the request."""

    def __init__(self, api_name: str, reason: str) -> None:
        super().__init__(api_name, reason)
        self.api_name = api_name
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.api_name}: {self.reason}"


class RequestFailed(AdminError):
    """The broker answered with an error. `subject` is its item, such as `topic 'a'`."""

    def __init__(self, subject: str, error: ApiError) -> None:
        super().__init__(subject, error)
        self.subject = subject
        self.error = error

    @property
    def code(self) -> ErrorCode:
        """Kafka's error code."""
        return self.error.code

    @property
    def message(self) -> str | None:
        """The broker's error message, or None."""
        return self.error.message

    def __str__(self) -> str:
        said = f": {self.error.message}" if self.error.message else ""
        return f"{self.subject}: {self.error.code.name} ({self.error.code.value}){said}"


def decode_error(error_code: int, message: str | None = None) -> ApiError | None:
    """The error of one item of an answer, None for 0; the message names a code that Kafka 4.3 does not have."""
    if error_code == ErrorCode.NONE:
        return None
    try:
        return ApiError(ErrorCode(error_code), message or None)
    except ValueError:
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"error code {error_code}: {message or 'without a message'}")
