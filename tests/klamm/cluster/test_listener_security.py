"""Listeners with SASL from Kafka's configs: what they get, and what is refused before a port is open."""

import json
import ssl
import sys
from pathlib import Path

import pytest

from klamm.cluster.options import checked_options
from klamm.cluster.plan import FREE_PORTS, plan_cluster
from klamm.controller.settings import SettingsError
from klamm.server.sasl.oauthbearer import UnsecuredTokens
from klamm.server.sasl.settings import SaslSettings
from klamm.server.sasl.signed_tokens import SignedTokens

CERTS = Path(__file__).parents[2] / "golden" / "security" / "certs"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = f'{PLAIN_MODULE} required username="broker" user_alice="alice-secret" user_="nobody-secret";'
JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
SASL = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    JAAS: USERS,
}


def sasl_of(configs: dict[str, str], broker_id: int = 1, **options: object) -> SaslSettings:
    listeners = plan_cluster(checked_options({"configs": configs, **options}), {}, FREE_PORTS).listeners
    found = next(one for one in listeners.of_broker(broker_id, (1, 2, 3)) if one.name == "SASL_PLAINTEXT")
    assert found.security is not None
    assert found.security.sasl is not None
    return found.security.sasl


def test_defaults_are_kafkas() -> None:
    found = sasl_of(SASL)
    assert found.mechanisms == ("PLAIN",)
    assert dict(found.plain_users) == {"alice": "alice-secret", "": "nobody-secret"}
    assert (found.failed_delay_ms, found.max_receive_bytes, found.max_reauth_ms) == (100, 524_288, {"PLAIN": 0})


def test_settings_of_the_mechanism_override_those_of_the_listener_which_override_those_of_all() -> None:
    all_of = "connections.max.reauth.ms"
    configs = {**SASL, all_of: "1"}
    for name, expected in ((all_of, 1), (f"listener.name.sasl_plaintext.{all_of}", 2)):
        configs[name] = str(expected)
        assert sasl_of(configs).max_reauth_ms == {"PLAIN": expected}
    configs[f"listener.name.sasl_plaintext.plain.{all_of}"] = "3"
    configs[f"listener.name.other.plain.{all_of}"] = "4"
    assert sasl_of(configs).max_reauth_ms == {"PLAIN": 3}


def test_a_broker_can_have_users_of_its_own() -> None:
    own = {2: {JAAS: USERS.replace("alice", "carol")}}
    assert "alice" in sasl_of(SASL, 1, broker_configs=own).plain_users
    assert "carol" in sasl_of(SASL, 2, broker_configs=own).plain_users
    assert "alice" in sasl_of(SASL, 3, broker_configs=own).plain_users


def test_secrets_are_not_in_the_text_of_a_plan() -> None:
    plan = plan_cluster(checked_options({"configs": SASL}), {}, FREE_PORTS)
    assert "secret" not in repr(plan.listeners)


def test_settings_without_effect_are_named() -> None:
    plan = plan_cluster(checked_options({"configs": {**SASL, "sasl.login.class": "x"}}), {}, FREE_PORTS)
    assert plan.warnings == ("TLS and SASL here do not use them, so these configs have no effect: sasl.login.class",)


def test_what_only_real_brokers_use_is_named_where_none_can_join() -> None:
    """Real brokers share the file with the controller."""
    configs = {**SASL, "sasl.mechanism.controller.protocol": "PLAIN"}
    names = "sasl.mechanism.controller.protocol"
    alone = plan_cluster(checked_options({"configs": configs}), {}, FREE_PORTS)
    assert [warning for warning in alone.warnings if names in warning] == [
        f"TLS and SASL here do not use them, so these configs have no effect: {names}"
    ]
    options = checked_options({"configs": configs, "controller_listener": "127.0.0.1:0"})
    assert not any(names in warning for warning in plan_cluster(options, {}, FREE_PORTS).warnings)


