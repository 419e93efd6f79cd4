"""UpdateFeatures: API key 57, versions 0 to 2, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class FeatureUpdateKey(Message):
    feature: str = field("string", default="")
    max_version_level: int = field("int16", default=0)
    allow_downgrade: bool = field("bool", default=False, until=0)
    upgrade_type: int = field("int8", default=1, since=1)


@message
class UpdateFeaturesRequest(Message):
    timeout_ms: int = field("int32", default=60000)
    feature_updates: Sequence[FeatureUpdateKey] = field([FeatureUpdateKey], default=())
    validate_only: bool = field("bool", default=False, since=1)


@message
class UpdatableFeatureResult(Message):
    feature: str = field("string", default="", until=1)
    error_code: int = field("int16", default=0, until=1)
    error_message: str | None = field("string", default="", until=1, nullable_since=0)


@message
class UpdateFeaturesResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0)
    results: Sequence[UpdatableFeatureResult] = field([UpdatableFeatureResult], default=(), until=1, ignorable=True)


API = Api(
    key=57,
    name="UpdateFeatures",
    versions=span(0, 2),
    flexible_since=0,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=2,
    request=UpdateFeaturesRequest,
    response=UpdateFeaturesResponse,
)
