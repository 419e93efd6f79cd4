"""`klamm serve` with keys, stores, passwords and listeners that cannot be right: one line that names the setting and
the file, exit code 2, and no port is open, not even that of a listener that is configured well.

Each row changes a server.properties that would start. Nothing is started: the command runs in this process.
"""

import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from klamm.__main__ import main
from klamm.cluster.options import checked_options
from klamm.cluster.plan import FREE_PORTS, plan_cluster

CERTS: Final = Path(__file__).parents[1] / "golden" / "security" / "certs"
DAY: Final = timedelta(days=1)
NOW: Final = datetime.now(UTC).replace(microsecond=0)
PASSWORD: Final = "store-secret"
binds: list[Any] = []
"""The addresses that were bound since the last test began."""


def _note_binds(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.bind":
        binds.append(arguments[1])


sys.addaudithook(_note_binds)


@pytest.fixture
def refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[[dict[str, str]], str]]:
    """Runs `klamm serve` with a server.properties that has to be refused, and returns the one line."""
    stdout, python_stdout = os.dup(1), sys.stdout

    def run(configs: dict[str, str]) -> str:
        file = tmp_path / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in configs.items()))
        binds.clear()
        code = main(["serve", "--brokers", "1", "--stop-with-stdin", "--config", str(file)])
        os.dup2(stdout, 1)  # the command keeps stdout for its ready lines
        sys.stdout = python_stdout
        captured = capfd.readouterr()
        assert (code, captured.out, binds) == (2, "", [])
        assert captured.err.count("\n") == 1, captured.err
        assert "secret" not in captured.err
        assert "BEGIN" not in captured.err
        return captured.err

    yield run
    os.close(stdout)


@cache
def key(number: int = 0) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@cache
def certificate(name: str, first: datetime, last: datetime, number: int = 0) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key(number).public_key())
        .serial_number(7)
        .not_valid_before(first)
        .not_valid_after(last)
        .sign(key(number), hashes.SHA256())
    )


def pem(*certificates: x509.Certificate) -> str:
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in certificates)


def key_pem(number: int = 0, password: bytes | None = None) -> str:
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password)
    return key(number).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()


def p12(one: x509.Certificate | None, *others: x509.Certificate, number: int = 0) -> bytes:
    own = None if one is None else key(number)
    return pkcs12.serialize_key_and_certificates(b"k", own, one, others, BestAvailableEncryption(PASSWORD.encode()))


