"""What `klamm.AdminClient` raises, all of it under `AdminError`.

Three things can go wrong with a request as a whole: no broker could be asked (`ClusterUnreachable`), the broker has
no version of the API that can say it (`NotSupportedByBroker`), or the broker refused it (`RequestFailed`). A topic
or resource that is refused beside others is not raised: it is the `error` of its own result, which raises it as
`RequestFailed` when asked to.
"""

from klamm.protocol.errors import ApiError, ErrorCode


class AdminError(Exception):
    """Everything that the admin client raises by itself; `trio.Cancelled` and programming errors are not among it."""


class ClusterUnreachable(AdminError):
    """No answer: nothing listens there, the connection broke, the time was up, or what came back was not Kafka.

    Whether a change was made is unknown if the connection had stood. The next call connects anew.
    """

    def __init__(self, bootstrap_servers: str, reason: str) -> None:
        super().__init__(bootstrap_servers, reason)
        self.bootstrap_servers = bootstrap_servers
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.bootstrap_servers}: {self.reason}"


class NotSupportedByBroker(AdminError):
    """The broker serves no version of the API that we speak, or none in which the request can be said."""

    def __init__(self, api_name: str, reason: str) -> None:
        super().__init__(api_name, reason)
        self.api_name = api_name
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.api_name}: {self.reason}"


class RequestFailed(AdminError):
    """The broker answered with an error; `subject` is what it is about, such as `topic 'a'`."""

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
        """What the broker said about it, if anything."""
        return self.error.message

    def __str__(self) -> str:
        said = f": {self.error.message}" if self.error.message else ""
        return f"{self.subject}: {self.error.code.name} ({self.error.code.value}){said}"


def decode_error(error_code: int, message: str | None = None) -> ApiError | None:
    """The error of one item of an answer, None for 0; a code that Kafka 4.3 does not know is told in the message."""
    if error_code == ErrorCode.NONE:
        return None
    try:
        return ApiError(ErrorCode(error_code), message or None)
    except ValueError:
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"error code {error_code}: {message or 'without a message'}")