def test_the_logins_of_real_brokers_are_named_where_none_can_join() -> None:
    names = [
        "listener.name.controller.oauthbearer.sasl.login.class",
        "listener.name.controller.sasl.login.refresh.buffer.seconds",
        "sasl.client.callback.handler.class",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.login.read.timeout.ms",
        "sasl.login.retry.backoff.max.ms",
        "sasl.oauthbearer.assertion.claim.iss",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.client.credentials.client.id",
    ]
    others = ["sasl.oauthbearer.jwt.validator.class", "ssl.trustmanager.algorithm"]
    said = "TLS and SASL here do not use them, so these configs have no effect: "
    configs = {**SASL, **dict.fromkeys([*names, *others], "1")}
    alone = plan_cluster(checked_options({"configs": configs}), {}, FREE_PORTS)
    assert alone.warnings == (said + ", ".join(sorted([*names, *others])),)
    options = checked_options({"configs": configs, "controller_listener": "127.0.0.1:0"})
    assert plan_cluster(options, {}, FREE_PORTS).warnings == (said + ", ".join(others),)


def test_configs_that_a_release_lacks_and_those_that_only_it_has_are_named() -> None:
    configs = {"group.consumer.max.size": "7", "num.partitions": "2", "max.broker.partitions": "9"}
    effect = "Kafka {} does not have these configs, which have the same effect as in 4.3: group.consumer.max.size"
    for release, warnings in (("3.3", [effect.format("3.3")]), ("4.3", []), ("4.0", []), ("4.3,client:x=3.3", [])):
        options = checked_options({"configs": configs, "kafka_version": release})
        assert [one for one in plan_cluster(options, {}, FREE_PORTS).warnings if "does not have" in one] == warnings
    of_one = checked_options({"broker_configs": {1: configs}, "kafka_version": "3.3"})
    assert effect.format("3.3") in plan_cluster(of_one, {}, FREE_PORTS).warnings
    options = checked_options({"configs": {"zookeeper.connect": "x"}, "kafka_version": "3.3"})
    with pytest.raises(SettingsError, match=r"Kafka 3\.3 has zookeeper\.connect, and Klamm does not obey it"):
        plan_cluster(options, {}, FREE_PORTS)


def test_former_configs_that_have_an_effect_are_not_warned_of() -> None:
    former = {"log.message.timestamp.difference.max.ms": "1000", "log.message.downconversion.enable": "false"}
    options = checked_options({"configs": former, "broker_configs": {2: former}, "kafka_version": "3.3", "log_dirs": 2})
    plan = plan_cluster(options, {}, FREE_PORTS)
    assert plan.warnings == ()
    assert former.items() <= plan.settings.static_configs.items()
    assert plan.settings.broker_static_configs[2] == former
    with pytest.raises(SettingsError, match="no broker config is called log"):
        plan_cluster(checked_options({"configs": former, "kafka_version": "4.3,client:x=3.3"}), {}, FREE_PORTS)


