"""The APIs and versions that a client is served, as one value that ApiVersions, the decoder and routing use.

ApiVersions describes the value, the decoder reads what it contains, and a request that it does not contain is refused.
The server chooses the value for each client. A value never changes.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from klamm.protocol.api import Api
from klamm.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServedApi:
    """One API as it is served to a client. All ranges are of versions, without gaps."""

    api: Api[Any, Any]
    described: range
    """The versions in the ApiVersions response; empty: the API is answered and not listed."""
    answered: range
    """The versions in which a request is read and answered."""
    newest_schema: int
    """The newest declared version. A newer version in `answered` has the same bytes and the same meaning."""

    def schema_version(self, version: int) -> int:
        """The declared version whose schema is used for requests and responses of `version`."""
        return min(version, self.newest_schema)


ApiTable: TypeAlias = Mapping[int, ServedApi]
"""The APIs that one client is served, by API key, in ascending order."""


def declared(api: Api[Any, Any]) -> ServedApi:
    """The API in all versions that are declared, the unstable ones included."""
    return ServedApi(api, api.versions, api.versions, api.versions[-1])
