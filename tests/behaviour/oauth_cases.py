"""Logins by OAUTHBEARER: the cases that were recorded from a real cluster, and the client that plays them.

`python -m tests.behaviour.oauth_cases LISTENER=HOST:PORT…` plays them against any cluster and prints the outcomes; the
settings of the recorded listeners are in tests/golden/oauthbearer/README.md.
"""

import base64
import hashlib
import hmac
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import jwt
import trio

from klamm.protocol.codec.frames import FrameBuffer, encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.messages.security import sasl_authenticate, sasl_handshake

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "oauthbearer"
LATE_SECONDS, WATCHED_SECONDS = 0.35, 1.2
KEYS: Final = {name: (GOLDEN / f"{name}.pem").read_text() for name in ("rsa-1", "rsa-2", "ec-1", "stranger")}
NOW = "now"
"""Stands for the time of a login, in seconds, in claims: `["now", 60]` is a minute later."""


@dataclass(frozen=True, slots=True)
class Case:
    """One login."""

    name: str
    listener: str
    claims: Mapping[str, Any] | None = None
    header: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    """The key that signs, or the secret, for HS256; None: the token has no signature."""
    message: str = "n,,\x01auth=Bearer {token}\x01\x01"
    token: str | None = None
    """The token itself, in place of claims; `{good}` is a good one."""
    then: Sequence[str] = ()
    """The client's further messages."""
    version: int = 1
    """Of SaslHandshake."""


