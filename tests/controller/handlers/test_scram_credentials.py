"""AlterUserScramCredentials and DescribeUserScramCredentials: what is written, the limits, restarts. Codes and texts
are compared with the recording in tests/behaviour; these tests have the cases that it lacks."""

import hashlib
import hmac

import pytest

from klamm.controller.handlers.scram import alter_user_scram_credentials as altering
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from klamm.protocol.messages.security.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from klamm.protocol.records.security import UserScramCredentialRecord
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.handlers.guarded_cluster import GuardedCluster
from tests.controller.image_facts import image_facts
from tests.controller.snapshots import rebuilt

SALT, SALTED = b"0123456789", b"salted password"


@pytest.fixture
def cluster() -> DrivenCluster:
    return DrivenCluster(1)


def upsertion(name: str, mechanism: int = 1, iterations: int = 4_096, salt: bytes = SALT) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=SALTED
    )


def alter(cluster: DrivenCluster, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> dict[str, int]:
    """The codes by user."""
    request = AlterUserScramCredentialsRequest(
        deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
    )
    return {result.user: result.error_code for result in cluster.ask(request).results}


def described(cluster: DrivenCluster) -> dict[str, list[tuple[int, int]]]:
    answer = cluster.ask(DescribeUserScramCredentialsRequest(users=None))
    return {
        result.user: [(info.mechanism, info.iterations) for info in result.credential_infos]
        for result in answer.results
    }


@pytest.mark.parametrize(("mechanism", "digest"), [(1, "sha256"), (2, "sha512")])
def test_the_keys_of_rfc_5802_are_stored_and_the_salted_password_is_not(
    cluster: DrivenCluster, mechanism: int, digest: str
) -> None:
    with cluster.writing() as written:
        assert alter(cluster, upsertion("u", mechanism, 5_000)) == {"u": 0}
    client_key = hmac.new(SALTED, b"Client Key", digest).digest()
    assert written == [
        UserScramCredentialRecord(
            name="u",
            mechanism=mechanism,
            salt=SALT,
            stored_key=hashlib.new(digest, client_key).digest(),
            server_key=hmac.new(SALTED, b"Server Key", digest).digest(),
            iterations=5_000,
        )
    ]


def test_credentials_are_there_after_a_restart_and_in_a_snapshot(cluster: DrivenCluster) -> None:
    alter(cluster, upsertion("b"), upsertion("a", 2, 8_192))
    alter(cluster, upsertion("a", 1, 16_384), upsertion("c"))
    alter(cluster, ScramCredentialDeletion(name="c", mechanism=1))
    expected = {"b": [(1, 4_096)], "a": [(2, 8_192), (1, 16_384)]}
    assert described(cluster) == expected
    before = image_facts(cluster.image)
    cluster.start()
    assert described(cluster) == expected
    assert image_facts(cluster.image) == image_facts(rebuilt(cluster.image)) == before


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion("u", iterations=4_095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("u", iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("", mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion("u", salt=bytes(altering.MAX_SALT_BYTES)), ErrorCode.NONE),
        (upsertion("u", salt=bytes(altering.MAX_SALT_BYTES + 1)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (ScramCredentialDeletion(name="u", mechanism=1), ErrorCode.RESOURCE_NOT_FOUND),
        (ScramCredentialDeletion(name="u", mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (ScramCredentialDeletion(name="", mechanism=1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_bad_changes_are_refused_and_write_nothing(
    cluster: DrivenCluster, change: ScramCredentialUpsertion | ScramCredentialDeletion, code: ErrorCode
) -> None:
    with cluster.writing() as written:
        assert alter(cluster, change) == {change.name: code}
    assert bool(written) == (code is ErrorCode.NONE)


def test_the_number_of_credentials_is_limited(cluster: DrivenCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(altering, "MAX_CREDENTIALS", 3)
    assert alter(cluster, upsertion("a"), upsertion("b")) == {"a": 0, "b": 0}
    assert sorted(alter(cluster, upsertion("c"), upsertion("d"), upsertion("a")).values()) == [0, 0, 44]
    removed = ScramCredentialDeletion(name="a", mechanism=1)
    assert alter(cluster, upsertion("e"), removed) == {"a": 0, "e": 0}
    assert len(cluster.image.scram_credentials) == 3


def test_the_users_of_one_request_are_limited(cluster: DrivenCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(altering, "MAX_USERS_PER_REQUEST", 2)
    assert alter(cluster, upsertion("a"), upsertion("b")) == {"a": 0, "b": 0}
    assert set(alter(cluster, upsertion("a"), upsertion("b"), upsertion("c")).values()) == {44}


def test_names_as_long_as_the_protocol_allows_are_described() -> None:
    cluster = DrivenCluster(1)
    name = "ü" * 16_000
    answer = cluster.ask(DescribeUserScramCredentialsRequest(users=[UserName(name=name)]))
    assert answer.results[0].error_code == ErrorCode.RESOURCE_NOT_FOUND


def test_without_the_right_no_user_is_named() -> None:
    guarded = GuardedCluster(1)
    with guarded.asking(None):
        alter(guarded, upsertion("u"))
    with guarded.asking("User:alice"):
        answer = guarded.ask(DescribeUserScramCredentialsRequest(users=None))
        assert (answer.error_code, answer.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ())
        assert alter(guarded, upsertion("v")) == {"v": ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert list(guarded.image.scram_credentials) == [("u", 1)]
