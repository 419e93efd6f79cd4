"""Settings of brokers that act as a former release: which of its configs are accepted, and what is said of others."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from klamm.controller.settings import SettingsError, load_settings


def test_configs_that_only_the_release_has_are_named_with_the_release(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("zookeeper.connect=x\nlog.message.format.version=2.0\nlog4j.loggers=y\n")
    settings, warnings = load_settings(config, {"KAFKA_ZOOKEEPER_SET_ACL": "true", "KAFKA_OPTS": ""}, release="3.3")
    assert warnings == [
        (
            f"ignored keys in {config} that Kafka 3.3 has and Klamm does not obey: "
            "log.message.format.version, zookeeper.connect"
        ),
        f"ignored keys in {config} that are no broker config: log4j.loggers",
        "ignored environment variables that Kafka 3.3 has and Klamm does not obey: zookeeper.set.acl",
        "ignored environment variables that are no broker config: KAFKA_OPTS",
    ]
    assert settings.static_configs == {}
    for arguments in ({"sets": ["zookeeper.connect=x"]}, {"broker_sets": ["1:zookeeper.connect=x"]}):
        with pytest.raises(SettingsError, match=r"Kafka 3\.3 has zookeeper\.connect, and Klamm does not obey it$"):
            load_settings(**arguments, release="3.3")  # type: ignore[arg-type]
        with pytest.raises(SettingsError, match=r"no broker config is called zookeeper\.connect"):
            load_settings(**arguments, release="4.0")  # type: ignore[arg-type]


FORMER = {"log.message.timestamp.difference.max.ms": "1000", "log.message.downconversion.enable": "false"}


def test_former_configs_with_an_effect_are_accepted_for_releases_that_have_them(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in FORMER.items()))
    variables = {f"KAFKA_{name.upper().replace('.', '_')}": value for name, value in FORMER.items()}
    pairs = [f"{name}={value}" for name, value in FORMER.items()]
    for source in ({"config_path": config}, {"environ": variables}, {"sets": pairs}, {"configs": FORMER}):
        for release in ("2.1", "3.9"):
            settings, warnings = load_settings(**source, release=release)
            assert (dict(settings.static_configs), warnings) == (FORMER, [])
    for_one = [f"1:{pair}" for pair in pairs]
    settings, _ = load_settings(broker_sets=for_one, release="3.0")
    assert settings.broker_static_configs == {1: FORMER}
    for name in FORMER:
        for arguments in ({"sets": [f"{name}=1"]}, {"broker_sets": [f"1:{name}=1"]}):
            with pytest.raises(SettingsError, match=rf"no broker config is called {name}"):
                load_settings(**arguments, release="4.0")  # type: ignore[arg-type]
    _, warnings = load_settings(config, variables, release="4.0")
    assert [warning.partition(" that are no broker config: ")[2] for warning in warnings] == [
        ", ".join(sorted(FORMER)),
        ", ".join(sorted(variables)),
    ]


@pytest.mark.parametrize(
    ("release", "name", "value", "taken"),
    [
        ("3.3", "log.message.downconversion.enable", "perhaps", False),
        ("3.3", "log.message.timestamp.difference.max.ms", "-1", False),
        ("3.0", "log.message.timestamp.difference.max.ms", "-1", True),
        ("3.0", "log.message.timestamp.difference.max.ms", "1s", False),
    ],
)
def test_values_of_former_configs_are_those_of_the_release(release: str, name: str, value: str, taken: bool) -> None:
    """Before 3.3, Kafka had no least difference of timestamps."""
    with nullcontext() if taken else pytest.raises(SettingsError, match=rf"static config {name}: .*{value}"):
        load_settings(configs={name: value}, release=release)
    with (
        nullcontext() if taken else pytest.raises(SettingsError, match=rf"static config {name} of broker 1: .*{value}")
    ):
        load_settings(broker_configs={1: {name: value}}, release=release)