def _encoded(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _meant(value: Any, now: int) -> Any:
    if isinstance(value, list) and value[:1] == [NOW]:
        return now + value[1]
    return {name: _meant(one, now) for name, one in value.items()} if isinstance(value, Mapping) else value


def token_of(case: Case, now: int) -> str:
    """The token of a case."""
    good = f"{_encoded({'alg': 'none'})}.{_encoded(_meant(GOOD, now))}."
    if case.token is not None:
        return case.token.replace("{good}", good)
    claims = _meant(case.claims, now)
    if case.key is None:
        return f"{_encoded({'alg': 'none', **case.header})}.{_encoded(claims)}."
    algorithm = case.header.get("alg", "RS256")
    more = {name: value for name, value in case.header.items() if name != "alg"}
    if algorithm.startswith("HS"):
        signed = f"{_encoded({'alg': algorithm, 'typ': 'JWT', **more})}.{_encoded(claims)}"
        secret = public_pem(case.key).encode()
        return f"{signed}.{_encoded(hmac.digest(secret, signed.encode(), hashlib.sha256))}"
    return jwt.encode(claims, KEYS[case.key], algorithm, headers=more)


def public_pem(name: str) -> str:
    """The public key of a private one."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    key = load_pem_private_key(KEYS[name].encode(), None)
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def jwks(*names: str) -> str:
    """The JWKS with these public keys; the id of each is its name."""
    found = []
    for name in names:
        kind: Any = jwt.algorithms.ECAlgorithm if name.startswith("ec") else jwt.algorithms.RSAAlgorithm
        algorithm = kind(kind.SHA256)
        found.append({**kind.to_jwk(algorithm.prepare_key(public_pem(name)), as_dict=True), "kid": name, "use": "sig"})
    return json.dumps({"keys": found})


GOOD: Final = {"sub": "alice", "iat": [NOW, -5], "exp": [NOW, 600]}
SIGNED: Final = {**GOOD, "iss": "https://issuer", "aud": "kafka", "scope": "a b"}


def _without(claims: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in claims.items() if key != name}


def _unsecured() -> list[Case]:
    listener = "UNSECURED"
    many: dict[str, Any] = {
        "good": GOOD,
        "without iat": _without(GOOD, "iat"),
        "without exp": _without(GOOD, "exp"),
        "without sub": _without(GOOD, "sub"),
        "sub empty": {**GOOD, "sub": ""},
        "sub blank": {**GOOD, "sub": "  "},
        "sub a number": {**GOOD, "sub": 7},
        "sub a list": {**GOOD, "sub": ["alice"]},
        "exp past": {**GOOD, "exp": [NOW, -10]},
        "exp a fraction": {**GOOD, "exp": [NOW, 600.5]},
        "exp a string": {**GOOD, "exp": "soon"},
        "exp a digit string": {**GOOD, "exp": "99999999999"},
        "exp true": {**GOOD, "exp": True},
        "exp null": {**GOOD, "exp": None},
        "exp before iat": {**GOOD, "iat": [NOW, 500], "exp": [NOW, 400]},
        "exp is iat": {**GOOD, "iat": [NOW, -5], "exp": [NOW, -5]},
        "exp far": {**GOOD, "exp": 99999999999},
        "iat future": {**GOOD, "iat": [NOW, 60]},
        "iat a string": {**GOOD, "iat": "x"},
        "nbf future": {**GOOD, "nbf": [NOW, 60]},
        "scope a string": {**GOOD, "scope": "read write"},
        "scope a list": {**GOOD, "scope": ["read", "write"]},
        "scope a number": {**GOOD, "scope": 5},
        "scope a list of numbers": {**GOOD, "scope": [5]},
        "other claims": {**GOOD, "aud": "x", "iss": "y", "deep": {"a": [1, 2]}},
    }
    cases = [Case(f"unsecured, {name}", listener, claims) for name, claims in many.items()]
    headers: dict[str, Any] = {"typ": {"typ": "JWT"}, "alg None": {"alg": "None"}, "alg RS256": {"alg": "RS256"},
        "alg missing": {"alg": None}, "alg a number": {"alg": 5}}  # fmt: skip
    cases += [Case(f"unsecured, header {name}", listener, GOOD, header) for name, header in headers.items()]
    cases.append(Case("unsecured, signed", listener, GOOD, key="rsa-1"))
    tokens = {
        "two parts": "e30.e30", "one part": "e30", "four parts": "{good}e30.e30", "with a signature": "{good}c2ln",
        "no json": "bm8.bm8.", "lists": "W10.W10.", "without the last dot": "e30.e30", "not base64": "a.b.",
    }  # fmt: skip
    cases += [Case(f"unsecured, {name}", listener, token=token) for name, token in tokens.items()]
    return cases


def _messages() -> list[Case]:
    listener = "UNSECURED"
    messages = {
        "authorization id": "n,a=alice,\x01auth=Bearer {token}\x01\x01",
        "another authorization id": "n,a=bob,\x01auth=Bearer {token}\x01\x01",
        "extensions": "n,,\x01auth=Bearer {token}\x01traceId=123\x01\x01",
        "scheme bearer": "n,,\x01auth=bearer {token}\x01\x01",
        "scheme BEARER": "n,,\x01auth=BEARER {token}\x01\x01",
        "scheme Basic": "n,,\x01auth=Basic {token}\x01\x01",
        "two blanks": "n,,\x01auth=Bearer  {token}\x01\x01",
        "blank at the end": "n,,\x01auth=Bearer {token} \x01\x01",
        "no auth": "n,,\x01host=x\x01\x01",
        "auth twice": "n,,\x01auth=Bearer {token}\x01auth=Bearer {token}\x01\x01",
        "gs2 y": "y,,\x01auth=Bearer {token}\x01\x01",
        "gs2 p": "p=x,,\x01auth=Bearer {token}\x01\x01",
        "one separator at the end": "n,,\x01auth=Bearer {token}\x01",
        "text behind": "n,,\x01auth=Bearer {token}\x01\x01x",
        "empty": "",
        "separator alone": "\x01",
        "no token": "n,,\x01auth=Bearer \x01\x01",
        "upper case key": "n,,\x01AUTH=Bearer {token}\x01\x01",
    }
    cases = [Case(f"message, {name}", listener, GOOD, message=text) for name, text in messages.items()]
    past = {**GOOD, "exp": [NOW, -10]}
    cases += [
        Case("after a refusal, acknowledged", listener, past, then=("\x01",)),
        Case("after a refusal, a good token", listener, past, then=("n,,\x01auth=Bearer {good}\x01\x01",)),
        Case("after a refusal, nothing", listener, past, then=("",)),
        Case("bare tokens, good", listener, GOOD, version=0),
        Case("bare tokens, refused", listener, past, version=0, then=("\x01",)),
        Case("bare tokens, refused and not acknowledged", listener, past, version=0, then=("x",)),
        Case("bare tokens, no message", listener, GOOD, version=0, message="x"),
    ]
    return cases


def _scoped() -> list[Case]:
    scoped: dict[str, Any] = {
        "all scopes": {"user": "bob", "exp": [NOW, 600], "grants": "read write more"},
        "a list": {"user": "bob", "exp": [NOW, 600], "grants": ["write", "read"]},
        "one missing": {"user": "bob", "exp": [NOW, 600], "grants": "read"},
        "no scope": {"user": "bob", "exp": [NOW, 600]},
        "sub alone": {"sub": "bob", "exp": [NOW, 600], "grants": "read write"},
        "past within the skew": {"user": "bob", "exp": [NOW, -2], "grants": "read write"},
        "past beyond the skew": {"user": "bob", "exp": [NOW, -6], "grants": "read write"},
        "iat within the skew": {"user": "bob", "iat": [NOW, 2], "exp": [NOW, 600], "grants": "read write"},
        "iat beyond the skew": {"user": "bob", "iat": [NOW, 8], "exp": [NOW, 600], "grants": "read write"},
    }
    return [Case(f"scoped, {name}", "SCOPED", claims, then=("\x01",)) for name, claims in scoped.items()]


def _validated() -> list[Case]:
    listener = "SIGNED"
    kid = {"kid": "rsa-1"}
    cases = [
        Case("signed, RS256", listener, SIGNED, kid, "rsa-1"),
        Case("signed, RS512", listener, SIGNED, {**kid, "alg": "RS512"}, "rsa-1"),
        Case("signed, PS256", listener, SIGNED, {**kid, "alg": "PS256"}, "rsa-1"),
        Case("signed, ES256", listener, SIGNED, {"kid": "ec-1", "alg": "ES256"}, "ec-1"),
        Case("signed, without a key id", listener, SIGNED, {}, "rsa-1"),
        Case("signed, without a key id by the second key", listener, SIGNED, {}, "rsa-2"),
        Case("signed, the key id of another key", listener, SIGNED, {"kid": "rsa-2"}, "rsa-1"),
        Case("signed, an unknown key id", listener, SIGNED, {"kid": "rsa-9"}, "rsa-1"),
        Case("signed, an empty key id", listener, SIGNED, {"kid": ""}, "rsa-1"),
        Case("signed, by a stranger", listener, SIGNED, kid, "stranger"),
        Case("signed, alg none", listener, SIGNED),
        Case("signed, alg none with a key id", listener, SIGNED, kid),
        Case("signed, the public key as a secret", listener, SIGNED, {**kid, "alg": "HS256"}, "rsa-1"),
        Case("signed, a token of one part", listener, token="e30"),
        Case("signed, refused and acknowledged", listener, SIGNED, kid, "stranger", then=("\x01",)),
        Case("signed, refused, another", listener, SIGNED, kid, "stranger", then=("n,,\x01auth=Bearer x\x01\x01",)),
    ]
    many: dict[str, Any] = {
        "without sub": _without(SIGNED, "sub"), "sub empty": {**SIGNED, "sub": ""},
        "sub blank": {**SIGNED, "sub": " "}, "sub with blanks": {**SIGNED, "sub": " alice "},
        "without exp": _without(SIGNED, "exp"), "without iat": _without(SIGNED, "iat"),
        "without scope": _without(SIGNED, "scope"), "scope a list": {**SIGNED, "scope": ["a", "b"]},
        "scope empty": {**SIGNED, "scope": ""}, "scope a number": {**SIGNED, "scope": 5},
        "scope twice": {**SIGNED, "scope": ["a", "a"]},
        "exp past": {**SIGNED, "exp": [NOW, -60]}, "exp within the skew": {**SIGNED, "exp": [NOW, -10]},
        "exp a fraction": {**SIGNED, "exp": [NOW, 600.5]}, "exp far": {**SIGNED, "exp": 99999999999},
        "iat future": {**SIGNED, "iat": [NOW, 60]}, "iat within the skew": {**SIGNED, "iat": [NOW, 10]},
        "nbf future": {**SIGNED, "nbf": [NOW, 60]}, "nbf within the skew": {**SIGNED, "nbf": [NOW, 10]},
        "without audience": _without(SIGNED, "aud"), "without issuer": _without(SIGNED, "iss"),
        "exp before iat": {**SIGNED, "iat": [NOW, 20], "exp": [NOW, 10]},
    }  # fmt: skip
    cases += [Case(f"signed, {name}", listener, claims, kid, "rsa-1") for name, claims in many.items()]
    claimed: dict[str, Any] = {
        "good": {**SIGNED, "user": "carol"}, "of a list": {**SIGNED, "user": "carol", "aud": ["x", "kafka"]},
        "the second audience": {**SIGNED, "user": "carol", "aud": "other"},
        "another audience": {**SIGNED, "user": "carol", "aud": "nope"},
        "without audience": _without({**SIGNED, "user": "carol"}, "aud"),
        "another issuer": {**SIGNED, "user": "carol", "iss": "https://nope"},
        "without issuer": _without({**SIGNED, "user": "carol"}, "iss"),
        "the user in sub alone": SIGNED, "without sub": _without({**SIGNED, "user": "carol"}, "sub"),
        "past within the skew": {**SIGNED, "user": "carol", "exp": [NOW, -2]},
        "past beyond the skew": {**SIGNED, "user": "carol", "exp": [NOW, -9]},
    }  # fmt: skip
    cases += [Case(f"claims, {name}", "CLAIMS", claims, kid, "rsa-1") for name, claims in claimed.items()]
    cases += [
        Case("keys at an address, good", "ADDRESS", SIGNED, kid, "rsa-1"),
        Case("keys at an address, a stranger", "ADDRESS", SIGNED, kid, "stranger"),
        Case("keys at an address, an unknown key id", "ADDRESS", SIGNED, {"kid": "rsa-9"}, "rsa-1"),
        Case("sessions of the listener, good", "REAUTH", SIGNED, kid, "rsa-1"),
        Case("sessions of the listener, a short token", "REAUTH", {**SIGNED, "exp": [NOW, 2]}, kid, "rsa-1"),
    ]
    return cases


CASES: Final = [*_unsecured(), *_messages(), *_scoped(), *_validated()]


async def outcome_of(case: Case, host: str, port: int, now: int) -> dict[str, Any]:
    """What a cluster does with a login."""
    stream = await trio.open_tcp_stream(host, port)
    frames = FrameBuffer(1 << 20)
    outcome: dict[str, Any] = {"answers": []}
    token = token_of(case, now)

    async def frame() -> bytes | None:
        while (found := frames.next_frame()) is None:
            try:
                chunk = await stream.receive_some()
            except trio.BrokenResourceError:
                return None
            if not chunk:
                return None
            frames.feed(bytes(chunk))
        return found

    async with stream:
        shake = sasl_handshake.API
        hand = shake.request(mechanism="OAUTHBEARER")
        await stream.send_all(encode_frame(encode_request(shake, case.version, 1, "oauth", hand)))
        answer = await frame()
        assert answer is not None
        assert decode_response(shake, case.version, answer)[1].error_code == 0
        good = token_of(Case("", "", GOOD), now)
        told: dict[str, Any] | None = None
        began = trio.current_time()
        for text in (case.message.replace("{token}", token), *(one.replace("{good}", good) for one in case.then)):
            began = trio.current_time()
            try:
                told = await _answer(stream, frame, case.version, text.encode())
            except trio.BrokenResourceError:
                told = None
            if told is None:
                break
            outcome["answers"].append(told)
        if trio.current_time() - began > LATE_SECONDS:
            outcome["late"] = True
        outcome["then"] = "closed" if told is None else "open"
        if told is not None:
            with trio.move_on_after(WATCHED_SECONDS):
                await frame()
                outcome["then"] = "closed"
    return outcome


async def _answer(stream: trio.abc.Stream, frame: Any, version: int, data: bytes) -> dict[str, Any] | None:
    if version == 0:
        await stream.send_all(encode_frame(data))
        bare = await frame()
        return None if bare is None else {"bare": bare.decode()}
    api = sasl_authenticate.API
    await stream.send_all(encode_frame(encode_request(api, 2, 2, "oauth", api.request(auth_bytes=data))))
    received = await frame()
    if received is None:
        return None
    response = decode_response(api, 2, received)[1]
    found = {"error_code": int(response.error_code), "auth_bytes": bytes(response.auth_bytes).decode()}
    if response.error_message:
        found["error_message"] = response.error_message
    if response.session_lifetime_ms:
        found["seconds"] = response.session_lifetime_ms / 1000
    return found


def close_enough(recorded: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    """Whether two outcomes are the same, but for two seconds of sessions."""

    def parts(outcome: Mapping[str, Any]) -> tuple[Any, list[float]]:
        answers = [dict(one) for one in outcome["answers"]]
        seconds = [one.pop("seconds", 0.0) for one in answers]
        return {**outcome, "answers": answers}, seconds

    (one, seconds), (other, others) = parts(recorded), parts(ours)
    if recorded["then"] == "open":  # an answer that is not delayed may be late on a busy machine
        one.pop("late", None)
        other.pop("late", None)
    return bool(one == other and all(abs(a - b) <= 2 for a, b in zip(seconds, others, strict=True)))


async def main(addresses: Mapping[str, str]) -> None:
    """Play all cases whose listener has an address."""
    for case in CASES:
        if case.listener in addresses:
            host, _, port = addresses[case.listener].rpartition(":")
            outcome = await outcome_of(case, host, int(port), int(time.time()))
            print(json.dumps({"case": case.name, **outcome}), flush=True)


if __name__ == "__main__":
    trio.run(main, dict(one.split("=", 1) for one in sys.argv[1:]))