WITHOUT_MECHANISMS = {name: value for name, value in SASL.items() if name != "sasl.enabled.mechanisms"}
WITHOUT_JAAS = {name: value for name, value in SASL.items() if name != JAAS}


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        (
            WITHOUT_MECHANISMS,
            "sasl.enabled.mechanisms: GSSAPI (the default) is not supported; the mechanisms are PLAIN",
        ),
        ({**SASL, "sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms: at least one mechanism is needed"),
        ({**SASL, "sasl.enabled.mechanisms": "PLAIN,NTLM"}, "sasl.enabled.mechanisms: NTLM is not supported"),
        (
            {**SASL, "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "GSSAPI"},
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms: GSSAPI is not supported",
        ),
        (WITHOUT_JAAS, f"{JAAS} is not set; PLAIN needs it: {PLAIN_MODULE} required"),
        ({**SASL, JAAS: USERS[:-1]}, f"{JAAS}: ';' is missing at the end"),
        ({**SASL, JAAS: USERS.replace("PlainLogin", "ScramLogin")}, f"{JAAS}: the login module of PLAIN must be"),
        ({**SASL, JAAS: ""}, f"{JAAS}: one login module is expected, not 0"),
        (
            {**SASL, "listener.name.sasl_plaintext.plain.sasl.server.callback.handler.class": "com.example.X"},
            "listener.name.sasl_plaintext.plain.sasl.server.callback.handler.class: classes in Java",
        ),
    ],
)
def test_a_listener_that_is_not_configured_completely_is_refused_in_one_line(
    configs: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        plan_cluster(checked_options({"configs": configs}), {}, FREE_PORTS)
    assert said in str(refused.value)
    assert str(refused.value).startswith("listener SASL_PLAINTEXT: ")
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SIGNED_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
OAUTH_PREFIX = "listener.name.sasl_plaintext.oauthbearer.sasl."
OAUTH = {
    "listeners": SASL["listeners"],
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    f"{OAUTH_PREFIX}jaas.config": f'{OAUTH_MODULE} required unsecuredValidatorRequiredScope="read write";',
}
SIGNED = {**OAUTH, f"{OAUTH_PREFIX}server.callback.handler.class": SIGNED_HANDLER}
URL = "sasl.oauthbearer.jwks.endpoint.url"
JWKS = {"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}


def test_tokens_of_oauthbearer_are_unsecured_or_signed_by_keys_in_a_file(tmp_path: Path) -> None:
    assert sasl_of(OAUTH).validate_token == UnsecuredTokens(required_scope=("read", "write"))
    file = tmp_path / "the keys.json"
    file.write_text(json.dumps(JWKS))
    more = {
        URL: file.as_uri(),
        "sasl.oauthbearer.expected.audience": "a,b",
        "sasl.oauthbearer.expected.issuer": "me",
        "sasl.oauthbearer.clock.skew.seconds": "7",
        "sasl.oauthbearer.sub.claim.name": "user",
    }
    found = sasl_of({**SIGNED, **more}).validate_token
    assert isinstance(found, SignedTokens)
    assert (
        found.audience,
        found.issuer,
        found.clock_skew_ms,
        found.principal_claim,
        len(found.keys.keys_for(None)),
    ) == (
        ("a", "b"),
        "me",
        7_000,
        "user",
        1,
    )


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({**OAUTH, URL: "file:///keys"}, "so unsecured tokens would be taken"),
        (SIGNED, f"{URL}: is not set, and the tokens have to be signed"),
        ({**SIGNED, URL: "ftp://keys.example/jwks"}, "ftp://keys.example/jwks: https://…, http://… or a file"),
        ({**SIGNED, URL: "https://"}, "https://: https://…, http://… or a file"),
        ({**SIGNED, URL: "https://user:secret@x/"}, "a user or password in the address is not supported"),
        ({**SIGNED, URL: "http://x:y/"}, "http://x:y/: is no address"),
        ({**SIGNED, URL: "http://x/", f"{URL[:-3]}refresh.ms": "0"}, "refresh.ms: 0: 1 to 2147483647 is expected"),
        ({**SIGNED, URL: "http://x/", f"{URL[:-3]}retry.backoff.ms": "-1"}, "retry.backoff.ms: -1: 1 to 2147483647"),
        (
            {
                **SIGNED,
                URL: "https://x/",
                f"{OAUTH_PREFIX}jaas.config": f'{OAUTH_MODULE} required ssl.truststore.location="/nowhere";',
            },
            "jaas.config: option ssl.truststore.location: /nowhere: No such file",
        ),
        ({**SIGNED, URL: "file:///nowhere/keys"}, f"{URL}: /nowhere/keys: No such file"),
        ({**SIGNED, URL: (CERTS / "ca.crt").as_uri()}, f"{URL}: there is no JWKS with public keys"),
        (
            {**SIGNED, f"{OAUTH_PREFIX}server.callback.handler.class": "com.example.X"},
            "classes in Java cannot be loaded",
        ),
        (
            {
                **OAUTH,
                f"{OAUTH_PREFIX}jaas.config": f"{OAUTH_MODULE} required unsecuredValidatorAllowableClockSkewMs=x;",
            },
            "unsecuredValidatorAllowableClockSkewMs must be a number",
        ),
        ({"listeners": OAUTH["listeners"], "sasl.enabled.mechanisms": "OAUTHBEARER"}, "is not set"),
    ],
)
def test_tokens_are_never_taken_by_mistake(configs: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        plan_cluster(checked_options({"configs": configs}), {}, FREE_PORTS)
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)
    assert str(refused.value).startswith("listener SASL_PLAINTEXT: ")


