"""The keys of OAUTHBEARER from files and addresses: read again, fetched again, bounded, and no delay for clients."""

import json
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
import pytest
import trio
from cryptography.hazmat.primitives.asymmetric import rsa

import klamm
from klamm.server import jwks
from klamm.server.event_log import EventLog
from klamm.server.jwks import MAX_BYTES, AddressKeys, FileKeys, JwksAddress
from klamm.server.keys_unavailable import KeysUnavailable
from klamm.server.sasl.signed_tokens import JwksError

CERTS = Path(__file__).parents[1] / "golden" / "security" / "certs"
ONE, TWO = (rsa.generate_private_key(public_exponent=65_537, key_size=2048) for _ in range(2))
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
PREFIX = "listener.name.sasl_plaintext.oauthbearer.sasl."


def jwk(key: rsa.RSAPrivateKey, key_id: str) -> dict[str, Any]:
    return {**jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": key_id}


def keys_of(**keys: rsa.RSAPrivateKey) -> bytes:
    return json.dumps({"keys": [jwk(key, key_id) for key_id, key in keys.items()]}).encode()


def token(key: rsa.RSAPrivateKey, key_id: str | None, name: str = "alice") -> str:
    claims = {"sub": name, "iat": int(time.time()), "exp": int(time.time()) + 600}
    return jwt.encode(claims, key, "RS256", headers=None if key_id is None else {"kid": key_id})


class Issuer:
    """An address with keys."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.body = keys_of(one=ONE)
        self.status = 200
        self.fetched: list[str] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] = self.send

    def send(self, to: BaseHTTPRequestHandler) -> None:
        to.send_response(self.status)
        to.send_header("Content-Length", str(len(self.body)))
        to.end_headers()
        to.wfile.write(self.body)


@contextmanager
def issuing(*, tls: bool = False) -> Iterator[Issuer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.fetched.append(self.path)
            issuer.answer(self)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTS / "server.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    issuer = Issuer(server.server_address[1])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()


def configs(url: str, options: str = "", **more: str) -> dict[str, str]:
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{PREFIX}jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required {options};",
        f"{PREFIX}server.callback.handler.class": f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": url,
        **more,
    }


async def logs_in(servers: str, bearer: str, file: Path) -> bool:
    await trio.Path(file).write_text(bearer)
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required;",
        "sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
    }
    try:
        async with klamm.AdminClient(servers, properties=properties):
            return True
    except klamm.AuthenticationFailed:
        return False


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(20):
        while True:
            if condition():
                return
            await trio.sleep(0.01)


async def test_keys_at_an_address_and_their_rotation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "MIN_EXPEDITED_SECONDS", 0.05)
    file = tmp_path / "token"
    with issuing() as issuer:
        url = f"http://127.0.0.1:{issuer.port}/keys?of=klamm"
        async with klamm.Cluster(brokers=3, configs=configs(url)) as cluster:
            servers = cluster.bootstrap_servers
            assert issuer.fetched == ["/keys?of=klamm"], "the listeners of three brokers have one source"
            assert await logs_in(servers, token(ONE, "one"), file)
            assert await logs_in(servers, token(ONE, None), file)
            assert not await logs_in(servers, token(TWO, "one"), file)
            await trio.sleep(0.2)
            assert len(issuer.fetched) == 1, "a wrong signature is no reason to fetch keys"

            issuer.body = keys_of(two=TWO)
            assert not await logs_in(servers, token(TWO, "two"), file), "logins do not wait for keys"
            with trio.fail_after(20):
                while True:
                    if await logs_in(servers, token(TWO, "two"), file):
                        break
                    await trio.sleep(0.05)
            assert not await logs_in(servers, token(ONE, "one"), file), "a key that was taken away"

            issuer.status = 500
            before = len(issuer.fetched)
            assert not await logs_in(servers, token(ONE, "three"), file)
            await until(lambda: len(issuer.fetched) > before)
            assert await logs_in(servers, token(TWO, "two"), file), "the former keys count meanwhile"


async def test_unknown_keys_cause_few_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "MIN_EXPEDITED_SECONDS", 0.5)
    with issuing() as issuer:
        source = AddressKeys(address_of(issuer))
        await source.fetch_first()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(source.keep_fresh, EventLog("json", StringIO()))
            for number in range(1_000):
                source.keys_for(f"key {number}")
                if number % 50 == 0:
                    await trio.sleep(0.03)
            assert len(issuer.fetched) <= 1 + 2
            nursery.cancel_scope.cancel()


def address_of(issuer: Issuer, **more: Any) -> JwksAddress:
    members: dict[str, Any] = {"tls": None, "setting": "listener X: url", "refresh_ms": 3_600_000}
    members |= {"backoff_ms": 100, "backoff_max_ms": 10_000}
    url = urlsplit(f"http://127.0.0.1:{issuer.port}/")
    return JwksAddress(url=url, **{**members, **more})


async def test_keys_are_fetched_again_after_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "MIN_EXPEDITED_SECONDS", 0.01)
    log = StringIO()
    with issuing() as issuer:
        source = AddressKeys(address_of(issuer, refresh_ms=100, backoff_ms=10, backoff_max_ms=40))
        await source.fetch_first()
        issuer.body = keys_of(two=TWO)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(source.keep_fresh, EventLog("json", log))
            await until(lambda: [key.key_id for key in source.keys_for(None)] == ["two"])
            issuer.body = b"no keys"
            before = len(issuer.fetched)
            await until(lambda: len(issuer.fetched) > before + 12)  # the pauses do not grow beyond the longest
            assert [key.key_id for key in source.keys_for(None)] == ["two"]
            issuer.body = keys_of(one=ONE)
            await until(lambda: [key.key_id for key in source.keys_for(None)] == ["one"])
            nursery.cancel_scope.cancel()
    assert "listener X: url: http://127.0.0.1" in log.getvalue()


def trickle(to: BaseHTTPRequestHandler) -> None:
    to.send_response(200)
    to.send_header("Content-Length", "1000000")
    to.end_headers()
    for _ in range(200):
        to.wfile.write(b" ")
        to.wfile.flush()
        time.sleep(0.05)


def hang(_: BaseHTTPRequestHandler) -> None:
    time.sleep(2)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (keys_of(one=ONE), 404, "the answer has status 404"),
        (keys_of(one=ONE), 302, "the answer has status 302"),
        (b"", 200, "there is no JWKS with public keys"),
        (b"[" * 100_000, 200, "there is no JWKS with public keys"),
        (b'{"keys": []}', 200, "the JWKS has no public key for signatures"),
        (b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}', 200, "the JWKS has no public key for signatures"),
        (b" " * MAX_BYTES, 200, "there is no JWKS with public keys"),
        (b" " * (MAX_BYTES + 1), 200, f"the answer is larger than {MAX_BYTES} bytes"),
    ],
)
async def test_what_cannot_be_used_is_one_line(body: bytes, status: int, said: str) -> None:
    with issuing() as issuer:
        issuer.body, issuer.status = body, status
        with pytest.raises(KeysUnavailable) as refused:
            await AddressKeys(address_of(issuer)).fetch_first()
        assert str(refused.value) == f"listener X: url: http://127.0.0.1:{issuer.port}/: {said}"


async def test_a_stop_does_not_wait_for_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "MIN_EXPEDITED_SECONDS", 0.01)
    with issuing() as issuer:
        source = AddressKeys(address_of(issuer))
        await source.fetch_first()
        issuer.answer = hang
        async with trio.open_nursery() as nursery:
            nursery.start_soon(source.keep_fresh, EventLog("json", StringIO()))
            source.keys_for("unknown")
            await until(lambda: len(issuer.fetched) == 2)
            began = trio.current_time()
            nursery.cancel_scope.cancel()
        assert trio.current_time() - began < 1


@pytest.mark.parametrize("answer", [trickle, hang])
async def test_a_slow_address_delays_nothing_and_ends(
    answer: Callable[[BaseHTTPRequestHandler], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "FETCH_SECONDS", 0.3)
    with issuing() as issuer:
        issuer.answer = answer
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await trio.sleep(0.01)
                turns += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            began = trio.current_time()
            with pytest.raises(KeysUnavailable, match=r"no answer within 0\.3 s"):
                await AddressKeys(address_of(issuer)).fetch_first()
            assert trio.current_time() - began < 1.5
            nursery.cancel_scope.cancel()
        assert turns > 5


async def test_a_start_without_keys_is_refused_before_a_port_is_open() -> None:
    with issuing() as issuer:
        issuer.status = 503
        url = f"http://127.0.0.1:{issuer.port}/"
        with pytest.raises(klamm.ClusterError) as refused:
            async with klamm.Cluster(brokers=1, configs=configs(url)):
                pass
    name = "sasl.oauthbearer.jwks.endpoint.url"
    assert str(refused.value) == f"listener SASL_PLAINTEXT: {name}: {url}: the answer has status 503"
    with pytest.raises(klamm.ClusterError, match="Connection refused"):
        async with klamm.Cluster(brokers=1, configs=configs(url)):
            pass


async def test_an_address_with_https_has_to_be_trusted(tmp_path: Path) -> None:
    trusted = f'ssl.truststore.type=PEM ssl.truststore.location="{CERTS / "ca.crt"}"'
    with issuing(tls=True) as issuer:
        url = f"https://localhost:{issuer.port}/"
        async with klamm.Cluster(brokers=1, configs=configs(url, trusted)) as cluster:
            assert await logs_in(cluster.bootstrap_servers, token(ONE, "one"), tmp_path / "token")
        for options in ("", trusted.replace("ca.crt", "other-ca.crt")):
            with pytest.raises(klamm.ClusterError, match=r"TLS failed: .*certificate"):
                async with klamm.Cluster(brokers=1, configs=configs(url, options)):
                    pass
        plain = url.replace("https", "http")
        with pytest.raises(klamm.ClusterError, match=r"endpoint\.url: http://localhost"):
            async with klamm.Cluster(brokers=1, configs=configs(plain)):
                pass


async def test_an_exception_in_the_block_of_a_cluster_has_no_group() -> None:
    with issuing() as issuer, pytest.raises(LookupError):
        async with klamm.Cluster(brokers=1, configs=configs(f"http://127.0.0.1:{issuer.port}/")):
            raise LookupError


def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(keys_of(one=ONE))
    source = FileKeys(file)
    assert [key.key_id for key in source.keys_for("two")] == ["one"]
    file.write_bytes(keys_of(one=ONE, two=TWO))
    assert [key.key_id for key in source.keys_for("two")] == ["one", "two"]
    status = file.stat()
    file.write_bytes(keys_of(two=ONE, one=TWO))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert [key.key_id for key in source.keys_for("two")] == ["two", "one"]
    file.write_bytes(b"no keys")
    assert len(source.keys_for("two")) == 2, "the former keys"
    file.unlink()
    assert len(source.keys_for("two")) == 2


def test_a_file_has_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    keys = keys_of(one=ONE)
    file.write_bytes(keys + b" " * (MAX_BYTES - len(keys)))
    assert len(FileKeys(file).keys_for(None)) == 1
    file.write_bytes(keys + b" " * (MAX_BYTES + 1 - len(keys)))
    with pytest.raises(JwksError, match=f"{file}: is larger than {MAX_BYTES} bytes"):
        FileKeys(file)
