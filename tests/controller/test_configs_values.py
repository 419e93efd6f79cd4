"""Config values: text to typed value and back, for the whole table."""

import math
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.configs import (
    ConfigDefinition,
    ConfigType,
    ConfigValue,
    broker_definitions,
    client_metrics_definitions,
    group_definitions,
    topic_definitions,
    typed_value,
    value_text,
)
from klamm.protocol.errors import ApiError, ErrorCode

DEFINITIONS = [
    *chain.from_iterable(
        scope().values()
        for scope in (topic_definitions, broker_definitions, group_definitions, client_metrics_definitions)
    )
]
definitions = st.sampled_from(DEFINITIONS)
BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
PYTHON_TYPES = {
    ConfigType.BOOLEAN: bool,
    ConfigType.STRING: str,
    ConfigType.INT: int,
    ConfigType.SHORT: int,
    ConfigType.LONG: int,
    ConfigType.DOUBLE: float,
    ConfigType.LIST: tuple,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
}
padding = st.text(st.sampled_from(" \t\n\r\x00\x1f"), max_size=3)
# Text that is nearly a value.
near_values = st.one_of(
    st.text(max_size=20),
    st.text(st.sampled_from("0123456789+-.eEfFdDxXpP _,:*truefalsNaInity"), max_size=12),
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(repr),
)


def made_up(config_type: ConfigType, valid: str = "null", name: str = "made.up") -> ConfigDefinition:
    return ConfigDefinition(
        name=name, type=config_type, default=None, valid=valid, importance="LOW", update_mode="", synonyms=()
    )


def test_the_tables_hold_what_kafka_has() -> None:
    assert (len(topic_definitions()), len(broker_definitions())) == (33, 340 + 3)
    assert (len(group_definitions()), len(client_metrics_definitions())) == (17, 3)


def test_answers_are_in_alphabetical_order() -> None:
    for scope in (topic_definitions(), broker_definitions(), group_definitions(), client_metrics_definitions()):
        assert list(scope) == sorted(scope)


def test_every_synonym_is_a_broker_config() -> None:
    for definition in DEFINITIONS:
        assert all(synonym.name in broker_definitions() for synonym in definition.synonyms)


def test_hours_and_minutes_count_as_milliseconds() -> None:
    synonyms = topic_definitions()["retention.ms"].synonyms
    assert synonyms == (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000))


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.name)
def test_every_default_is_valid_and_shown_as_the_table_has_it(definition: ConfigDefinition) -> None:
    if definition.default is not None:
        value = typed_value(definition, definition.default)
        assert not isinstance(value, ApiError)
        assert value_text(value) == definition.default


@given(definitions, near_values)
def test_any_text_is_a_value_of_the_type_or_refused_by_name(definition: ConfigDefinition, text: str) -> None:
    value = typed_value(definition, text)
    if isinstance(value, ApiError):
        assert value.code is ErrorCode.INVALID_CONFIG
        assert value.message
        assert definition.name in value.message
    else:
        assert isinstance(value, PYTHON_TYPES[definition.type])


@given(definitions, near_values)
def test_what_is_shown_is_read_as_the_same_value(definition: ConfigDefinition, text: str) -> None:
    value = typed_value(definition, text)
    if not isinstance(value, ApiError):
        again = typed_value(definition, value_text(value))
        assert again == value or (again != again and value != value)


@given(st.sampled_from(sorted(BITS)), st.integers(-(2**70), 2**70), padding, padding, st.booleans())
def test_numbers_are_read_exactly_when_they_fit_the_type(
    config_type: ConfigType, number: int, before: str, after: str, plus: bool
) -> None:
    text = f"{before}{'+' if plus and number >= 0 else ''}{number}{after}"
    value = typed_value(made_up(config_type), text)
    half = 2 ** (BITS[config_type] - 1)
    assert value == number if -half <= number < half else isinstance(value, ApiError)


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(-50, 50))
def test_a_range_holds_its_bounds_and_nothing_outside(low: int, high: int, number: int) -> None:
    value = typed_value(made_up(ConfigType.INT, f"[{low},...,{high}]"), str(number))
    assert isinstance(value, ApiError) == (number < low or number > high)


