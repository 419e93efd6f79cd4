"""Joins a controller and the brokers of its process: each is given what it needs of the other."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.data.kept import Kept
from klamm.broker.data.record_file import RecordFile
from klamm.broker.dispatch import handlers_with
from klamm.controller.core import Controller
from klamm.controller.metadata.partition import LogKey
from klamm.controller.metadata_log import MetadataLog
from klamm.controller.settings import Settings
from klamm.protocol.api import Api
from klamm.protocol.codec.requests import encode_response
from klamm.protocol.fields import Message

ControllerT = TypeVar("ControllerT", bound=Controller)
_CORRELATION_ID_BYTES: Final = 4


def assemble(
    controller_class: type[ControllerT],
    settings: Settings,
    log: MetadataLog,
    clock_ms: Callable[[], int],
    log_end_offsets: Mapping[LogKey, int] = MappingProxyType({}),
    kept: Kept | None = None,
    record_file: RecordFile | None = None,
) -> tuple[ControllerT, SimulatedBrokers]:
    """A controller that has replayed `log` and serves all APIs, and the brokers of its process: none yet. Partition
    logs begin empty, at their former end in `log_end_offsets`, those of internal topics as `kept` has them. The
    batches beyond the memory budget go to `record_file`; None: a temporary one. Raises LogError and ReplayError."""
    brokers = SimulatedBrokers(settings, clock_ms, log_end_offsets, kept, record_file)
    controller = controller_class(settings, log, clock_ms, handlers_with(brokers, settings.emulation), brokers)
    brokers.controller, brokers.body_bytes = controller, _body_bytes
    brokers.coordinators.metadata_log = log
    controller.subscribe(brokers.topic_changes.follow)
    controller.subscribe(brokers.subscriptions.follow)
    controller.subscribe(brokers.coordinators.follow)
    controller.subscribe(brokers.follow)
    return controller, brokers


def _body_bytes(api: Api[Any, Any], api_version: int, response: Message) -> int:
    # In version 1 of the header, the correlation id is followed by one byte, for tagged fields.
    header_bytes = _CORRELATION_ID_BYTES + api.response_header_version(api_version)
    return len(encode_response(api, api_version, 0, response)) - header_bytes
