"""Listeners with SASL from Kafka's configs: what they get, and what is refused before a port is open."""

import pytest

from klamm.cluster.options import checked_options
from klamm.cluster.plan import FREE_PORTS, plan_cluster
from klamm.controller.settings import SettingsError
from klamm.server.sasl.settings import SaslSettings

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
