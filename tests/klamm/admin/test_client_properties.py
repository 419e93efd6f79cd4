"""The properties of a client: which have an effect, what they mean, and what is refused in one line without secrets."""

import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio
import trio.testing

import klamm
from klamm.admin.client_configs import InvalidClientProperties
from klamm.admin.client_properties import ClientProperties, decode_client_properties

CERTS = Path(__file__).parents[2] / "golden" / "security" / "certs"
PACKAGE = "org.apache.kafka.common.security."
PLAIN = f'{PACKAGE}plain.PlainLoginModule required username="alice" password="pw-secret";'
SCRAM = f'{PACKAGE}scram.ScramLoginModule required username="alice" password="pw-secret";'
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}
SSL = {"security.protocol": "SSL"}
TRUSTED = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(CERTS / "ca.crt")}


def tls_of(properties: Mapping[str, str]) -> ssl.SSLContext:
    found = decode_client_properties(properties).security.tls
    assert found is not None
    return found


def first_token(properties: Mapping[str, str]) -> bytes:
    login = decode_client_properties(properties).security.login
    assert login is not None
    return next(login.begin())


def test_without_properties_connections_are_plain() -> None:
    assert decode_client_properties() == decode_client_properties({}) == ClientProperties()


def test_a_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# of alice\nsecurity.protocol = SASL_PLAINTEXT \nsasl.mechanism:PLAIN\nclient.id tool\n"
        f"sasl.jaas.config={PLAIN[:40]}\\\n  {PLAIN[40:]}\ndefault.api.timeout.ms=1500\nretries=5\nacks=all\n"
        "bootstrap.servers=ignored:1\nssl.truststore.type=PEM\n"
    )
    found = decode_client_properties(file)
    assert (found.client_id, found.request_timeout_seconds) == ("tool", 1.5)
    assert found.security.tls is None
    assert found.security.login is not None
    assert next(found.security.login.begin()) == b"\0alice\0pw-secret"
    assert found.ineffective == ("acks", "retries", "ssl.truststore.type")
    assert found.warning == ("these client settings have no effect in Klamm: acks, retries, ssl.truststore.type")
    assert decode_client_properties(str(file)).ineffective == found.ineffective


def test_settings_without_effect_are_a_warning_of_the_caller_once() -> None:
    with pytest.warns(UserWarning, match="no effect in Klamm: retries") as warned:
        klamm.AdminClient("127.0.0.1:1", properties={"retries": "5"})
    assert [one.filename for one in warned] == [__file__]
    klamm.AdminClient("127.0.0.1:1", properties=decode_client_properties({"retries": "5"}))


def test_tls_trusts_the_given_certificates_and_compares_names() -> None:
    context = tls_of({**SSL, **TRUSTED})
    assert [one["subject"][0][0][1] for one in context.get_ca_certs()] != []
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    old = tls_of({**SSL, **TRUSTED, "ssl.enabled.protocols": "TLSv1.2"})
    assert (old.minimum_version, old.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)


@pytest.mark.parametrize(("value", "compares"), [("https", True), ("HTTPS", True), ("", False), (" ", False)])
def test_names_are_not_compared_if_the_setting_is_empty(value: str, compares: bool) -> None:
    context = tls_of({**SSL, **TRUSTED, "ssl.endpoint.identification.algorithm": value})
    assert context.check_hostname is compares
    assert context.verify_mode is ssl.CERT_REQUIRED, "the authority counts always"


def test_keywords_are_kafkas_settings(tmp_path: Path) -> None:
    found = decode_client_properties(user='a"b', password="p\\w", ca_file=CERTS / "ca.crt")
    assert found.security.tls is not None
    assert found.security.login is not None
    assert next(found.security.login.begin()) == b'\0a"b\0p\\w'
    scram = decode_client_properties(user="a=,b", password="x", mechanism="SCRAM-SHA-512")
    assert scram.security.tls is None
    assert scram.security.login is not None
    assert scram.security.login.mechanism == "SCRAM-SHA-512"
    assert next(scram.security.login.begin()).startswith(b"n,,n=a=3D=2Cb,r=")
    by_certificate = decode_client_properties(certificate_file=CERTS / "server.pem", ca_file=CERTS / "ca.crt")
    assert by_certificate.security.tls is not None
    assert by_certificate.security.login is None


