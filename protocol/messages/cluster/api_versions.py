"""ApiVersions: API key 18, versions 0 to 4, flexible from 3.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class ApiVersionsRequest(Message):
    client_software_name: str = field("string", default="", since=3, ignorable=True)
    client_software_version: str = field("string", default="", since=3, ignorable=True)


@message
class ApiVersion(Message):
    api_key: int = field("int16", default=0)
    min_version: int = field("int16", default=0)
    max_version: int = field("int16", default=0)


@message
class SupportedFeatureKey(Message):
    name: str = field("string", default="", since=3)
    min_version: int = field("int16", default=0, since=3)
    max_version: int = field("int16", default=0, since=3)


@message
class FinalizedFeatureKey(Message):
    name: str = field("string", default="", since=3)
    max_version_level: int = field("int16", default=0, since=3)
    min_version_level: int = field("int16", default=0, since=3)


@message
class ApiVersionsResponse(Message):
    error_code: int = field("int16", default=0)
    api_keys: Sequence[ApiVersion] = field([ApiVersion], default=())
    throttle_time_ms: int = field("int32", default=0, since=1, ignorable=True)
    supported_features: Sequence[SupportedFeatureKey] = field(
        [SupportedFeatureKey], default=(), since=3, tag=0, ignorable=True
    )
    finalized_features_epoch: int = field("int64", default=-1, since=3, tag=1, ignorable=True)
    finalized_features: Sequence[FinalizedFeatureKey] = field(
        [FinalizedFeatureKey], default=(), since=3, tag=2, ignorable=True
    )
    zk_migration_ready: bool = field("bool", default=False, since=3, tag=3, ignorable=True)


API = Api(
    key=18,
    name="ApiVersions",
    versions=span(0, 4),
    flexible_since=3,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=4,
    request=ApiVersionsRequest,
    response=ApiVersionsResponse,
)