@given(st.floats(allow_nan=False))
def test_doubles_are_shown_so_that_they_are_read_back_exactly(number: float) -> None:
    shown = value_text(number)
    assert typed_value(made_up(ConfigType.DOUBLE), shown) == number
    assert math.isinf(number) or "." in shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (0.5, "0.5"),
        (0.05, "0.05"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (1.25e-7, "1.25E-7"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.0, "1.23456789E8"),
        (-1.5, "-1.5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_doubles_are_shown_as_java_shows_them(number: float, shown: str) -> None:
    assert value_text(number) == shown


@pytest.mark.parametrize(
    ("text", "number"),
    [("1e400", math.inf), ("-0x1p5000", -math.inf), ("0x1.8p1", 3.0), ("0x1.fp0", 1.9375), ("1.5f", 1.5), ("2D", 2.0)],
)
def test_doubles_are_read_as_java_reads_them(text: str, number: float) -> None:
    assert typed_value(made_up(ConfigType.DOUBLE), text) == number


def test_a_number_of_many_digits_is_refused_and_not_computed() -> None:
    assert isinstance(typed_value(made_up(ConfigType.LONG), "9" * 100_000), ApiError)
    assert typed_value(made_up(ConfigType.LONG), "0" * 100_000 + "7") == 7


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("listeners", "", "Configuration 'listeners' must not be empty. Valid values include: any non-empty value"),
        ("listeners", "a,,b", "Configuration 'listeners' values must not be empty."),
        (
            "process.roles",
            "",
            "Configuration 'process.roles' must not be empty. Valid values include: [broker, controller]",
        ),
        (
            "process.roles",
            "broker,king",
            "Invalid value king for configuration process.roles: String must be one of: broker, controller",
        ),
        (
            "group.consumer.migration.policy",
            "x",
            (
                "Invalid value x for configuration group.consumer.migration.policy: "
                "String must be one of (case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL"
            ),
        ),
        (
            "remote.log.metadata.manager.class.name",
            " ",
            "Invalid value  for configuration remote.log.metadata.manager.class.name: String must be non-empty",
        ),
        (
            "offsets.topic.replication.factor",
            "32768",
            "Invalid value 32768 for configuration offsets.topic.replication.factor: Not a number of type SHORT",
        ),
        (
            "group.share.max.size",
            "1001",
            "Invalid value 1001 for configuration group.share.max.size: Value must be no more than 1000",
        ),
    ],
)
def test_bad_broker_configs_are_told_what_kafka_tells(name: str, text: str, message: str) -> None:
    """Recorded from ConfigDef of Apache Kafka 4.3.0."""
    assert typed_value(broker_definitions()[name], text) == ApiError(ErrorCode.INVALID_CONFIG, message)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("log.cleanup.policy", "", ()),
        ("log.cleanup.policy", " compact, delete,compact ", ("compact", "delete")),
        ("ssl.cipher.suites", "", ()),
        ("listeners", "a,a", ("a",)),
        ("group.consumer.migration.policy", "upgrade", "upgrade"),
        ("authorizer.class.name", "", ""),
        ("ssl.key.password", " secret ", " secret "),
        ("principal.builder.class", " some.where.Class ", "some.where.Class"),
        ("delete.topic.enable", " FALSE ", False),
        ("log.cleaner.io.max.bytes.per.second", "5", 5.0),
    ],
)
def test_good_broker_configs_are_read_as_kafka_reads_them(name: str, text: str, value: ConfigValue) -> None:
    """Recorded from ConfigDef of Apache Kafka 4.3.0."""
    assert typed_value(broker_definitions()[name], text) == value
