"""DescribeConfigs (32): the configs of topics, brokers, groups and client metrics subscriptions, each with its source.

A broker describes itself and the cluster-wide defaults only; on the controller's listener the controller describes
itself. An unknown resource type fails the whole request, any other error only its resource. Each broker has one logger.
Order of checks and texts: Apache Kafka 4.3 as recorded. The field `documentation` stays null, because its text is that
of Kafka's manual.
"""

from collections.abc import Sequence
from typing import Final

from klamm.controller.authorizer import AclOperation
from klamm.controller.configs import (
    BrokerConfigs,
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    ResourceType,
    broker_configs,
    decode_node_id,
    effective_broker_configs,
    effective_client_metrics_configs,
    effective_cluster_configs,
    effective_group_configs,
    effective_topic_configs,
    quoted_node_id,
    resource_types,
)
from klamm.controller.context import RequestContext
from klamm.controller.handlers.configs.access import refuse_unless_authorized
from klamm.controller.handlers.configs.loggers import DEFAULT_LEVEL, logger_entry
from klamm.controller.handlers.configs.node_asked import configs_of_node_asked, own_node_id
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.served_apis import release_of
from klamm.controller.transitions.topic_names import validate_topic_name
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.configs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

# Seven bytes of a request can ask for up to 340 configs, so this bounds the answer to a small request. The limit is
# enough for all configs of 10,000 topics at once, which take about a second.
MAX_CONFIGS_PER_RESPONSE: Final = 400_000
MAX_BYTES_PER_RESPONSE: Final = 64 * 1024 * 1024
"""The configs of one answer take at most this much: a topic with long values may be named very often."""
_TOO_LARGE: Final = (
    f"The configs of one answer take at most {MAX_BYTES_PER_RESPONSE} bytes; ask for fewer resources at a time."
)
_TOO_MANY: Final = f"One answer holds at most {MAX_CONFIGS_PER_RESPONSE} configs; ask for fewer resources at a time."
_MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
BYTES_OF_ENTRY: Final = 12
"""A config in the response without its name and value."""

FIRST_WITH_DEFAULTS_OF_METRICS: Final = (4, 1)
"""Releases before it list only the configs of client metrics subscriptions that are set."""

Entries = list[ConfigEntry] | ApiError


def handle_describe_configs(image: MetadataImage, request: DescribeConfigsRequest, context: RequestContext) -> Outcome:
    """One result per resource, in request order; a resource named twice is answered twice."""
    known = resource_types(release_of(context.served).name)
    if any(resource.resource_type not in known for resource in request.resources):
        refusal = ApiError(ErrorCode.INVALID_REQUEST, _MALFORMED)
        return Outcome(DescribeConfigsResponse(results=[_refused(resource, refusal) for resource in request.resources]))
    results = []
    left, left_bytes = MAX_CONFIGS_PER_RESPONSE, MAX_BYTES_PER_RESPONSE
    shown = _Shown(include_synonyms=request.include_synonyms, tells_source=context.api_version > 0)
    for resource in request.resources:
        entries = _entries(image, resource, context) if left > 0 else ApiError(ErrorCode.INVALID_REQUEST, _TOO_MANY)
        if isinstance(entries, ApiError):
            results.append(_refused(resource, entries))
            continue
        keys = set(resource.configuration_keys or ())
        asked = [entry for entry in entries if entry.name in keys] if keys else entries
        left -= max(1, len(asked))
        left_bytes -= sum(shown.encoded_bytes(entry) for entry in asked)
        if left_bytes < 0:
            results.append(_refused(resource, ApiError(ErrorCode.INVALID_REQUEST, _TOO_LARGE)))
            continue
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
    refusal = refuse_unless_authorized(context, AclOperation.DESCRIBE_CONFIGS, resource.resource_type, name)
    if refusal:
        return refusal
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
            only_set = release_of(context.served).numbers < FIRST_WITH_DEFAULTS_OF_METRICS
            return effective_client_metrics_configs(image.config(ResourceType.CLIENT_METRICS, name), only_set=only_set)
        case ResourceType.GROUP:
            if not name:
                return ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return effective_group_configs(_inherited(image, context), image.config(ResourceType.GROUP, name))


def _inherited(image: MetadataImage, context: RequestContext) -> BrokerConfigs:
    release = release_of(context.served).name
    return broker_configs(image.configs, context.settings, context.requester.asked_broker_id, release)


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
    asked, own = _broker_id(name), own_node_id(context)
    if isinstance(asked, ApiError):
        return asked
    if asked != own:
        expected = f"expected {own} or empty string, but received {name}"
        return ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, {expected}")
    return effective_broker_configs(configs_of_node_asked(image, context))


def _logger_entries(name: str, context: RequestContext) -> Entries:
    if not name:
        return ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    asked, own = _broker_id(name), own_node_id(context)
    if isinstance(asked, ApiError):
        return asked
    if asked != own:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {own} but received {name}")
    return [logger_entry(context.root_log_level(own) or DEFAULT_LEVEL)]


def _broker_id(name: str) -> int | ApiError:
    number = decode_node_id(name)
    if number is not None:
        return number
    return ApiError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {quoted_node_id(name)}")


def _refused(resource: DescribeConfigsResource, refusal: ApiError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=refusal.code,
        error_message=refusal.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


class _Shown:
    """Makes messages of config entries. Topics without configs of their own share theirs, so each is made once."""

    def __init__(self, *, include_synonyms: bool, tells_source: bool) -> None:
        self._tells_source = tells_source
        self._include_synonyms = include_synonyms
        self._messages: dict[ConfigEntry, DescribeConfigsResourceResult] = {}
        self._sizes: dict[ConfigEntry, int] = {}

    def encoded_bytes(self, entry: ConfigEntry) -> int:
        """About the bytes of the entry in the response."""
        size = self._sizes.get(entry)
        if size is None:
            size = _encoded_bytes(entry)
            if self._include_synonyms:
                size += sum(map(_encoded_bytes, entry.synonyms))
            self._sizes[entry] = size
        return size

    def messages(self, entries: Sequence[ConfigEntry]) -> list[DescribeConfigsResourceResult]:
        return [self._messages.get(entry) or self._message(entry) for entry in entries]

    def _message(self, entry: ConfigEntry) -> DescribeConfigsResourceResult:
        message = self._messages[entry] = DescribeConfigsResourceResult(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_default=not self._tells_source and entry.source == ConfigSource.DEFAULT,
            is_sensitive=entry.sensitive,
            synonyms=[
                DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
                for synonym in (entry.synonyms if self._include_synonyms else ())
            ],
            config_type=entry.config_type,
            documentation=None,
        )
        return message


def _encoded_bytes(entry: ConfigEntry | ConfigSynonym) -> int:
    return BYTES_OF_ENTRY + len(entry.name.encode()) + len((entry.value or "").encode())
