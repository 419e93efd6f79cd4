"""Settings: server.properties, environment, --set, and the errors about those that cannot be used."""

import json
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.authorizer import STANDARD_AUTHORIZER, StandardAuthorizer
from klamm.controller.config_definitions.properties_file import PropertiesError, decode_properties
from klamm.controller.configs import (
    auto_create_topics_enabled,
    broker_definitions,
    default_replication_factor,
    delete_topic_enabled,
    num_partitions,
)
from klamm.controller.settings import (
    MAX_CONFIG_FILE_BYTES,
    REPLICA_SELECTOR_CONFIG,
    Settings,
    SettingsError,
    load_settings,
)

GOLDEN = Path(__file__).parent.parent / "golden" / "configs" / "properties.jsonl"
JAVA = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
# Two oddities: Java reads a lone backslash as one pair of empty texts, and keeps half a character.
ODDITIES = {"\\", "a=\\ud83d"}


@pytest.mark.parametrize(("text", "pairs"), [case for case in JAVA if case[0] not in ODDITIES], ids=repr)
def test_properties_are_read_as_java_reads_them(text: str, pairs: dict[str, str] | None) -> None:
    if pairs is None:
        with pytest.raises(PropertiesError, match="line 1"):
            decode_properties(text.encode())
    else:
        assert decode_properties(text.encode()) == pairs


def encoded(text: str, draw_escape: bool, *, key: bool) -> str:
    """Text in the form of a careful writer of properties files: everything that could be misread is escaped."""
    named = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
    out = []
    for position, character in enumerate(text):
        if character in named:
            out.append(named[character])
        elif character in "\\#!=:" or (character == " " and (key or position == 0)):
            out.append("\\" + character)
        elif draw_escape and not character.isascii():
            units = character.encode("utf-16-be")
            out += [f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)]
        else:
            out.append(character)
    return "".join(out)


characters = st.characters(exclude_categories=["Cs"])


