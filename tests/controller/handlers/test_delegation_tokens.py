"""Delegation tokens on the test's clock: lifetimes, rights, sweeping, restarts, limits. Codes and fields of most
answers are compared with the recording in tests/behaviour; these tests have the cases that it lacks."""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any

import pytest

from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.core import Answer
from klamm.controller.handlers.tokens import create_delegation_token as creating
from klamm.controller.transitions import delegation_tokens as rules
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.tokens.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from klamm.protocol.messages.tokens.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from klamm.protocol.messages.tokens.expire_delegation_token import ExpireDelegationTokenRequest
from klamm.protocol.messages.tokens.renew_delegation_token import RenewDelegationTokenRequest
from tests.controller.handlers.cluster import START_MS
from tests.controller.handlers.guarded_cluster import ALICE, BOB, GuardedCluster, entry
from tests.controller.image_facts import image_facts
from tests.controller.snapshots import rebuilt

DAY_MS, HOUR_MS = 86_400_000, 3_600_000
KEY = "the key of tokens"
CONFIGS = {"delegation.token.secret.key": KEY}
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


class TokenCluster(GuardedCluster):
    """Requests come from clients that have authenticated themselves, unless a test says otherwise."""

    may_use_tokens = True

    def submit(self, request: Message, *, version: int | None = None, broker_id: int | None = 1) -> Answer:
        if self.principal is None:
            return super().submit(request, version=version, broker_id=broker_id)
        call = self.call(request, version=version, broker_id=broker_id)
        object.__setattr__(call, "principal", self.principal)
        object.__setattr__(call, "may_use_tokens", self.may_use_tokens)
        return self.controller.submit(call)


@pytest.fixture
def cluster() -> TokenCluster:
    made = TokenCluster(1, configs=CONFIGS)
    made.principal = ALICE
    return made


def renewer(name: str, principal_type: str = "User") -> CreatableRenewers:
    return CreatableRenewers(principal_type=principal_type, principal_name=name)


def create(cluster: TokenCluster, *renewers: CreatableRenewers, max_lifetime_ms: int = -1, **owner: str) -> Any:
    return cluster.ask(
        CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=max_lifetime_ms, **owner), version=3
    )


def described(cluster: TokenCluster, owners: Sequence[str] | None = None) -> list[str]:
    asked = None
    if owners is not None:
        asked = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
    answer = cluster.ask(DescribeDelegationTokenRequest(owners=asked))
    assert answer.error_code == 0
    return [token.token_id for token in answer.tokens]


def renew(cluster: TokenCluster, secret: bytes, period_ms: int = -1) -> tuple[int, int]:
    answer = cluster.ask(RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms))
    return answer.error_code, answer.expiry_timestamp_ms


def expire(cluster: TokenCluster, secret: bytes, period_ms: int = -1) -> tuple[int, int]:
    answer = cluster.ask(ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms))
    return answer.error_code, answer.expiry_timestamp_ms


def test_the_secret_follows_from_the_id_and_the_key(cluster: TokenCluster) -> None:
    made = create(cluster)
    assert made.hmac == hmac.new(KEY.encode(), made.token_id.encode(), hashlib.sha512).digest()
    assert made.token_id != create(cluster).token_id
    with cluster.writing() as written:
        third = create(cluster)
    assert len(written) == 1
    assert bytes(third.hmac) not in repr(written).encode()


@pytest.mark.parametrize(
    ("asked_ms", "expires_ms", "ends_ms"),
    [
        (-1, DAY_MS, 7 * DAY_MS),
        (0, DAY_MS, 7 * DAY_MS),
        (1, 1, 1),
        (DAY_MS, DAY_MS, DAY_MS),
        (2 * DAY_MS, DAY_MS, 2 * DAY_MS),
        (8 * DAY_MS, DAY_MS, 7 * DAY_MS),
        (2**63 - 1, DAY_MS, 7 * DAY_MS),
    ],
)
def test_lifetimes_are_those_of_the_configs_or_shorter(
    cluster: TokenCluster, asked_ms: int, expires_ms: int, ends_ms: int
) -> None:
    made = create(cluster, max_lifetime_ms=asked_ms)
    now = cluster.clock.now_ms
    assert (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms) == (
        now,
        now + expires_ms,
        now + ends_ms,
    )


