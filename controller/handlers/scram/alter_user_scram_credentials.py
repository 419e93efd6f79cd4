"""AlterUserScramCredentials (51): makes, changes and removes the credentials of users.

Each user is decided on its own. A user that is named twice, whatever the mechanisms, is not changed (Kafka:
ScramControlManager). The salted password of the request becomes the keys of RFC 5802; only these are stored.
"""

from typing import Final

from klamm.controller.authorizer import AclOperation
from klamm.controller.configs import in_hash_order
from klamm.controller.context import RequestContext
from klamm.controller.log_records import Record
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata_versions import FIRST_LEVEL_WITH_SCRAM
from klamm.controller.outcome import Outcome
from klamm.controller.transitions.scram import DIGESTS, MAX_ITERATIONS, MIN_ITERATIONS, credential_of, credential_record
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from klamm.protocol.records.security import RemoveUserScramCredentialRecord

MAX_CREDENTIALS: Final = 100_000
"""Most credentials in a cluster. Apache Kafka has no such limit."""
MAX_SALT_BYTES: Final = 1_024
"""The longest salt. Apache Kafka has no such limit; its tools make 20 bytes."""
MAX_USERS_PER_REQUEST: Final = 10_000
_TWICE: Final = ApiError(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
_MISSING: Final = ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
_TOO_OLD: Final = ApiError(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
_UNKNOWN: Final = ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
_Change = ScramCredentialDeletion | ScramCredentialUpsertion


def handle_alter_user_scram_credentials(
    image: MetadataImage, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> Outcome:
    """One result for each user."""
    every: list[_Change] = [*request.deletions, *request.upsertions]
    names = {change.name for change in every}
    refusal = context.refuse_cluster(AclOperation.ALTER)
    if refusal is None and len(names) > MAX_USERS_PER_REQUEST:
        refusal = ApiError(ErrorCode.POLICY_VIOLATION, f"At most {MAX_USERS_PER_REQUEST} users can be altered at once.")
    if refusal is not None:
        return Outcome(_response(dict.fromkeys(names, refusal)))
    errors: dict[str, ApiError] = {}
    changes: dict[str, _Change] = {}
    for change in every:
        if change.name in errors:
            continue
        fault = _TOO_OLD if image.features.metadata_version < FIRST_LEVEL_WITH_SCRAM else _fault(image, change)
        if fault is None and changes.pop(change.name, None) is not None:
            fault = _TWICE
        if fault is None:
            changes[change.name] = change
        else:
            changes.pop(change.name, None)
            errors[change.name] = fault
    results: dict[str, ApiError | None] = {}
    records: list[Record] = []
    room = MAX_CREDENTIALS - len(image.scram_credentials)
    # Removals come first, as in Kafka.
    in_order = sorted(in_hash_order(changes), key=lambda name: isinstance(changes[name], ScramCredentialUpsertion))
    for name in in_order:
        change = changes[name]
        is_new = (name, change.mechanism) not in image.scram_credentials
        results[name] = None
        if isinstance(change, ScramCredentialUpsertion) and not change.salted_password:
            # Java's HMAC has no empty keys: Kafka's controller answers that it does not know what went wrong.
            results[name] = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        elif is_new and room == 0:
            results[name] = ApiError(
                ErrorCode.POLICY_VIOLATION, f"A cluster can have at most {MAX_CREDENTIALS} credentials."
            )
        else:
            room += -is_new if isinstance(change, ScramCredentialUpsertion) else 1
            records.append(_record(change))
    return Outcome(_response({**results, **errors}), records)


def refuse_users(request: AlterUserScramCredentialsRequest, code: ErrorCode) -> AlterUserScramCredentialsResponse:
    """The response that refuses each user of the request once with an error code, in Kafka's order: that of Java's
    strings."""
    every: list[_Change] = [*request.deletions, *request.upsertions]
    names = {change.name for change in every}
    in_order = sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    return _response(dict.fromkeys(in_order, ApiError(code)))


def _fault(image: MetadataImage, change: _Change) -> ApiError | None:
    if change.mechanism not in DIGESTS:
        return _UNKNOWN
    if not change.name:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if isinstance(change, ScramCredentialDeletion):
        return None if (change.name, change.mechanism) in image.scram_credentials else _MISSING
    if change.iterations < MIN_ITERATIONS:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if len(change.salt) > MAX_SALT_BYTES:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"The salt has more than {MAX_SALT_BYTES} bytes")
    return None


def _record(change: _Change) -> Record:
    if isinstance(change, ScramCredentialDeletion):
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    made = credential_of(change.mechanism, bytes(change.salted_password), bytes(change.salt), change.iterations)
    return credential_record(change.name, change.mechanism, made)


def _response(results: dict[str, ApiError | None] | dict[str, ApiError]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=name, error_message=None)
            if fault is None
            else AlterUserScramCredentialsResult(user=name, error_code=fault.code, error_message=fault.message)
            for name, fault in results.items()
        ]
    )