PEM = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": str(CERTS / "server.pem"),
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": str(CERTS / "ca.crt"),
}
SERVER_PEM = (CERTS / "server.pem").read_text()
KEY, CHAIN = SERVER_PEM[: SERVER_PEM.index("-----BEGIN CERT")], SERVER_PEM[SERVER_PEM.index("-----BEGIN CERT") :]
INLINE = {
    "listeners": PEM["listeners"],
    "ssl.keystore.type": "PEM",
    "ssl.keystore.key": KEY,
    "ssl.keystore.certificate.chain": CHAIN,
    "ssl.truststore.type": "PEM",
    "ssl.truststore.certificates": (CERTS / "ca.crt").read_text(),
}
JKS = {
    "listeners": PEM["listeners"],
    "ssl.keystore.location": str(CERTS / "server.jks"),
    "ssl.keystore.password": "store-secret",
    "ssl.key.password": "key-secret",
    "ssl.truststore.location": str(CERTS / "trust.jks"),
    "ssl.truststore.password": "trust-secret",
}
PKCS12 = {
    **JKS,
    "ssl.keystore.type": "PKCS12",
    "ssl.keystore.location": str(CERTS / "server.p12"),
    "ssl.truststore.type": "pkcs12",
    "ssl.truststore.location": str(CERTS / "trust.p12"),
}
ENCRYPTED = {**PEM, "ssl.keystore.location": str(CERTS / "server-encrypted.pem"), "ssl.key.password": "key-secret"}


@pytest.mark.parametrize(
    "configs", [PEM, INLINE, JKS, PKCS12, ENCRYPTED], ids=["PEM", "inline", "JKS", "PKCS12", "key"]
)
def test_keys_and_certificates_are_read_from_every_kind_of_store(configs: dict[str, str]) -> None:
    plan = plan_cluster(checked_options({"configs": {**configs, "ssl.client.auth": "required"}}), {}, FREE_PORTS)
    (listener,) = [one for one in plan.listeners.of_broker(1, (1,)) if one.name == "SSL"]
    assert listener.security is not None
    assert listener.security.tls is not None
    assert len(listener.security.tls.context.get_ca_certs()) == 1
    assert plan.warnings == ()


