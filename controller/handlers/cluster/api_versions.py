"""ApiVersions (18): which APIs this listener serves, in which versions, and the features of the cluster.

The list is the value that also decides how requests of the client are decoded (`klamm.controller.served_apis`). If
the client's name or version is not made of letters, digits, dots and dashes, the answer is INVALID_REQUEST with an
empty list (KIP-511).
"""

import re

from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.served_apis import release_of
from klamm.controller.transitions.features import finalized_levels
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.cluster.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

FIRST_VERSION_WITH_CLIENT_SOFTWARE = 3
# Versions before this one cannot say that a feature may be absent: such features are left out (KIP-1022).
FIRST_VERSION_WITH_FEATURES_FROM_ZERO = 4
_CLIENT_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle_api_versions(image: MetadataImage, request: ApiVersionsRequest, context: RequestContext) -> Outcome:
    """The APIs of the listener, and the supported and finalized features."""
    if context.api_version >= FIRST_VERSION_WITH_CLIENT_SOFTWARE and not all(
        _CLIENT_SOFTWARE.fullmatch(text) for text in (request.client_software_name, request.client_software_version)
    ):
        return Outcome(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
    from_zero = context.api_version >= FIRST_VERSION_WITH_FEATURES_FROM_ZERO
    release = release_of(context.served)
    finalized = finalized_levels(image, is_dynamic=context.cluster.is_dynamic)
    epoch = release.features_epoch
    return Outcome(
        ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=served.described[0], max_version=served.described[-1])
                for key, served in context.served.items()
                if served.described
            ],
            supported_features=[
                SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
                for name, (lowest, highest) in sorted(release.features.items())
                if lowest > 0 or from_zero
            ],
            finalized_features_epoch=image.next_offset - 1 if epoch is None else epoch,
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, finalized_level in finalized.items()
                # A client of an emulated release gets no level that the release does not know.
                if (level := min(finalized_level, release.features.get(name, (0, 0))[1])) > 0
            ],
        )
    )