GOOD = certificate("good", NOW - DAY, NOW + DAY)
PAST = certificate("past", NOW - 9 * DAY, NOW - DAY)
FUTURE = certificate("future", NOW + DAY, NOW + 9 * DAY)
FAR = certificate("far", datetime(2050, 1, 1, tzinfo=UTC), datetime(2120, 1, 1, tzinfo=UTC))
LONG_AGO = certificate("long ago", datetime(1950, 1, 2, tzinfo=UTC), datetime(1968, 1, 1, tzinfo=UTC))
SHOWN_PAST, SHOWN_FUTURE = (f"{at:%Y-%m-%d %H:%M:%S} UTC" for at in (NOW - DAY, NOW + DAY))
FILES: Final[dict[str, str | bytes]] = {
    "good.pem": key_pem() + pem(GOOD),
    "past.pem": key_pem() + pem(PAST),
    "future.pem": key_pem() + pem(FUTURE),
    "far.pem": key_pem() + pem(FAR),
    "long-ago.pem": key_pem() + pem(LONG_AGO),
    "issuer-past.pem": key_pem() + pem(GOOD, PAST),
    "mismatched.pem": key_pem(1) + pem(GOOD),
    "encrypted.pem": key_pem(0, b"key-secret") + pem(GOOD),
    "half-key.pem": key_pem()[:150] + pem(GOOD),
    "damaged-key.pem": key_pem().replace("MIGHAgEA", "MIGIAgEA") + pem(GOOD),
    "damaged-certificate.pem": key_pem() + pem(GOOD).replace("MIIB", "MIJB"),
    "half-certificate.pem": key_pem() + pem(GOOD)[:200],
    "only-key.pem": key_pem(),
    "only-certificate.pem": pem(GOOD),
    "two-keys.pem": key_pem() + key_pem(1) + pem(GOOD),
    "past-trust.pem": pem(PAST, FUTURE),
    "mixed-trust.pem": pem(PAST, GOOD),
    "empty": b"",
    "zeros": bytes(1_000),
    "text": "to be or not to be",
    "past.p12": p12(PAST),
    "future.p12": p12(FUTURE),
    "issuer-past.p12": p12(GOOD, PAST),
    "good.p12": p12(GOOD),
    "half.p12": p12(GOOD)[:400],
    "only-trusted.p12": p12(None, GOOD),
    "half.jks": (CERTS / "server.jks").read_bytes()[:700],
    "bent.jks": (CERTS / "server.jks").read_bytes()[:-1] + b"\0",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores")
    for name, content in FILES.items():
        (path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return path


BASE: Final = {"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"}


def stored(kind: str, name: str, **more: str) -> dict[str, str]:
    own = {"ssl.keystore.type": kind, "ssl.keystore.location": f"{{folder}}/{name}"}
    if kind != "PEM":
        own["ssl.keystore.password"] = PASSWORD
    return {**BASE, **own, **{one.replace("_", "."): value for one, value in more.items()}}


def trusting(kind: str, name: str, **more: str) -> dict[str, str]:
    return {
        **stored("PEM", "good.pem"),
        "ssl.truststore.type": kind,
        "ssl.truststore.location": f"{{folder}}/{name}",
        "ssl.client.auth": "required",
        **{one.replace("_", "."): value for one, value in more.items()},
    }


JKS: Final = {"ssl_keystore_location": str(CERTS / "server.jks"), "ssl_key_password": "key-secret"}
NO_STORES: Final = ("empty", "zeros", "text")
KEY, TRUST = "ssl.keystore.location", "ssl.truststore.location"
STORES: Final = [
    (stored("PEM", "past.pem"), f"{KEY}: {{folder}}/past.pem: the certificate of CN=past expired on {SHOWN_PAST}"),
    (stored("PEM", "future.pem"), f"future.pem: the certificate of CN=future is not valid before {SHOWN_FUTURE}"),
    (stored("PEM", "far.pem"), "far.pem: the certificate of CN=far is not valid before 2050-01-01 00:00:00 UTC"),
    (stored("PEM", "long-ago.pem"), "the certificate of CN=long ago expired on 1968-01-01 00:00:00 UTC"),
    (stored("PEM", "issuer-past.pem"), f"{KEY}: {{folder}}/issuer-past.pem: the certificate of CN=past expired on"),
    (stored("PEM", "mismatched.pem"), f"{KEY}: {{folder}}/mismatched.pem: the private key does not belong to the cert"),
    (stored("PEM", "encrypted.pem"), "encrypted.pem: the password of the private key is missing or wrong"),
    (stored("PEM", "encrypted.pem", ssl_key_password="wrong-secret"), "encrypted.pem: the password of the private key"),
    (stored("PEM", "half-key.pem"), f"{KEY}: {{folder}}/half-key.pem: "),
    (stored("PEM", "damaged-key.pem"), f"{KEY}: {{folder}}/damaged-key.pem: the key or its certificate cannot be read"),
    (stored("PEM", "damaged-certificate.pem"), "damaged-certificate.pem: the key or its certificate cannot be read"),
    (stored("PEM", "half-certificate.pem"), f"{KEY}: {{folder}}/half-certificate.pem: there is no certificate of a"),
    (stored("PEM", "only-key.pem"), f"{KEY}: {{folder}}/only-key.pem: there is no certificate of a private key"),
    (stored("PEM", "only-certificate.pem"), "only-certificate.pem: there is no private key"),
    (stored("PEM", "two-keys.pem"), "two-keys.pem: more than one private key"),
    (stored("PEM", "absent"), f"{KEY}: {{folder}}/absent: No such file or directory"),
    (stored("PEM", ""), f"{KEY}: {{folder}}/: Is a directory"),
    (stored("PEM", "good.pem/x"), f"{KEY}: {{folder}}/good.pem/x: Not a directory"),
    *((stored("PEM", name), f"{KEY}: {{folder}}/{name}: there is no private key") for name in NO_STORES),
    *(
        (stored(kind, name), f"{KEY}: {{folder}}/{name}: the password is wrong, or the file is no PKCS12 or JKS store")
        for kind in ("PKCS12", "JKS")
        for name in (*NO_STORES, "half.p12", "good.pem")
    ),
    (stored("PKCS12", "past.p12"), f"{KEY}: {{folder}}/past.p12: the certificate of CN=past expired on {SHOWN_PAST}"),
    (stored("PKCS12", "future.p12"), "future.p12: the certificate of CN=future is not valid before"),
    (stored("JKS", "issuer-past.p12"), "issuer-past.p12: the certificate of CN=past expired on"),
    (stored("PKCS12", "only-trusted.p12"), "only-trusted.p12: there is no private key"),
    (stored("PKCS12", "good.p12", ssl_keystore_password="wrong-secret"), "good.p12: the password is wrong, or the"),
    (stored("PKCS12", "good.p12") | {"ssl.keystore.password": ""}, "good.p12: the password is wrong, or the"),
    (stored("JKS", "half.jks"), "half.jks: the password is wrong, or the file is damaged"),
    (stored("JKS", "bent.jks"), "bent.jks: the password is wrong, or the file is damaged"),
    (stored("JKS", "", **JKS, ssl_keystore_password="wrong-secret"), "server.jks: the password is wrong, or the file"),
    (stored("JKS", "", **{**JKS, "ssl_key_password": "wrong-secret"}), "server.jks: the password of the key is wrong"),
    (trusting("PEM", "past-trust.pem"), f"{TRUST}: {{folder}}/past-trust.pem: no trusted certificate is valid: the"),
    (trusting("PEM", "only-key.pem"), f"{TRUST}: {{folder}}/only-key.pem: there is no trusted certificate"),
    (trusting("PEM", "absent"), f"{TRUST}: {{folder}}/absent: No such file"),
    (trusting("PEM", "empty"), f"{TRUST}: {{folder}}/empty: there is no trusted certificate"),
    (trusting("PEM", "damaged-certificate.pem"), "a trusted certificate cannot be read"),
    (trusting("JKS", "text", ssl_truststore_password=PASSWORD), f"{TRUST}: {{folder}}/text: the password is wrong, or"),
    (trusting("PKCS12", "only-trusted.p12", ssl_truststore_password="wrong-secret"), f"{TRUST}: {{folder}}/only-tr"),
    (trusting("PKCS12", "half.p12", ssl_truststore_password=PASSWORD), f"{TRUST}: {{folder}}/half.p12: the password"),
]  # fmt: skip


@pytest.mark.parametrize(("configs", "said"), STORES, ids=range(len(STORES)))
def test_stores_that_cannot_be_used(
    configs: dict[str, str], said: str, refused: Callable[[dict[str, str]], str], folder: Path
) -> None:
    given = {name: value.replace("{folder}", str(folder)) for name, value in configs.items()}
    line = refused(given)
    assert line.startswith("klamm serve: listener SSL: "), line
    assert said.replace("{folder}", str(folder)) in line


def test_the_stores_and_listeners_of_the_tables_would_start(folder: Path) -> None:
    for configs in (
        stored("PEM", "good.pem"),
        stored("PKCS12", "good.p12"),
        trusting("PEM", "mixed-trust.pem"),
        trusting("PEM", "past-trust.pem") | {"ssl.client.auth": "none"},
        BOTH,
        {**NAMED, MAP: "PLAINTEXT:PLAINTEXT,OUT:SSL,OUT:SSL"},
    ):
        given = {name: value.replace("{folder}", str(folder)) for name, value in configs.items()}
        plan = plan_cluster(checked_options({"configs": given}), {}, FREE_PORTS)
        assert any(one.security is not None for one in plan.listeners.every)


MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
TLS: Final = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "{folder}/good.pem"}
SASL: Final = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{MODULE} user_a="a-secret";',
}
BOTH: Final = {"listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0", **TLS, **SASL}
MAP: Final = "listener.security.protocol.map"
NAMED: Final = {"listeners": "PLAINTEXT://127.0.0.1:0,OUT://127.0.0.1:0", **TLS}
JAAS: Final = "listener.name.sasl_ssl.plain.sasl.jaas.config"