def test_renewing_moves_the_end_up_to_the_last_one(cluster: TokenCluster) -> None:
    secret = create(cluster, max_lifetime_ms=3 * HOUR_MS).hmac
    cluster.clock.advance(HOUR_MS)
    now = cluster.clock.now_ms
    assert renew(cluster, secret, HOUR_MS) == (0, now + HOUR_MS)
    assert renew(cluster, secret, 0) == (0, now + 2 * HOUR_MS)
    assert renew(cluster, secret, 2**63 - 1) == (0, now + 2 * HOUR_MS)
    cluster.clock.advance(2 * HOUR_MS)
    assert renew(cluster, secret)[0] == 0
    cluster.clock.advance(1)
    assert renew(cluster, secret) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)


def test_expiring_sets_another_end_or_removes_the_token(cluster: TokenCluster) -> None:
    secret = create(cluster, max_lifetime_ms=HOUR_MS).hmac
    now = cluster.clock.now_ms
    assert expire(cluster, secret, 5) == (0, now + 5)
    assert expire(cluster, secret, 2 * HOUR_MS) == (0, now + HOUR_MS)
    assert expire(cluster, secret, 0) == (0, now)
    cluster.clock.advance(1)
    assert expire(cluster, secret, 5) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
    assert expire(cluster, secret) == (0, now + 1)
    assert expire(cluster, secret) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)


def test_owners_and_renewers_alone_renew_and_expire(cluster: TokenCluster) -> None:
    secret = create(cluster, renewer("bob")).hmac
    for principal, code in ((ALICE, 0), (BOB, 0), ("User:carol", ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)):
        with cluster.asking(principal):
            assert renew(cluster, secret)[0] == code
            assert expire(cluster, secret, HOUR_MS)[0] == code


def test_those_who_may_see_tokens_see_them(cluster: TokenCluster) -> None:
    made = create(cluster, renewer("bob")).token_id
    other = create(cluster).token_id
    assert described(cluster) == [made, other]
    assert described(cluster, []) == []
    assert described(cluster, ["bob"]) == [made]
    assert described(cluster, ["carol"]) == []
    with cluster.asking(BOB):
        assert described(cluster) == described(cluster, ["alice"]) == [made]
    with cluster.asking("User:carol"):
        assert described(cluster) == []
        cluster.grant(entry(AclOperation.DESCRIBE, other, AclResourceType.DELEGATION_TOKEN, principal="User:carol"))
        assert described(cluster) == [other]
        cluster.grant(entry(AclOperation.DESCRIBE_TOKENS, ALICE, AclResourceType.USER, principal="User:carol"))
        assert described(cluster) == [made, other]


def test_a_token_for_another_owner_needs_a_right(cluster: TokenCluster) -> None:
    owner: Any = {"owner_principal_type": "User", "owner_principal_name": "dora"}
    assert create(cluster, **owner).error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    cluster.grant(entry(AclOperation.CREATE_TOKENS, "User:dora", AclResourceType.USER))
    made = create(cluster, **owner)
    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (0, "dora", "alice")
    token = cluster.image.delegation_tokens[made.token_id]
    assert (token.owner, token.requester) == ("User:dora", ALICE)
    assert create(cluster, owner_principal_type="User", owner_principal_name="alice").error_code == 0