def without(configs: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in configs.items() if name not in names}


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        (without(PEM, "ssl.keystore.location"), "ssl.keystore.location: is not set, nor are ssl.keystore.key and"),
        ({**PEM, "ssl.keystore.location": "/nowhere/x.pem"}, "ssl.keystore.location: /nowhere/x.pem: No such file"),
        ({**PEM, "ssl.keystore.location": str(CERTS)}, f"ssl.keystore.location: {CERTS}: Is a directory"),
        ({**PEM, "ssl.keystore.location": PEM["ssl.truststore.location"]}, "ca.crt: there is no private key"),
        ({**PEM, "ssl.keystore.type": "JKS"}, "ssl.keystore.password: is not set, and ssl.keystore.location is"),
        (
            {**PEM, "ssl.keystore.type": "JKS", "ssl.keystore.password": "store-secret"},
            "server.pem: the password is wrong, or the file is no PKCS12 or JKS store",
        ),
        (
            {**PEM, "ssl.keystore.type": "BKS"},
            "ssl.keystore.type: BKS is not supported; the types are PEM, PKCS12, JKS",
        ),
        ({**PEM, "ssl.keystore.password": "store-secret"}, "ssl.keystore.password: cannot be set for PEM"),
        ({**PEM, "ssl.keystore.key": KEY}, "ssl.keystore.key: ssl.keystore.location is set, too"),
        ({**PEM, "ssl.truststore.certificates": CHAIN}, "ssl.truststore.certificates: ssl.truststore.location is set"),
        (without(INLINE, "ssl.keystore.key"), "ssl.keystore.key: is not set, and ssl.keystore.certificate.chain is"),
        (without(INLINE, "ssl.keystore.certificate.chain"), "chain: is not set, and ssl.keystore.key is"),
        (without(INLINE, "ssl.keystore.type"), "ssl.keystore.key: can be set only if ssl.keystore.type is PEM"),
        (without(INLINE, "ssl.truststore.type"), "certificates: can be set only if ssl.truststore.type is PEM"),
        ({**INLINE, "ssl.keystore.certificate.chain": (CERTS / "alice.pem").read_text()}, "more than one private key"),
        ({**JKS, "ssl.key.password": "wrong-secret"}, "server.jks: the password of the key is wrong"),
        ({**JKS, "ssl.keystore.password": "wrong-secret"}, "server.jks: the password is wrong, or the file is damaged"),
        (
            {**JKS, "ssl.truststore.password": "wrong-secret"},
            "trust.jks: the password is wrong, or the file is damaged",
        ),
        (
            {**JKS, "ssl.keystore.location": str(CERTS / "trust.jks"), "ssl.keystore.password": "trust-secret"},
            "no private",
        ),
        ({**ENCRYPTED, "ssl.key.password": "wrong-secret"}, "pem: the password of the private key is missing or wrong"),
        (
            {**without(PEM, "ssl.truststore.location"), "ssl.client.auth": "required"},
            "ssl.truststore.location: is not set, and ssl.client.auth is required",
        ),
        ({**PEM, "ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "ssl.enabled.protocols: TLSv1.1 is not supported"),
        ({**PEM, "ssl.enabled.protocols": ""}, "ssl.enabled.protocols: an empty list is not supported"),
        ({**PEM, "ssl.principal.mapping.rules": "RULE:^CN"}, "ssl.principal.mapping.rules: rule 'RULE:^CN' is neither"),
        ({**PEM, "ssl.engine.factory.class": "com.example.X"}, "ssl.engine.factory.class: classes in Java cannot"),
        (
            {**PEM, "listener.name.ssl.ssl.keystore.location": "/nowhere/y.pem"},
            "listener.name.ssl.ssl.keystore.location: /nowhere/y.pem: No such file",
        ),
    ],
)
def test_a_tls_listener_that_is_not_configured_completely_is_refused_in_one_line(
    configs: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        plan_cluster(checked_options({"configs": configs}), {}, FREE_PORTS)
    assert said in str(refused.value)
    assert str(refused.value).startswith("listener SSL: ")
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)
    assert "BEGIN" not in str(refused.value)


def test_a_store_that_needs_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    plan_cluster(checked_options({"configs": JKS}), {}, FREE_PORTS)
    with pytest.raises(SettingsError, match=r"pip install '/path/to/klamm\[security\]'"):
        plan_cluster(checked_options({"configs": PKCS12}), {}, FREE_PORTS)


@pytest.mark.parametrize(
    ("release", "newest"), [("4.3", ssl.TLSVersion.TLSv1_3), ("2.8", ssl.TLSVersion.TLSv1_3),
        ("2.4", ssl.TLSVersion.TLSv1_2), ("4.3,SSL=2.1", ssl.TLSVersion.TLSv1_2),
        ("2.1,SSL=4.3", ssl.TLSVersion.TLSv1_3)],
)  # fmt: skip
def test_the_versions_of_tls_are_those_of_the_release_unless_they_are_set(release: str, newest: ssl.TLSVersion) -> None:
    for configs, expected in ((PEM, newest), ({**PEM, "ssl.enabled.protocols": "TLSv1.3"}, ssl.TLSVersion.TLSv1_3)):
        options = checked_options({"configs": configs, "kafka_version": release})
        found = next(one for one in plan_cluster(options, {}, FREE_PORTS).listeners.brokers if one.name == "SSL")
        assert found.security is not None
        assert found.security.tls is not None
        assert found.security.tls.context.maximum_version == expected