def without(configs: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in configs.items() if name not in names}


LISTENERS: Final = [
    (NAMED, f"listeners: {MAP} has no security protocol for listener OUT"),
    ({**NAMED, MAP: "PLAINTEXT:PLAINTEXT,OUT:TLS"}, f"{MAP}: 'OUT:TLS': the security protocols are"),
    ({**NAMED, MAP: "PLAINTEXT:PLAINTEXT,OUT:SSL,OUT:PLAINTEXT"}, f"{MAP}: 'OUT:PLAINTEXT': OUT has another"),
    ({**NAMED, MAP: "PLAINTEXT:PLAINTEXT,OUT:SSL,out:SASL_SSL"}, f"{MAP}: 'out:SASL_SSL': OUT has another"),
    ({**NAMED, MAP: "OUT:SSL"}, f"listeners: {MAP} has no security protocol for listener PLAINTEXT"),
    ({**NAMED, MAP: "PLAINTEXT:PLAINTEXT,OUT:SASL_SSL"}, "listener OUT: sasl.enabled.mechanisms: GSSAPI"),
    (
        {**NAMED, MAP: "PLAINTEXT:PLAINTEXT,OUT:SSL", "listener.name.out.ssl.keystore.location": "/nowhere/k.pem"},
        "listener OUT: listener.name.out.ssl.keystore.location: /nowhere/k.pem: No such file",
    ),
    (
        {**NAMED, MAP: "PLAINTEXT:PLAINTEXT,OUT:SSL", "listener.name.out.ssl.client.auth": "required"},
        "listener OUT: ssl.truststore.location: is not set, and listener.name.out.ssl.client.auth is required",
    ),
    ({**NAMED, MAP: "PLAINTEXT:PLAINTEXT,OUT:SSL", "ssl.client.auth": "maybe"}, "ssl.client.auth"),
    ({**BOTH, "inter.broker.listener.name": "SSL"}, "inter.broker.listener.name: SSL is not advertised"),
    (
        {**BOTH, "inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "SASL_SSL"},
        "inter.broker.listener.name",
    ),
    ({**BOTH, "listeners": "PLAINTEXT://127.0.0.1:7,SASL_SSL://127.0.0.1:7"}, "PLAINTEXT, SASL_SSL have the same port"),
    ({**BOTH, "listeners": "SASL_SSL://127.0.0.1:7,SASL_SSL://127.0.0.1:8"}, "listener name SASL_SSL is used twice"),
    ({**BOTH, "listeners": "SASL_SSL://127.0.0.1:7,sasl_ssl://127.0.0.1:8"}, "listener name SASL_SSL is used twice"),
    ({**BOTH, "advertised.listeners": "PLAINTEXT://h:1,SSL://h:2"}, "advertised.listeners has listeners that"),
    ({**BOTH, "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:70000"}, "listeners: "),
    (without(BOTH, "sasl.enabled.mechanisms"), "sasl.enabled.mechanisms: GSSAPI (the default) is not supported"),
    ({**BOTH, "sasl.enabled.mechanisms": "PLAIN,DIGEST-MD5"}, "sasl.enabled.mechanisms: DIGEST-MD5 is not supported"),
    ({**BOTH, "sasl.enabled.mechanisms": "plain"}, "sasl.enabled.mechanisms: plain is not supported"),
    ({**BOTH, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}, "scram-sha-256.sasl.jaas.config is not set; SCRAM"),
    (without(BOTH, JAAS), f"listener SASL_SSL: {JAAS} is not set; PLAIN needs it"),
    ({**BOTH, JAAS: f'{MODULE} user_a="a-secret"'}, f"{JAAS}: ';' is missing at the end"),
    ({**BOTH, JAAS: f'{MODULE} user_a="a-secret;'}, f"listener SASL_SSL: {JAAS}: "),
    ({**BOTH, JAAS: f"{MODULE} user_a=;"}, f"listener SASL_SSL: {JAAS}: "),
    ({**BOTH, JAAS: 'org.example.Login required user_a="a-secret";'}, f"{JAAS}: the login module of PLAIN must be"),
    ({**BOTH, JAAS: f'{MODULE} user_a="a-secret"; {MODULE};'}, f"{JAAS}: one login module is expected, not 2"),
    ({**BOTH, JAAS: f'{MODULE.replace("required", "perhaps")} user_a="a-secret";'}, f"listener SASL_SSL: {JAAS}: "),
    (without(BOTH, "ssl.keystore.location"), "listener SASL_SSL: ssl.keystore.location: is not set"),
    ({**BOTH, "ssl.enabled.protocols": "SSLv3"}, "ssl.enabled.protocols: SSLv3 is not supported"),
    ({**BOTH, "listener.name.sasl_ssl.ssl.enabled.protocols": ""}, "sasl_ssl.ssl.enabled.protocols: an empty list"),
    ({**BOTH, "connections.max.reauth.ms": "soon"}, "connections.max.reauth.ms"),
    ({**BOTH, "sasl.server.max.receive.size": "0x10"}, "sasl.server.max.receive.size"),
]  # fmt: skip


@pytest.mark.parametrize(("configs", "said"), LISTENERS, ids=range(len(LISTENERS)))
def test_listeners_that_contradict_themselves(
    configs: dict[str, str], said: str, refused: Callable[[dict[str, str]], str], folder: Path
) -> None:
    line = refused({name: value.replace("{folder}", str(folder)) for name, value in configs.items()})
    assert said in line