def test_keywords_override_properties() -> None:
    assert decode_client_properties(SASL, user="bob", password="x").security.login is not None
    login = decode_client_properties({**SASL, **TRUSTED}, user="bob", password="x").security.login
    assert login is not None
    assert next(login.begin()) == b"\0bob\0x"
    assert decode_client_properties(SASL, security_protocol="PLAINTEXT") == ClientProperties(
        ineffective=("sasl.jaas.config", "sasl.mechanism")
    )


def test_scram_by_a_delegation_token_says_so() -> None:
    token = {**SASL, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": SCRAM[:-1] + ' tokenauth="true";'}
    assert first_token(token).endswith(b",tokenauth=true")
    assert not first_token({**token, "sasl.jaas.config": SCRAM}).endswith(b"tokenauth=true")


def test_secrets_are_in_no_text_of_the_settings() -> None:
    assert "secret" not in repr(decode_client_properties(SASL))


OAUTH = {
    **SASL,
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": f"{PACKAGE}oauthbearer.OAuthBearerLoginModule required;",
    "sasl.login.callback.handler.class": f"{PACKAGE}oauthbearer.OAuthBearerLoginCallbackHandler",
}


def test_a_token_is_read_from_its_file_for_each_login(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    properties = {**OAUTH, "sasl.oauthbearer.token.endpoint.url": file.as_uri()}
    file.write_text("one\n")
    login = decode_client_properties(properties).security.login
    assert login is not None
    assert next(login.begin()) == b"n,,\x01auth=Bearer one\x01\x01"
    file.write_text("two")
    assert b"Bearer two\x01" in next(login.begin())


WITHOUT_JAAS = {name: value for name, value in SASL.items() if name != "sasl.jaas.config"}
NO_CALLBACKS = {name: value for name, value in OAUTH.items() if name != "sasl.login.callback.handler.class"}


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"security.protocol": "TLS"}, "security.protocol: TLS: one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"default.api.timeout.ms": "0"}, "default.api.timeout.ms: 0: a whole number from 1 to 2147483647 is expected"),
        ({"default.api.timeout.ms": "2147483648"}, "default.api.timeout.ms: 2147483648: a whole number from"),
        ({"default.api.timeout.ms": "1s"}, "default.api.timeout.ms: 1s: a whole number"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism: GSSAPI is not supported; the mechanisms are PLAIN, "),
        ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanism: GSSAPI (the default) is not supported"),
        (WITHOUT_JAAS, "sasl.jaas.config: is not set; PLAIN needs it"),
        ({**SASL, "sasl.jaas.config": "x required secret"}, "sasl.jaas.config: option 1 has no value"),
        ({**SASL, "sasl.jaas.config": "com.Krb5 required;"}, "sasl.jaas.config: the login module of PLAIN must be"),
        ({**SASL, "sasl.jaas.config": f"{PACKAGE}plain.PlainLoginModule required username=a;"}, "PLAIN needs user"),
        ({**SASL, "sasl.login.callback.handler.class": "x"}, "sasl.login.callback.handler.class: classes in Java"),
        ({**SASL, "sasl.client.callback.handler.class": "x"}, "sasl.client.callback.handler.class: classes in Java"),
        ({**SASL, "sasl.login.class": "x"}, "sasl.login.class: classes in Java cannot be loaded here"),
        (OAUTH, "sasl.oauthbearer.token.endpoint.url: nothing: only a file can be read"),
        ({**OAUTH, "sasl.oauthbearer.token.endpoint.url": "https://x/t"}, "https://x/t: only a file can be read"),
        ({**OAUTH, "sasl.oauthbearer.token.endpoint.url": "file:///no/t"}, "url: /no/t: there is no such file"),
        ({**OAUTH, "sasl.jaas.config": PLAIN}, "sasl.jaas.config: the login module of OAUTHBEARER must be"),
        ({**OAUTH, "sasl.login.callback.handler.class": "x"}, "sasl.login.callback.handler.class: classes in Java"),
        (NO_CALLBACKS, "sasl.jaas.config: OAUTHBEARER needs unsecuredLoginStringClaim_sub"),
        (
            {**NO_CALLBACKS, "sasl.jaas.config": f"{PACKAGE}oauthbearer.OAuthBearerLoginModule required a=b;"},
            "sasl.jaas.config: option a of",
        ),
        (
            {
                **NO_CALLBACKS,
                "sasl.jaas.config": f"{PACKAGE}oauthbearer.OAuthBearerLoginModule required "
                'unsecuredLoginLifetimeSeconds="secret";',
            },
            "sasl.jaas.config: option unsecuredLoginLifetimeSeconds must be a number",
        ),
        ({**SSL, "ssl.truststore.location": "/no/such.jks"}, "ssl.truststore.location: /no/such.jks: No such file"),
        ({**SSL, **TRUSTED, "ssl.truststore.type": "JKS"}, "the password is wrong, or the file is no PKCS12 or JKS"),
        ({**SSL, **TRUSTED, "ssl.truststore.type": "BKS"}, "ssl.truststore.type: BKS is not supported"),
        ({**SSL, **TRUSTED, "ssl.truststore.password": "secret"}, "ssl.truststore.password: cannot be set for PEM"),
        ({**SSL, "ssl.keystore.type": "PEM", "ssl.keystore.location": str(CERTS / "ca.crt")}, "no private key"),
        ({**SSL, "ssl.keystore.type": "PEM", "ssl.keystore.key": "x"}, "ssl.keystore.certificate.chain: is not set"),
        ({**SSL, "ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols: TLSv1.1 is not supported"),
        ({**SSL, "ssl.endpoint.identification.algorithm": "ldaps"}, "algorithm: ldaps: https or nothing is expected"),
        ({**SSL, "ssl.engine.factory.class": "x"}, "ssl.engine.factory.class: classes in Java cannot be loaded here"),
    ],
)  # fmt: skip
def test_bad_settings_are_one_line_that_names_file_and_setting(
    properties: dict[str, str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidClientProperties) as refused:
        decode_client_properties(properties)
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    with pytest.raises(InvalidClientProperties) as refused:
        decode_client_properties(file)
    assert str(refused.value).startswith(f"{file}: ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_bad_files_are_one_line(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    for contents, said in ((b"a=\\u12", "line 1"), (b"#" * (1024 * 1024 + 1), "is larger than 1048576 bytes")):
        file.write_bytes(contents)
        with pytest.raises(InvalidClientProperties, match=f"^{file}: {said}"):
            decode_client_properties(file)
    for path, said in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(InvalidClientProperties, match=said):
            decode_client_properties(path)
    with pytest.raises(InvalidClientProperties, match="null"):
        decode_client_properties("a\0b")


def test_arguments_of_other_types_and_unknown_keywords_are_type_errors() -> None:
    with pytest.raises(TypeError, match="properties 5"):
        klamm.AdminClient("127.0.0.1:1", properties=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="value of retries"):
        klamm.AdminClient("127.0.0.1:1", properties={"retries": 5})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="'passwort'"):
        klamm.AdminClient("127.0.0.1:1", passwort="x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="cannot be combined"):
        klamm.AdminClient("127.0.0.1:1", properties=ClientProperties(), user="x")
    for given in ({"user": "a"}, {"password": "a"}):
        with pytest.raises(InvalidClientProperties, match="user and password belong together"):
            decode_client_properties(**given)
    with pytest.raises(InvalidClientProperties, match="mechanism 'GSSAPI'"):
        decode_client_properties(user="a", password="b", mechanism="GSSAPI")


async def test_the_time_limit_of_the_properties_is_that_of_a_call(autojump_clock: trio.testing.MockClock) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    try:
        port = listeners[0].socket.getsockname()[1]
        client = klamm.AdminClient(f"127.0.0.1:{port}", properties={"default.api.timeout.ms": "1500"})
        with pytest.raises(klamm.ClusterUnreachable, match=r"no answer within 1\.5 s"):
            await client.describe_cluster()
        explicit = klamm.AdminClient(
            f"127.0.0.1:{port}", request_timeout_seconds=0.5, properties={"default.api.timeout.ms": "1500"}
        )
        with pytest.raises(klamm.ClusterUnreachable, match=r"no answer within 0\.5 s"):
            await explicit.describe_cluster()
    finally:
        for listener in listeners:
            await listener.aclose()