def test_all_of_a_token_is_described_also_names_with_colons(cluster: TokenCluster) -> None:
    with cluster.asking("User:ali:ce"):
        cluster.grant(entry(AclOperation.CREATE_TOKENS, "User:d:o:ra", AclResourceType.USER, principal="User:ali:ce"))
        owner: Any = {"owner_principal_type": "User", "owner_principal_name": "d:o:ra"}
        made = create(cluster, renewer("b:ob"), renewer("carol"), max_lifetime_ms=HOUR_MS, **owner)
    assert (made.principal_type, made.principal_name) == ("User", "d:o:ra")
    assert (made.token_requester_principal_type, made.token_requester_principal_name) == ("User", "ali:ce")
    with cluster.asking("User:b:ob"):
        cluster.clock.advance(5)
        end = made.issue_timestamp_ms + HOUR_MS
        assert renew(cluster, made.hmac, 1_000) == (0, cluster.clock.now_ms + 1_000)
        (seen,) = cluster.ask(DescribeDelegationTokenRequest(owners=None), version=3).tokens
    assert (seen.principal_type, seen.principal_name) == ("User", "d:o:ra")
    assert (seen.token_requester_principal_type, seen.token_requester_principal_name) == ("User", "ali:ce")
    assert [(one.principal_type, one.principal_name) for one in seen.renewers] == [("User", "b:ob"), ("User", "carol")]
    assert (seen.token_id, bytes(seen.hmac)) == (made.token_id, bytes(made.hmac))
    times = (seen.issue_timestamp, seen.expiry_timestamp, seen.max_timestamp)
    assert times == (made.issue_timestamp_ms, cluster.clock.now_ms + 1_000, end)


def test_a_client_that_has_not_authenticated_itself_gets_nothing(cluster: TokenCluster) -> None:
    secret = create(cluster).hmac
    cluster.may_use_tokens = False
    made = create(cluster)
    times = made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms
    assert (made.error_code, times, made.hmac) == (NOT_ALLOWED, (-1, -1, -1), b"")
    assert renew(cluster, secret) == (NOT_ALLOWED, -1)
    assert expire(cluster, secret) == (NOT_ALLOWED, -1)
    answer = cluster.ask(DescribeDelegationTokenRequest(owners=None))
    assert (answer.error_code, answer.tokens) == (NOT_ALLOWED, ())
    assert len(cluster.image.delegation_tokens) == 1


def test_without_a_key_there_are_no_tokens() -> None:
    for configs in ({}, {"delegation.token.secret.key": ""}):
        cluster = TokenCluster(1, configs=configs)
        cluster.principal = ALICE
        disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        assert create(cluster).error_code == disabled
        assert renew(cluster, b"x") == expire(cluster, b"x") == (disabled, 0)
        assert cluster.ask(DescribeDelegationTokenRequest(owners=None)).error_code == disabled


def test_expired_tokens_are_listed_until_they_are_swept(cluster: TokenCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "SWEPT_AT_ONCE", 2)
    short = [create(cluster, max_lifetime_ms=10).token_id for _ in range(3)]
    long = create(cluster).token_id
    cluster.clock.advance(11)
    cluster.tick()
    assert described(cluster) == [*short, long]
    cluster.clock.now_ms = START_MS + HOUR_MS - 1
    cluster.tick()
    assert described(cluster) == [*short, long]
    cluster.clock.advance(1)
    cluster.tick()
    assert described(cluster) == [short[2], long]
    cluster.tick()
    assert described(cluster) == [long]


def test_tokens_are_there_after_a_restart_and_in_a_snapshot(cluster: TokenCluster) -> None:
    made = create(cluster, renewer("bob"), renewer("carol"))
    renew(cluster, made.hmac, HOUR_MS)
    before = image_facts(cluster.image)
    cluster.start()
    assert image_facts(cluster.image) == image_facts(rebuilt(cluster.image)) == before
    assert renew(cluster, made.hmac)[0] == 0


def test_tokens_and_renewers_are_limited(cluster: TokenCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(creating, "MAX_TOKENS", 2)
    monkeypatch.setattr(creating, "MAX_RENEWERS", 2)
    assert create(cluster, renewer("a"), renewer("b"), renewer("c")).error_code == ErrorCode.POLICY_VIOLATION
    codes = [create(cluster, renewer("a"), renewer("b")).error_code for _ in range(3)]
    assert codes == [0, 0, ErrorCode.POLICY_VIOLATION]
    assert create(cluster, renewer("a", "Group")).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_is_answered(cluster: TokenCluster, version: int) -> None:
    made = cluster.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), version=version)
    assert (made.error_code, made.token_requester_principal_name) == (0, "alice" if version == 3 else "")
    (seen,) = cluster.ask(DescribeDelegationTokenRequest(owners=None), version=version).tokens
    assert (seen.principal_name, seen.token_requester_principal_name) == ("alice", made.token_requester_principal_name)
