"""The common part of AlterConfigs and IncrementalAlterConfigs: a decision per resource, records, order of results.

As in Kafka there are two checks. The broker that was asked refuses what it does not forward, because it knows its own
configs; the controller checks the rest. On the controller's own listener the broker's checks do not happen, so it
accepts what only a broker would refuse: configs of any registered broker, even with values that a broker cannot use.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Final, NamedTuple, Protocol

from klamm.controller.authorizer import AclOperation
from klamm.controller.configs import (
    ConfigEdit,
    ConfigOperation,
    ResourceType,
    apply_edits,
    decode_node_id,
    invalid_request,
    quoted_node_id,
    resource_types,
    usable_broker_configs,
    validate_broker_configs,
    validate_broker_edits,
)
from klamm.controller.context import RequestContext
from klamm.controller.handlers.configs.access import refuse_unless_authorized
from klamm.controller.handlers.configs.loggers import root_level, validate_logger_edits
from klamm.controller.handlers.configs.node_asked import configs_of_node_asked, own_node_id
from klamm.controller.log_records import Record
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.served_apis import release_of
from klamm.controller.transitions.config_changes import clear_elr_records, plan_config_changes
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.quick_dataclasses import dataclass

MAX_RECORDS_PER_REQUEST: Final = 10_000
"""The same limit as in Kafka, in both profiles. Each changed config is one record."""
MAX_ENTRIES_PER_REQUEST: Final = 2 * MAX_RECORDS_PER_REQUEST
"""A request with more entries is refused before any entry is checked, because other requests wait meanwhile."""

_TOO_MANY: Final = ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
_TWICE: Final = ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
_TWICE_AT_CONTROLLER: Final = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate resource.")
_ALTERABLE: Final = frozenset(
    {ResourceType.TOPIC, ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP}
)


class Alteration(NamedTuple):
    """What a request changes in one resource. The type may be any number."""

    resource_type: int
    resource_name: str
    edits: Sequence[ConfigEdit]
    replaces_all: bool
    """Whether configs that the edits do not name are removed (AlterConfigs)."""

    @property
    def resource(self) -> tuple[int, str]:
        return self.resource_type, self.resource_name


@dataclass(slots=True)
class Altered:
    """The answer in Kafka's order, each resource with what refused it, and what makes it true."""

    results: list[tuple[Alteration, ApiError | None]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    root_log_levels: dict[int, str] = field(default_factory=dict)


class _Resource(Protocol):
    """A resource in a request of either API."""

    resource_type: int
    resource_name: str
    configs: Sequence[Any]


def alter(
    image: MetadataImage,
    context: RequestContext,
    resources: Sequence[_Resource],
    edit_of: Callable[[Any], ConfigEdit],
    *,
    replaces_all: bool,
    validate_only: bool,
) -> Altered:
    """Decide all resources of one request. A refused one leaves no trace; with `validate_only` none does."""
    entries = len(resources) + sum(len(resource.configs) for resource in resources)
    if entries > MAX_ENTRIES_PER_REQUEST:
        text = f"{entries} resources and configs are more than the {MAX_ENTRIES_PER_REQUEST} that a request may name."
        refusal = ApiError(ErrorCode.POLICY_VIOLATION, text)
        return Altered(
            [(Alteration(one.resource_type, one.resource_name, (), replaces_all), refusal) for one in resources]
        )
    alterations = [
        Alteration(one.resource_type, one.resource_name, list(map(edit_of, one.configs)), replaces_all)
        for one in resources
    ]
    asked = _AskedOfBroker if context.requester.listener == "broker" else _AskedOfController
    altered = asked(image, context, alterations).altered()
    return Altered(altered.results) if validate_only else altered


class _Asked:
    """One request while it is decided."""

    def __init__(self, image: MetadataImage, context: RequestContext, alterations: Sequence[Alteration]) -> None:
        self._image = image
        self._context = context
        self._alterations = alterations
        self._times = Counter(alteration.resource for alteration in alterations)
        self._root_log_levels: dict[int, str] = {}
        self._release = release_of(context.served).name
        self._alterable = _ALTERABLE & resource_types(self._release)

    def _decide(self, rest: Sequence[Alteration]) -> tuple[list[ApiError | None], list[Record]]:
        """The controller's decision on each alteration, and the records of those that it accepts."""
        decisions: list[ApiError | None] = []
        records: list[Record] = []
        for alteration in rest:
            changes = self._changes(alteration)
            decisions.append(changes if isinstance(changes, ApiError) else None)
            records += [] if isinstance(changes, ApiError) else changes
            if len(records) > MAX_RECORDS_PER_REQUEST:
                return [_TOO_MANY] * len(rest), []
        records += clear_elr_records(self._image, records)
        if len(records) > MAX_RECORDS_PER_REQUEST:
            return [_TOO_MANY] * len(rest), []
        return decisions, records

    def _changes(self, alteration: Alteration) -> list[Record] | ApiError:
        resource_type, resource_name, edits, replaces_all = alteration
        refusal = refuse_unless_authorized(self._context, AclOperation.ALTER_CONFIGS, resource_type, resource_name)
        if refusal:
            return refusal
        changes = apply_edits(resource_type, self._image.config(resource_type, resource_name), edits)
        if isinstance(changes, ApiError):
            return changes
        return plan_config_changes(
            self._image, self._context, resource_type, resource_name, changes, replace_all=replaces_all
        )

    def _alter_logger(self, alteration: Alteration) -> ApiError | None:
        """Levels of loggers are not in the metadata log: the node that was asked changes them itself."""
        own = own_node_id(self._context)
        denied = refuse_unless_authorized(
            self._context, AclOperation.ALTER_CONFIGS, alteration.resource_type, alteration.resource_name
        )
        if denied:
            return ApiError(denied.code)  # loggers are the only resources whose refusal has no text (recorded)
        refusal = _refuse_unless_own(alteration.resource_name, own, "Unexpected node id. Expected")
        refusal = refusal or validate_logger_edits(alteration.edits)
        level = root_level(alteration.edits)
        if refusal is None and level is not None:
            self._root_log_levels[own] = level
        return refusal


class _AskedOfBroker(_Asked):
    def altered(self) -> Altered:
        """Results in request order."""
        early = [self._refused_early(alteration) for alteration in self._alterations]
        passed_on = [
            alteration
            for alteration, refusal in zip(self._alterations, early, strict=True)
            if refusal is None and alteration.resource_type in self._alterable
        ]
        decisions, records = self._decide(passed_on)
        late = iter(decisions)
        results = [
            (alteration, next(late) if refusal is None and alteration.resource_type in self._alterable else refusal)
            for alteration, refusal in zip(self._alterations, early, strict=True)
        ]
        return Altered(results, records, self._root_log_levels)

    def _refused_early(self, alteration: Alteration) -> ApiError | None:
        if self._times[alteration.resource] > 1:
            return _TWICE
        edits = alteration.edits
        if len({edit.name for edit in edits}) < len(edits):
            return invalid_request("Error due to duplicate config keys")
        nulls = [edit.name for edit in edits if edit.value is None and edit.operation != ConfigOperation.DELETE]
        if nulls:
            return invalid_request(f"Null value not supported for : {', '.join(nulls)}")
        if alteration.resource_type == ResourceType.BROKER_LOGGER and not alteration.replaces_all:
            return self._alter_logger(alteration)
        if alteration.resource_type not in self._alterable:
            return invalid_request(f"Unknown resource type {alteration.resource_type}")
        return self._refused_by_own_configs(alteration) if alteration.resource_type == ResourceType.BROKER else None

    def _refused_by_own_configs(self, alteration: Alteration) -> ApiError | None:
        name, own, release = alteration.resource_name, own_node_id(self._context), self._release
        refusal = (_refuse_unless_own(name, own, "Unexpected broker id, expected") if name else None) or (
            validate_broker_edits(alteration.edits, release)
        )
        if refusal:
            return refusal
        current = self._image.config(ResourceType.BROKER, name)
        changes = apply_edits(ResourceType.BROKER, current, alteration.edits)
        if isinstance(changes, ApiError):
            return changes
        configs = {} if alteration.replaces_all else usable_broker_configs(current, release, for_one_broker=bool(name))
        configs |= {key: value for key, value in changes.items() if value is not None}
        for key, value in changes.items():
            if value is None:
                configs.pop(key, None)
        return validate_broker_configs(
            configs, configs_of_node_asked(self._image, self._context), for_one_broker=bool(name)
        )


class _AskedOfController(_Asked):
    def altered(self) -> Altered:
        """Results that need no decision of the controller first, of loggers last; a resource named twice has one
        result."""
        first: dict[tuple[int, str], tuple[Alteration, ApiError | None]] = {}
        rest, last = [], []
        for alteration in self._alterations:
            is_logger = alteration.resource_type == ResourceType.BROKER_LOGGER and not alteration.replaces_all
            refusal = self._refused_early(alteration)
            if is_logger:
                last.append((alteration, self._alter_logger(alteration)))
            elif refusal:
                first.setdefault(alteration.resource, (alteration, refusal))
            else:
                rest.append(alteration)
        decisions, records = self._decide(rest)
        results = [*first.values(), *zip(rest, decisions, strict=True), *last]
        return Altered(results, records, self._root_log_levels)

    def _refused_early(self, alteration: Alteration) -> ApiError | None:
        if alteration.resource_type == ResourceType.BROKER_LOGGER:
            return invalid_request("Unexpected resource type BROKER_LOGGER.")
        if alteration.resource_type not in self._alterable:
            text = f"Unknown resource type {alteration.resource_type}."
            return ApiError(ErrorCode.UNSUPPORTED_VERSION, text)
        return _TWICE_AT_CONTROLLER if self._times[alteration.resource] > 1 else None


def _refuse_unless_own(name: str, own: int, expected: str) -> ApiError | None:
    """A node alters its own configs and loggers only: refuse if `name` is another node."""
    asked = decode_node_id(name)
    if asked is None:
        return invalid_request(f"Node id must be an integer, but it is: {quoted_node_id(name)}")
    return None if asked == own else invalid_request(f"{expected} {own}, but received {name}")
