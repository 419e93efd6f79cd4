"""DescribeUserScramCredentials (50): the mechanisms and iterations of users. Salts and keys are never shown."""

from typing import Final

from klamm.controller.authorizer import REFUSALS, AclOperation, AclResourceType
from klamm.controller.configs import in_hash_order, shortened
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.security.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

_MISSING: Final = "Attempt to describe a user credential that does not exist: "
_TWICE: Final = "Cannot describe SCRAM credentials for the same user twice in a single request: "


def handle_describe_user_scram_credentials(
    image: MetadataImage, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> Outcome:
    """The users of the request; without any, all that have credentials."""
    if not context.authorize_cluster(AclOperation.DESCRIBE):
        refusal = REFUSALS[AclResourceType.CLUSTER]
        return Outcome(
            DescribeUserScramCredentialsResponse(error_code=refusal.code, error_message=refusal.message, results=[])
        )
    names = [user.name for user in request.users or ()] or [user for user, _ in image.scram_credentials]
    asked = [user.name for user in request.users or ()]
    seen: set[str] = set()
    twice = {name for name in asked if name in seen or seen.add(name)}  # type: ignore[func-returns-value]
    results = [_described(image, name, name in twice) for name in in_hash_order(names)]
    return Outcome(DescribeUserScramCredentialsResponse(results=results))


def _described(image: MetadataImage, name: str, is_asked_twice: bool) -> DescribeUserScramCredentialsResult:
    if is_asked_twice:
        return DescribeUserScramCredentialsResult(
            user=name, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=shortened(_TWICE + name)
        )
    infos = [
        CredentialInfo(mechanism=mechanism, iterations=image.scram_credentials[name, mechanism].iterations)
        for mechanism in image.scram_credentials.mechanisms_of(name)
    ]
    if not infos:
        return DescribeUserScramCredentialsResult(
            user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=shortened(_MISSING + name)
        )
    return DescribeUserScramCredentialsResult(user=name, credential_infos=infos)
