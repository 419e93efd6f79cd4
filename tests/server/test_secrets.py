"""Secrets in requests and answers are hidden wherever these are shown."""

from typing import Any

import pytest

from klamm.broker.dispatch import APIS
from klamm.protocol.fields import Array, Message, wire_fields
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from klamm.protocol.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from klamm.protocol.messages.tokens.create_delegation_token import CreateDelegationTokenResponse
from klamm.protocol.messages.tokens.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenResponse,
)
from klamm.protocol.messages.tokens.renew_delegation_token import RenewDelegationTokenRequest
from klamm.server.secrets import HIDDEN, shown_message

SECRET = b"hunter2"


def altered(name: str) -> Message:
    change = AlterableConfig(name=name, config_operation=0, value=SECRET.decode())
    return IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(resource_type=4, configs=[change])])


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (SaslAuthenticateRequest(auth_bytes=SECRET), 2),
        (SaslAuthenticateResponse(auth_bytes=SECRET), 2),
        (
            AlterUserScramCredentialsRequest(
                upsertions=[ScramCredentialUpsertion(name="u", salt=b"salt", salted_password=SECRET)]
            ),
            0,
        ),
        (CreateDelegationTokenResponse(hmac=SECRET), 3),
        (DescribeDelegationTokenResponse(tokens=[DescribedDelegationToken(hmac=SECRET)]), 3),
        (RenewDelegationTokenRequest(hmac=SECRET), 2),
        (altered("ssl.keystore.password"), 1),
        (altered("listener.name.x.plain.sasl.jaas.config"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_secrets_are_hidden(message: Message, version: int) -> None:
    shown = repr(shown_message(message, version))
    assert HIDDEN in shown
    assert "hunter2" not in shown
    assert "aHVudGVyMg" not in shown
    assert SECRET.hex() not in shown


def test_other_values_are_shown() -> None:
    assert "hunter2" in repr(shown_message(altered("num.io.threads"), 1))
    assert shown_message(SaslAuthenticateResponse(error_message="no"), 2)["errorMessage"] == "no"


BYTES_THAT_ARE_NO_SECRETS = {
    "assignment", "metadata", "protocol_metadata", "member_assignment", "salt", "user_data", "records", "metrics",
    "member_metadata", "subscription", "assigned_metadata", "request_principal", "client_host_address",
}  # fmt: skip


def bytes_fields(message_class: type[Message]) -> set[str]:
    found: set[str] = set()
    for wire in wire_fields(message_class):
        kind: Any = wire.type.of if isinstance(wire.type, Array) else wire.type
        if isinstance(kind, type):
            found |= bytes_fields(kind)
        elif kind in ("bytes", "records"):
            found.add(wire.name)
    return found


def test_every_field_of_bytes_is_known_to_be_a_secret_or_none() -> None:
    """A new API with bytes fails here: say whether they are a secret."""
    found = set().union(*(bytes_fields(message) for api in APIS for message in (api.request, api.response)))
    assert found - BYTES_THAT_ARE_NO_SECRETS == {
        "auth_bytes", "salted_password", "hmac", "request_data", "response_data", "unaligned_records",
    }  # fmt: skip
