"""DescribeConfigs on an image built by replay, compared with the answers of a real broker."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.configs import broker_definitions
from klamm.controller.context import RequestContext
from klamm.controller.handlers.configs import describe_configs
from klamm.controller.handlers.configs.describe_configs import handle_describe_configs
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.replay import replay
from klamm.controller.settings import Settings
from klamm.protocol.codec.requests import decode_response, encode_response
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.configs.describe_configs import (
    API,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from klamm.protocol.records.brokers import BrokerEndpoint, RegisterBrokerRecord
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.controller.contexts import make_context

GOLDEN = Path(__file__).parent.parent / "golden" / "configs" / "described.jsonl"
RECORDED = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]

CONTROLLER_ID = 3000
BROKER_CONFIGS = len(broker_definitions())
# What the recordings omit because it names the machine; and what the recorded node had set that is no broker config.
MACHINE = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "broker.rack",
        "controller.listener.names",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "node.id",
        "process.roles",
    }
)
UNKNOWN_TYPE = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)

Dynamic = Sequence[tuple[int, str, Mapping[str, str]]]


def image_with(dynamic_configs: Dynamic = (), rack: str | None = "r1") -> MetadataImage:
    """Broker 1 with one listener, topic `pt`, and the dynamic configs."""
    records: list[Message] = [
        RegisterBrokerRecord(
            broker_id=1,
            rack=rack,
            end_points=[BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9092, security_protocol=0)],
        ),
        TopicRecord(name="pt", topic_id=Uuid(bytes(15) + b"\7")),
    ]
    records += [
        ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
        for kind, resource, configs in dynamic_configs
        for name, value in configs.items()
    ]
    image = MetadataImage()
    replay(image, records, 0)
    return image


def context_with(settings: Settings | None = None, broker_id: int | None = 1) -> RequestContext:
    return make_context(settings=settings, api_version=4, broker_id=broker_id)


def resource(kind: int, name: str, keys: Sequence[str] | None = None) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)


def described(
    image: MetadataImage,
    *resources: DescribeConfigsResource,
    context: RequestContext | None = None,
    include_synonyms: bool = False,
) -> Sequence[DescribeConfigsResult]:
    request = DescribeConfigsRequest(resources=resources, include_synonyms=include_synonyms)
    outcome = handle_describe_configs(image, request, context or context_with())
    assert not outcome.records
    assert isinstance(outcome.response, DescribeConfigsResponse)
    return outcome.response.results


def as_recorded(result: DescribeConfigsResult) -> dict[str, Any]:
    return {
        "error_code": result.error_code,
        "error_message": result.error_message,
        "resource_type": result.resource_type,
        "resource_name": result.resource_name,
        "configs": [
            {
                "name": config.name,
                "value": config.value,
                "read_only": config.read_only,
                "config_source": config.config_source,
                "is_sensitive": config.is_sensitive,
                "synonyms": [
                    {"name": synonym.name, "value": synonym.value, "source": synonym.source}
                    for synonym in config.synonyms
                ],
                "config_type": config.config_type,
            }
            for config in result.configs
            if config.name not in MACHINE and not is_own(config.name)
        ],
    }


def is_own(name: str) -> bool:
    """Whether a config is one that Apache Kafka lacks."""
    definition = broker_definitions().get(name)
    return definition is not None and definition.is_own


def values(result: DescribeConfigsResult) -> dict[str, str | None]:
    assert result.error_code == ErrorCode.NONE
    return {config.name: config.value for config in result.configs}


def refusal(result: DescribeConfigsResult) -> tuple[int, str | None]:
    assert not result.configs
    return result.error_code, result.error_message


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["about"])
def test_a_broker_answers_as_recorded(recorded: dict[str, Any]) -> None:
    results = described(
        image_with(recorded["dynamic_configs"]),
        *(
            resource(requested["resource_type"], requested["resource_name"], requested["configuration_keys"])
            for requested in recorded["resources"]
        ),
        context=context_with(Settings(static_configs=recorded["static_configs"])),
        include_synonyms=True,
    )
    assert [as_recorded(result) for result in results] == recorded["results"]


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (2, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (
            2,
            "a b",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            (
                "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, "
                "'.', '_' and '-'"
            ),
        ),
        (2, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (4, "2", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 or empty string, but received 2"),
        (4, "-1", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 or empty string, but received -1"),
        (4, "abc", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: abc"),
        (8, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (8, "2", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 but received 2"),
        (8, "abc", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: abc"),
        (16, "", ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
        (32, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
        (3, "tc", ErrorCode.INVALID_REQUEST, UNKNOWN_TYPE),
        (0, "x", ErrorCode.INVALID_REQUEST, UNKNOWN_TYPE),
        (99, "x", ErrorCode.INVALID_REQUEST, UNKNOWN_TYPE),
    ],
)
def test_refusals_are_those_of_kafka(kind: int, name: str, code: ErrorCode, message: str) -> None:
    [result] = described(image_with(), resource(kind, name))
    assert refusal(result) == (code, message)
    assert (result.resource_type, result.resource_name) == (kind, name)


def test_one_unknown_type_spoils_the_whole_request() -> None:
    results = described(image_with(), resource(2, "pt"), resource(3, "x"), resource(4, ""))
    assert [refusal(result) for result in results] == [(ErrorCode.INVALID_REQUEST, UNKNOWN_TYPE)] * 3


def test_a_resource_named_twice_is_answered_twice() -> None:
    results = described(image_with(), resource(2, "pt", ["flush.ms"]), resource(2, "pt", ["flush.ms"]))
    assert [values(result) for result in results] == [{"flush.ms": "9223372036854775807"}] * 2


@pytest.mark.parametrize("keys", [None, []])
def test_no_keys_are_all_keys(keys: list[str] | None) -> None:
    [topic, broker] = described(image_with(), resource(2, "pt", keys), resource(4, "1", keys))
    assert len(topic.configs) == 33
    assert len(broker.configs) == BROKER_CONFIGS


def test_keys_filter_whatever_their_order_and_number() -> None:
    keys = ["retention.ms", "no.such.key", "retention.ms", "flush.ms"]
    [result] = described(image_with(), resource(2, "pt", keys))
    assert list(values(result)) == ["flush.ms", "retention.ms"]
    [nothing] = described(image_with(), resource(2, "pt", ["no.such.key"]))
    assert values(nothing) == {}


def test_synonyms_come_when_asked_for_and_documentation_never() -> None:
    for include in (False, True):
        [result] = described(image_with(), resource(2, "pt", ["segment.bytes"]), include_synonyms=include)
        assert [synonym.name for synonym in result.configs[0].synonyms] == ["log.segment.bytes"] * include
        assert result.configs[0].documentation is None


def test_a_broker_tells_who_it_is_and_not_what_the_settings_say_of_it() -> None:
    settings = Settings(
        static_configs={"node.id": "9", "listeners": "PLAINTEXT://:1", "broker.rack": "no", "process.roles": "broker"}
    )
    [result] = described(image_with(), resource(4, "1"), context=context_with(settings))
    reported = values(result)
    assert (reported["node.id"], reported["broker.id"], reported["broker.rack"]) == ("1", "1", "r1")
    assert reported["listeners"] == reported["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9092"
    assert reported["listener.security.protocol.map"] == "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
    assert (reported["inter.broker.listener.name"], reported["controller.listener.names"]) == (
        "PLAINTEXT",
        "CONTROLLER",
    )
    [without_rack] = described(image_with(rack=None), resource(4, "1"), context=context_with(settings))
    assert values(without_rack)["broker.rack"] is None


def test_a_listener_on_ipv6_has_its_address_in_brackets() -> None:
    image = MetadataImage()
    end_points = [
        BrokerEndpoint(name="INSIDE", host="::1", port=9092, security_protocol=3),
        BrokerEndpoint(name="OUTSIDE", host="localhost", port=9093, security_protocol=77),
    ]
    replay(image, [RegisterBrokerRecord(broker_id=1, end_points=end_points)], 0)
    reported = values(described(image, resource(4, "1"))[0])
    assert reported["listeners"] == "INSIDE://[::1]:9092,OUTSIDE://localhost:9093"
    assert reported["listener.security.protocol.map"] == "CONTROLLER:PLAINTEXT,INSIDE:SASL_SSL,OUTSIDE:PLAINTEXT"


def test_each_broker_counts_its_own_dynamic_and_static_configs() -> None:
    settings = Settings(broker_static_configs={3: {"auto.create.topics.enable": "false"}})
    image = image_with([(4, "3", {"log.retention.ms": "5"}), (4, "", {"log.retention.ms": "6"})])
    for broker_id, retention, creation in ((1, "6", "true"), (3, "5", "false")):
        context = context_with(settings, broker_id)
        [broker, topic] = described(image, resource(4, str(broker_id)), resource(2, "pt"), context=context)
        assert values(broker)["log.retention.ms"] == values(topic)["retention.ms"] == retention
        assert values(broker)["auto.create.topics.enable"] == creation


def test_the_controller_answers_for_topics_cluster_wide_and_for_itself() -> None:
    """On the controller's listener the request goes to no broker, not even to broker 1."""
    image = image_with(
        [(2, "pt", {"flush.ms": "5"}), (4, "1", {"log.retention.ms": "7"}), (4, "", {"log.roll.ms": "8"})]
    )
    context = context_with(broker_id=None)
    [topic, default, broker, logger, own] = described(
        image,
        resource(2, "pt", ["flush.ms", "retention.ms", "segment.ms"]),
        resource(4, ""),
        resource(4, "1"),
        resource(8, "1"),
        resource(4, str(CONTROLLER_ID), ["node.id", "process.roles", "listeners", "log.roll.ms"]),
        context=context,
    )
    assert values(topic) == {"flush.ms": "5", "retention.ms": "604800000", "segment.ms": "8"}
    assert values(default) == {"log.roll.ms": "8"}
    assert refusal(broker) == (
        ErrorCode.INVALID_REQUEST,
        "Unexpected broker id, expected 3000 or empty string, but received 1",
    )
    assert refusal(logger) == (ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 3000 but received 1")
    assert values(own) == {
        "listeners": "PLAINTEXT://:9092",
        "log.roll.ms": "8",
        "node.id": "3000",
        "process.roles": "controller",
    }


def test_passwords_are_never_told() -> None:
    settings = Settings(static_configs={"ssl.key.password": "hush-hush"})
    image = image_with([(4, "", {"ssl.keystore.password": "hush-hush", "unknown.to.us": "hush-hush"})])
    results = described(image, resource(4, "1"), resource(4, ""), context=context_with(settings), include_synonyms=True)
    assert "hush-hush" not in repr(results)


def test_an_answer_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_configs, "MAX_CONFIGS_PER_RESPONSE", BROKER_CONFIGS + 33)
    results = described(image_with(), *(resource(kind, name) for kind, name in ((4, "1"), (2, "pt"), (2, "pt"))))
    assert [len(result.configs) for result in results] == [BROKER_CONFIGS, 33, 0]
    assert results[2].error_code == ErrorCode.INVALID_REQUEST