@given(
    st.dictionaries(st.text(characters, min_size=1, max_size=12), st.text(characters, max_size=12), max_size=5),
    st.sampled_from(["=", ":", " ", " = ", "\t:\f"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.booleans(),
)
def test_properties_round_trip(
    pairs: dict[str, str], separator: str, line_end: str, unicode_escapes: bool, continued: bool
) -> None:
    middle = f"{separator}\\{line_end}   " if continued else separator
    lines = [
        f"{encoded(key, unicode_escapes, key=True)}{middle}{encoded(value, unicode_escapes, key=False)}"
        for key, value in pairs.items()
    ]
    text = line_end.join(["# a comment \\", "", *lines, "  ! another"])
    assert decode_properties(text.encode()) == pairs


@given(st.binary(max_size=60))
def test_any_bytes_are_properties_or_refused_for_a_bad_escape(data: bytes) -> None:
    try:
        pairs = decode_properties(data)
    except PropertiesError:
        assert b"\\u" in data
    else:
        for text in (*pairs, *pairs.values()):
            text.encode()  # Answers encode it as UTF-8.


def test_text_that_is_not_utf_8_is_latin_1() -> None:
    assert decode_properties(b"a=\xe9") == {"a": "é"}
    assert decode_properties("a=é".encode()) == {"a": "é"}
    assert decode_properties(b"\xef\xbb\xbfa=1") == {"a": "1"}


def test_the_defaults_are_kafkas() -> None:
    settings = Settings()
    assert (settings.profile, settings.seed, dict(settings.static_configs)) == ("kip", None, {})
    assert settings.socket_request_max_bytes == 104857600
    assert settings.connections_max_idle_ms == 600000
    assert settings.max_connections == 2147483647
    assert settings.broker_session_timeout_ms == 9000
    assert settings.broker_heartbeat_interval_ms == 2000
    assert settings.metadata_log_segment_bytes == 1073741824
    assert (num_partitions(settings), default_replication_factor(settings)) == (1, 1)
    assert (auto_create_topics_enabled(settings), delete_topic_enabled(settings)) == (True, True)
    assert load_settings() == (settings, [])


def test_settings_do_not_change() -> None:
    given_configs = {"num.partitions": "3"}
    settings = Settings(static_configs=given_configs)
    given_configs["num.partitions"] = "4"
    assert num_partitions(settings) == 3
    with pytest.raises(FrozenInstanceError):
        settings.profile = "kafka"  # type: ignore[misc]
    with pytest.raises(TypeError):
        settings.static_configs["num.partitions"] = "5"  # type: ignore[index]


def test_values_keep_their_spelling_and_count_by_their_meaning(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("num.partitions= 3 \ndelete.topic.enable = FALSE\n")
    settings, warnings = load_settings(config)
    assert settings.static_configs["num.partitions"] == "3 "
    assert num_partitions(settings) == 3
    assert not delete_topic_enabled(settings)
    assert warnings == []


RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
SOURCES = ("file", "environment", "set")


@given(st.dictionaries(st.sampled_from(SOURCES), st.integers(1, 1000)))
def test_set_counts_more_than_environment_and_environment_more_than_file(
    tmp_path_factory: pytest.TempPathFactory, numbers: dict[str, int]
) -> None:
    config = tmp_path_factory.getbasetemp() / "server.properties"
    config.write_text(f"num.partitions={numbers['file']}" if "file" in numbers else "# nothing")
    environ = {"KAFKA_NUM_PARTITIONS": str(numbers["environment"])} if "environment" in numbers else {}
    sets = [f"num.partitions={numbers['set']}"] if "set" in numbers else []
    settings, warnings = load_settings(config, environ, sets)
    assert num_partitions(settings) == next((numbers[source] for source in reversed(SOURCES) if source in numbers), 1)
    assert warnings == []


@pytest.mark.parametrize("name", sorted(broker_definitions()))
def test_every_broker_config_can_be_set_by_its_environment_variable(name: str) -> None:
    variable = "KAFKA_" + name.replace("-", "___").replace("_", "__").replace(".", "_").upper()
    definition = broker_definitions()[name]
    number = definition.type.name in ("INT", "LONG")
    classes = {"authorizer.class.name": STANDARD_AUTHORIZER, REPLICA_SELECTOR_CONFIG: RACK_AWARE}
    value = definition.default or classes.get(name, "1" if number else "broker")
    settings, _ = load_settings(environ={variable: value})
    assert settings.static_configs[name] == value


@pytest.mark.parametrize("value", ["com.example.Selector", "RackAwareReplicaSelector", f"{RACK_AWARE}2", "x\ny"])
def test_another_replica_selector_than_the_rack_aware_one_is_refused_in_one_line(value: str) -> None:
    for arguments in (
        {"sets": [f"replica.selector.class={value}"]},
        {"broker_sets": [f"1:replica.selector.class={value}"]},
    ):
        with pytest.raises(SettingsError) as refused:
            load_settings(**arguments)  # type: ignore[arg-type]
        assert f"replica.selector.class can only be {RACK_AWARE}, not " in str(refused.value)
        assert "\n" not in str(refused.value)
    assert load_settings(sets=["replica.selector.class="])[0].static_configs == {"replica.selector.class": ""}


def test_names_that_are_no_config_are_warned_of_once_per_group(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("zookeeper.connect=x\nnum.partitions=2\nlog4j.loggers=y\n")
    environ = {"KAFKA_OPTS": "-Xmx1g", "KAFKA_HEAP_OPTS": "", "KAFKA_NUM_PARTITIONS": "3", "HOME": "/", "OPTS": "x"}
    settings, warnings = load_settings(config, environ)
    assert warnings == [
        f"ignored keys in {config} that are no broker config: log4j.loggers, zookeeper.connect",
        "ignored environment variables that are no broker config: KAFKA_HEAP_OPTS, KAFKA_OPTS",
    ]
    assert dict(settings.static_configs) == {"num.partitions": "3"}


def test_a_thousand_unknown_names_are_one_line(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("".join(f"unknown.{number:04}\\n=1\n" for number in range(1000)))
    _, [warning] = load_settings(config)
    assert "\n" not in warning
    assert "unknown.0000\\n, " in warning
    assert warning.endswith("and 950 more")


def test_who_a_broker_is_cannot_be_configured_unless_it_is_the_controller_too(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("node.id=7\nlisteners=PLAINTEXT://:9092\nprocess.roles=broker,controller\n")
    assert load_settings(config)[1] == []
    assert load_settings(config)[0].combined_node_id == 7
    config.write_text("node.id=7\nlisteners=PLAINTEXT://:9092\nprocess.roles=broker\n")
    settings, warnings = load_settings(config)
    assert warnings == ["the server's own options decide, so these have no effect: node.id"]
    assert load_settings(config, decided=["listeners", "advertised.listeners"])[1] == [
        "the server's own options decide, so these have no effect: listeners, node.id"
    ]
    assert settings.static_configs["process.roles"] == "broker"
    assert settings.combined_node_id is None


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("num.partitions", "--set num.partitions: must be key=value"),
        ("=3", "--set: the key is missing, key=value is expected"),
        (" = 3", "--set: the key is missing, key=value is expected"),
        ("", "--set: the key is missing, key=value is expected"),
        (
            "num.partition=3",
            "--set num.partition: no broker config is called num.partition; did you mean 'num.partitions'?",
        ),
        (
            "retention.ms=3",
            "--set retention.ms: retention.ms is a config of topics; what they inherit is log.retention.ms",
        ),
        ("a\nb=3", "--set a\\nb: no broker config is called a\\nb"),
        (
            "num.partitions=0",
            "--set num.partitions: Invalid value 0 for configuration num.partitions: Value must be at least 1",
        ),
        (
            "num.partitions=a\nb",
            "--set num.partitions: Invalid value a\\nb for configuration num.partitions: Not a number of type INT",
        ),
        (
            "num.partitions=",
            "--set num.partitions: Invalid value  for configuration num.partitions: Not a number of type INT",
        ),
        ("broker.rack=\udcff", "--set broker.rack: the value of broker.rack is not valid text"),
    ],
)
def test_a_bad_option_is_one_line_that_names_it(option: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(sets=[option])
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "option", ["x:num.partitions=3", ":num.partitions=3", "num.partitions=3", "²:num.partitions=3"]
)
def test_a_config_of_one_broker_needs_its_id(option: str) -> None:
    with pytest.raises(SettingsError, match=r"^--broker-set .*: must be ID:key=value, with the id of a broker$"):
        load_settings(broker_sets=[option])


def test_the_value_of_an_unknown_option_is_not_repeated() -> None:
    """It may be a secret: a misspelt password is not printed."""
    with pytest.raises(SettingsError) as caught:
        load_settings(sets=["ssl.keystore.pasword=secret"])
    assert "secret" not in str(caught.value)


def test_a_bad_value_is_told_with_where_it_stands(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("num.partitions=x\n")
    fault = "Invalid value x for configuration num.partitions: Not a number of type INT"
    with pytest.raises(SettingsError) as caught:
        load_settings(config)
    assert str(caught.value) == f"config file {config}: {fault}"
    with pytest.raises(SettingsError) as caught:
        load_settings(environ={"KAFKA_NUM_PARTITIONS": "x"})
    assert str(caught.value) == f"environment variable KAFKA_NUM_PARTITIONS: {fault}"
    with pytest.raises(SettingsError) as caught:
        Settings(static_configs={"num.partitions": "x"})
    assert str(caught.value) == f"static config num.partitions: {fault}"


def test_only_the_value_that_counts_is_judged() -> None:
    settings, _ = load_settings(environ={"KAFKA_NUM_PARTITIONS": "x"}, sets=["num.partitions=4", "num.partitions=5"])
    assert num_partitions(settings) == 5


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    missing = tmp_path / "missing.properties"
    with pytest.raises(SettingsError) as caught:
        load_settings(missing)
    assert str(caught.value) == f"config file {missing}: No such file or directory"
    with pytest.raises(SettingsError, match="Is a directory"):
        load_settings(tmp_path)
    with pytest.raises(SettingsError, match=r"config file a\\x00b: embedded null byte"):
        load_settings(Path("a\0b"))
    large = tmp_path / "large"
    large.write_bytes(b"#" * (MAX_CONFIG_FILE_BYTES + 1))
    with pytest.raises(SettingsError, match=f"is larger than {MAX_CONFIG_FILE_BYTES} bytes"):
        load_settings(large)
    bad = tmp_path / "bad"
    bad.write_bytes(b"a=1\nb=\\u12\n")
    with pytest.raises(SettingsError) as caught:
        load_settings(bad)
    assert str(caught.value) == f"config file {bad}: line 2: \\u must be followed by four hexadecimal digits"


def test_a_long_value_is_cut_and_its_fault_still_told() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(sets=[f"num.partitions={'x' * 5000}"])
    assert len(str(caught.value)) < 300
    assert str(caught.value).endswith("Not a number of type INT")


def test_profile_and_seed_are_checked() -> None:
    assert load_settings(profile="kafka", seed=7)[0] == Settings(profile="kafka", seed=7)
    with pytest.raises(SettingsError, match="profile kipp: must be one of kip, kafka"):
        load_settings(profile="kipp")
    with pytest.raises(SettingsError, match="seed -1: must not be negative"):
        load_settings(seed=-1)


def test_one_broker_may_differ_from_the_others() -> None:
    settings, _ = load_settings(
        sets=["num.partitions=2"], broker_sets=["3:auto.create.topics.enable=false", "3:num.partitions=4"]
    )
    assert [auto_create_topics_enabled(settings, broker_id) for broker_id in (None, 1, 3)] == [True, True, False]
    assert [num_partitions(settings, broker_id) for broker_id in (None, 1, 3)] == [2, 2, 4]
    assert settings.static_configs_of(3) == {"num.partitions": "4", "auto.create.topics.enable": "false"}
    with pytest.raises(SettingsError, match=r"^--broker-set 3: num\.partitions: Invalid value 0 for"):
        load_settings(broker_sets=["3:num.partitions=0"])


AUTHORIZER = f"authorizer.class.name={STANDARD_AUTHORIZER}"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["authorizer.class.name=kafka.Other"],
            rf"^--set authorizer.class.name: the only .*{STANDARD_AUTHORIZER}.*kafka.Other$",
        ),
        (["super.users=admin"], "^--set super.users: must be principals such as User:admin.*not admin$"),
        (
            ["allow.everyone.if.no.acl.found="],
            "^--set allow.everyone.if.no.acl.found: must be true or false, not nothing$",
        ),
        (["super.user=User:a"], "did you mean 'super.users'"),
    ],
)
def test_an_authorizer_that_there_is_not_keeps_the_cluster_from_starting(options: list[str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load_settings(sets=options)


def test_the_authorizer_is_the_clusters_and_not_one_brokers() -> None:
    with pytest.raises(SettingsError, match=r"^super.users of broker 2: the controller decides it"):
        load_settings(sets=[AUTHORIZER], broker_sets=["2:super.users=User:a"])


def test_the_authorizers_own_configs_come_from_everywhere(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("super.users=User:CN=a,O=b;User:c\n")
    environ = {"KAFKA_ALLOW_EVERYONE_IF_NO_ACL_FOUND": "true"}
    settings, warnings = load_settings(config, environ, [AUTHORIZER])
    assert warnings == []
    assert settings.authorizer == StandardAuthorizer(frozenset({"User:CN=a,O=b", "User:c"}), allow_if_no_acl=True)
    assert Settings().authorizer is None


def test_segments_may_be_smaller_than_the_public_config_allows() -> None:
    """By the config that Apache Kafka keeps for its own tests, which no answer has."""
    public, internal = "metadata.log.segment.bytes", "internal.metadata.log.segment.bytes"
    settings, warnings = load_settings(sets=[f"{public}=8388608", f"{internal}=1000"])
    assert (settings.metadata_log_segment_bytes, warnings) == (1000, [])
    assert load_settings(sets=[f"{public}=8388608"])[0].metadata_log_segment_bytes == 8388608
    for value in ("0", "few"):
        with pytest.raises(SettingsError, match=internal):
            load_settings(sets=[f"{internal}={value}"])
    assert internal not in broker_definitions()
