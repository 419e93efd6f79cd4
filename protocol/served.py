"""What a server offers to a client: APIs and their versions, as one value that everyone asks.

ApiVersions describes the value, the decoder reads what it contains, and a request that it does not contain is refused.
Which client is offered which value is the server's affair; a value never changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from klamm.protocol.api import Api


@dataclass(frozen=True, slots=True)
class ServedApi:
    """One API as a client is offered it. All ranges are of versions, without gaps."""

    api: Api[Any, Any]
    described: range
    """The versions that ApiVersions tells the client."""
    answered: range
    """The versions in which a request is read and answered."""
    newest_schema: int
    """The newest declared version; a newer one in `answered` has the bytes and the meaning of this one."""

    def schema_version(self, version: int) -> int:
        """The declared version whose schema a request of `version` has, and its response."""
        return min(version, self.newest_schema)


ApiTable: TypeAlias = Mapping[int, ServedApi]
"""The APIs that one client is offered, by API key, in ascending order."""


def declared(api: Api[Any, Any]) -> ServedApi:
    """The API in all versions that are declared, the unstable ones included."""
    return ServedApi(api, api.versions, api.versions, api.versions[-1])
