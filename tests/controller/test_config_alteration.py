"""The operations on configs, and the order in which Kafka checks names."""

from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.controller.config_definitions.hash_order import MAX_ORDERED_NAMES, java_hash
from klamm.controller.configs import MAX_VALUE_BYTES, Changes, ConfigEdit, ConfigOperation, apply_edits, in_hash_order
from klamm.protocol.errors import ApiError, ErrorCode

TOPIC, BROKER, GROUP, CLIENT_METRICS = 2, 4, 32, 16
LIST = "leader.replication.throttled.replicas"
SET, DELETE, APPEND, SUBTRACT = ConfigOperation

items = st.text("ab01:*", min_size=1, max_size=3)
lists = st.lists(items, min_size=1, max_size=6, unique=True).map(",".join)
names = st.sampled_from(["a", "b", "retention.ms", LIST, ""])
texts = st.text("ab,", max_size=4)


def applied(current: Mapping[str, str], *edits: ConfigEdit, resource_type: int = TOPIC) -> Changes:
    changes = apply_edits(resource_type, current, edits)
    assert not isinstance(changes, ApiError)
    return changes


def value_after(current: str, operation: ConfigOperation, value: str) -> str:
    outcome = applied({LIST: current}, ConfigEdit(LIST, operation, value))[LIST]
    assert outcome is not None
    return outcome


@given(lists, lists)
def test_what_was_appended_and_was_not_there_is_taken_away_by_subtracting_it(present: str, more: str) -> None:
    new = ",".join(item for item in more.split(",") if item not in present.split(","))
    appended = value_after(present, APPEND, more)
    assert appended.split(",") == [*present.split(","), *filter(None, new.split(","))]
    if new:
        assert value_after(appended, SUBTRACT, new) == present


@given(lists, lists, st.sampled_from([APPEND, SUBTRACT]))
@example("a", "a", SUBTRACT)
def test_list_operations_done_twice_are_done_once(present: str, other: str, operation: ConfigOperation) -> None:
    once = value_after(present, operation, other)
    assert value_after(once, operation, other) == once


@given(lists, lists, lists)
def test_appending_one_after_the_other_is_appending_both(present: str, one: str, other: str) -> None:
    assert value_after(value_after(present, APPEND, one), APPEND, other) == value_after(
        present, APPEND, f"{one},{other}"
    )
    assert value_after(value_after(present, SUBTRACT, one), SUBTRACT, other) == value_after(
        present, SUBTRACT, f"{one},{other}"
    )


@given(lists)
def test_nothing_is_left_of_a_list_without_its_items(present: str) -> None:
    assert value_after(present, SUBTRACT, present) == ""
    assert value_after("", APPEND, present) == present


@given(st.dictionaries(names, texts), st.lists(st.builds(ConfigEdit, names, st.sampled_from([0, 1]), texts)))
def test_setting_and_deleting_is_what_a_dictionary_does(current: dict[str, str], edits: list[ConfigEdit]) -> None:
    wanted: dict[str, str | None] = {}
    for name, operation, value in edits:
        wanted[name] = value if operation == SET else None
    assert applied(current, *edits) == wanted


@pytest.mark.parametrize("operation", [SET, APPEND, SUBTRACT, DELETE])
def test_no_value_removes_whatever_the_operation(operation: ConfigOperation) -> None:
    for name in (LIST, "flush.ms"):
        assert applied({name: "1"}, ConfigEdit(name, operation, None)) == {name: None}


def test_a_list_that_is_not_set_is_appended_to_as_it_is_by_default() -> None:
    append = ConfigEdit("cleanup.policy", APPEND, "compact")
    assert applied({}, append) == {"cleanup.policy": "delete,compact"}
    assert applied({"cleanup.policy": ""}, append) == {"cleanup.policy": "compact"}
    of_broker = ConfigEdit("log.cleanup.policy", APPEND, "compact")
    assert applied({}, of_broker, resource_type=BROKER) == {"log.cleanup.policy": "delete,compact"}


@pytest.mark.parametrize(
    ("resource_type", "name"),
    [(TOPIC, "flush.ms"), (TOPIC, "no.such"), (GROUP, "consumer.session.timeout.ms"), (CLIENT_METRICS, "metrics")],
)
def test_what_is_no_list_is_not_appended_to(resource_type: int, name: str) -> None:
    refusal = apply_edits(resource_type, {}, [ConfigEdit(name, APPEND, "1")])
    assert refusal == ApiError(ErrorCode.INVALID_CONFIG, f"Can't APPEND to key {name} because its type is not LIST.")


def test_a_value_may_be_as_long_as_a_string_of_the_protocol() -> None:
    present = "x" * (MAX_VALUE_BYTES - 2)
    assert value_after(present, APPEND, "y") == present + ",y"
    refusal = apply_edits(TOPIC, {LIST: present}, [ConfigEdit(LIST, APPEND, "ü")])
    assert isinstance(refusal, ApiError)
    assert refusal.code is ErrorCode.INVALID_CONFIG


@given(st.lists(st.text(max_size=4)))
def test_the_order_of_a_hash_map_has_each_name_once_and_depends_on_nothing_but_the_names(
    given_names: list[str],
) -> None:
    ordered = in_hash_order(given_names)
    assert sorted(ordered) == sorted(set(given_names))
    assert in_hash_order(ordered) == ordered


@pytest.mark.parametrize(
    "recorded",
    [
        ["node.id", "num.partitions", "auto.create.topics.enable", "broker.rack", "default.replication.factor"],
        [
            *("compression.type", "file.delete.delay.ms", "max.message.bytes", "min.insync.replicas", "preallocate"),
            *("index.interval.bytes", "delete.retention.ms", "retention.bytes", "cleanup.policy", "flush.ms"),
            *("retention.ms", "segment.bytes", "segment.ms", "flush.messages"),
        ],
    ],
)
def test_names_stand_in_the_order_in_which_a_real_controller_wrote_them(recorded: list[str]) -> None:
    assert in_hash_order(sorted(recorded)) == recorded


def test_strings_with_one_hash_code_stay_in_the_order_in_which_they_came() -> None:
    assert in_hash_order(["Aa", "BB"]) == ["Aa", "BB"]
    assert in_hash_order(["BB", "Aa"]) == ["BB", "Aa"]


def test_an_endless_list_of_names_is_not_put_in_order() -> None:
    many = [f"name-{number}" for number in range(MAX_ORDERED_NAMES + 1)]
    assert in_hash_order(many) == many
    assert in_hash_order(many[:-1]) != many[:-1]


@pytest.mark.parametrize("length", [0, 1, 99, 100, 101, 102, 32_767])
def test_the_hash_of_a_long_text_is_that_of_its_characters(length: int) -> None:
    text = "".join(chr(32 + 7 * index % 60_000 % 0xD000) for index in range(length))
    code = 0
    for character in text:
        code = (31 * code + ord(character)) & 0xFFFFFFFF
    assert java_hash(text) == code - (1 << 32) * (code >> 31)
