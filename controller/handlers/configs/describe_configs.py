"""DescribeConfigs (32): the configs of topics, brokers, groups and client metrics subscriptions, each with its source.

A broker answers for itself and for the cluster-wide defaults only; on the controller's listener the controller does.
One unknown resource type spoils the whole request; any other fault only its own resource. Broker loggers are a
resource of the real thing's logging library: there are none here, so their list is empty. Order of checks and texts:
Apache Kafka 4.3 as recorded. Not told: documentation, which is the text of Kafka's manual.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from controller.configs import (
    BrokerConfigs,
    ConfigEntry,
    ResourceType,
    broker_configs,
    effective_broker_configs,
    effective_client_metrics_configs,
    effective_cluster_configs,
    effective_group_configs,
    effective_topic_configs,
)
from controller.metadata.broker import EndPoint
from controller.metadata.image import MetadataImage
from controller.outcome import Outcome, RequestContext
from controller.settings import IDENTITY_CONFIGS
from controller.transitions.topic_names import validate_topic_name
from protocol.errors import ApiError, ErrorCode
from protocol.messages.configs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

# A resource of seven bytes is answered with up to 340 configs: this keeps a small request from a huge answer. It is
# enough for all configs of 10,000 topics at once, which take about a second.
MAX_CONFIGS_PER_RESPONSE: Final = 400_000
# A name that long is no number; it is quoted, and with the text around it a string of the protocol has to hold it.
MAX_BROKER_ID_CHARACTERS: Final = 1000
_TOO_MANY: Final = f"One answer holds at most {MAX_CONFIGS_PER_RESPONSE} configs; ask for fewer resources at a time."
_MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
_RESOURCE_TYPES: Final = frozenset(map(int, ResourceType))
_INTEGER: Final = re.compile(r"[+-]?0*\d{1,10}")
_SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_CONTROLLER_LISTENER: Final = "CONTROLLER"

Entries = list[ConfigEntry] | ApiError


def handle_describe_configs(image: MetadataImage, request: DescribeConfigsRequest, context: RequestContext) -> Outcome:
    """One result per resource, in request order; a resource named twice is answered twice."""
    if any(resource.resource_type not in _RESOURCE_TYPES for resource in request.resources):
        refusal = ApiError(ErrorCode.INVALID_REQUEST, _MALFORMED)
        return Outcome(DescribeConfigsResponse(results=[_refused(resource, refusal) for resource in request.resources]))
    results = []
    left = MAX_CONFIGS_PER_RESPONSE
    shown = _Shown(include_synonyms=request.include_synonyms)
    for resource in request.resources:
        entries = _entries(image, resource, context) if left > 0 else ApiError(ErrorCode.INVALID_REQUEST, _TOO_MANY)
        if isinstance(entries, ApiError):
            results.append(_refused(resource, entries))
            continue
        keys = set(resource.configuration_keys or ())
        asked = [entry for entry in entries if entry.name in keys] if keys else entries
        left -= max(1, len(asked))
        results.append(
            DescribeConfigsResult(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=shown.messages(asked),
            )
        )
    return Outcome(DescribeConfigsResponse(results=results))


def _entries(image: MetadataImage, resource: DescribeConfigsResource, context: RequestContext) -> Entries:
    name = resource.resource_name
    match ResourceType(resource.resource_type):
        case ResourceType.TOPIC:
            return _topic_entries(image, name, context)
        case ResourceType.BROKER:
            return _broker_entries(image, name, context)
        case ResourceType.BROKER_LOGGER:
            return _logger_entries(name, context)
        case ResourceType.CLIENT_METRICS:
            if not name:
                return ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            return effective_client_metrics_configs(image.config(ResourceType.CLIENT_METRICS, name))
        case ResourceType.GROUP:
            if not name:
                return ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return effective_group_configs(_inherited(image, context), image.config(ResourceType.GROUP, name))


def _inherited(image: MetadataImage, context: RequestContext) -> BrokerConfigs:
    return broker_configs(image.configs, context.settings, context.broker_id)


def _topic_entries(image: MetadataImage, topic_name: str, context: RequestContext) -> Entries:
    refusal = validate_topic_name(topic_name)
    if refusal:
        return refusal
    if topic_name not in image.topics_by_name:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return effective_topic_configs(_inherited(image, context), image.config(ResourceType.TOPIC, topic_name))


def _broker_entries(image: MetadataImage, name: str, context: RequestContext) -> Entries:
    if not name:
        return effective_cluster_configs(_inherited(image, context))
    asked, own = _broker_id(name), _own_id(context)
    if isinstance(asked, ApiError):
        return asked
    if asked != own:
        expected = f"expected {own} or empty string, but received {name}"
        return ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, {expected}")
    configs = broker_configs(image.configs, context.settings, own)
    return effective_broker_configs(replace(configs, static=_with_identity(image, dict(configs.static), context)))


def _logger_entries(name: str, context: RequestContext) -> Entries:
    if not name:
        return ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    asked, own = _broker_id(name), _own_id(context)
    if isinstance(asked, ApiError):
        return asked
    if asked != own:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {own} but received {name}")
    return []


def _own_id(context: RequestContext) -> int:
    return context.cluster.controller_id if context.broker_id is None else context.broker_id


def _broker_id(name: str) -> int | ApiError:
    """The number that a resource is called, as Java reads an int: signs and leading zeros are fine, blanks are not."""
    if len(name) <= MAX_BROKER_ID_CHARACTERS and _INTEGER.fullmatch(name) and max(name) <= "\uffff":
        number = int(name)
        if -(2**31) <= number < 2**31:
            return number
    quoted = name if len(name) <= MAX_BROKER_ID_CHARACTERS else f"{name[:MAX_BROKER_ID_CHARACTERS]}…"
    return ApiError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {quoted}")


def _with_identity(
    image: MetadataImage, static: dict[str, str], context: RequestContext
) -> tuple[tuple[str, str], ...]:
    """Static configs of the node asked: what its server.properties would have to say for it to be what it is."""
    own = _own_id(context)
    broker = image.brokers.get(own) if context.broker_id is not None else None
    end_points = broker.end_points if broker else ()
    configs = {"controller.listener.names": _CONTROLLER_LISTENER}
    configs["process.roles"] = "controller" if context.broker_id is None else "broker"
    if end_points:
        configs["inter.broker.listener.name"] = end_points[0].name
        configs["listener.security.protocol.map"] = _protocol_map(end_points)
    configs |= {name: value for name, value in static.items() if name not in IDENTITY_CONFIGS}
    # Kafka sets the old name of the id along with the new one.
    configs["node.id"] = configs["broker.id"] = str(own)
    if end_points:
        configs["listeners"] = configs["advertised.listeners"] = ",".join(map(_url, end_points))
    if broker and broker.rack is not None:
        configs["broker.rack"] = broker.rack
    return tuple(configs.items())


def _protocol_map(end_points: Iterable[EndPoint]) -> str:
    protocols = {_CONTROLLER_LISTENER: 0} | {point.name: point.security_protocol for point in end_points}
    known = range(len(_SECURITY_PROTOCOLS))
    return ",".join(
        f"{name}:{_SECURITY_PROTOCOLS[number if number in known else 0]}" for name, number in protocols.items()
    )


def _url(end_point: EndPoint) -> str:
    host = f"[{end_point.host}]" if ":" in end_point.host else end_point.host
    return f"{end_point.name}://{host}:{end_point.port}"


def _refused(resource: DescribeConfigsResource, refusal: ApiError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=refusal.code,
        error_message=refusal.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


class _Shown:
    """Entries as messages. Topics that set nothing share their entries: each is turned into a message once."""

    def __init__(self, *, include_synonyms: bool) -> None:
        self._include_synonyms = include_synonyms
        self._messages: dict[ConfigEntry, DescribeConfigsResourceResult] = {}

    def messages(self, entries: Sequence[ConfigEntry]) -> list[DescribeConfigsResourceResult]:
        return [self._messages.get(entry) or self._message(entry) for entry in entries]

    def _message(self, entry: ConfigEntry) -> DescribeConfigsResourceResult:
        message = self._messages[entry] = DescribeConfigsResourceResult(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
            synonyms=[
                DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
                for synonym in (entry.synonyms if self._include_synonyms else ())
            ],
            config_type=entry.config_type,
            documentation=None,
        )
        return message