def test_a_name_that_a_string_can_hardly_hold_is_refused_in_a_string() -> None:
    for kind in (4, 8):
        [result] = described(image_with(), resource(kind, "9" * 32_767))
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert len((result.error_message or "").encode()) < 32_767


names = st.one_of(st.sampled_from(["", "1", "pt", "2", "+01", "x" * 300]), st.text(max_size=5))
keys = st.one_of(st.none(), st.lists(st.sampled_from([*sorted(broker_definitions())[:5], "retention.ms", "x"])))
resources = st.builds(resource, st.one_of(st.sampled_from([2, 4, 8, 16, 32]), st.integers(-128, 127)), names, keys)


@given(
    st.lists(resources, max_size=4), st.sampled_from(list(API.versions)), st.booleans(), st.sampled_from([None, 1, 5])
)
def test_every_request_is_answered_resource_by_resource(
    asked: list[DescribeConfigsResource], version: int, include_synonyms: bool, broker_id: int | None
) -> None:
    image = image_with([(2, "pt", {"retention.ms": " 5 "}), (16, "pt", {"match": "a=b"}), (32, "1", {"x": "y"})])
    results = described(image, *asked, context=context_with(broker_id=broker_id), include_synonyms=include_synonyms)
    assert [(result.resource_type, result.resource_name) for result in results] == [
        (one.resource_type, one.resource_name) for one in asked
    ]
    encoded = bytes(encode_response(API, version, 7, DescribeConfigsResponse(results=results)))
    correlation_id, decoded = decode_response(API, version, encoded)
    assert correlation_id == 7
    assert [[config.name for config in result.configs] for result in decoded.results] == [
        [config.name for config in result.configs] for result in results
    ]
