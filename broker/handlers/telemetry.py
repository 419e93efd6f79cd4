"""GetTelemetrySubscriptions (71) and PushTelemetry (72), KIP-714. Order of the checks: ClientMetricsManager.

They are answered always. With `--client-telemetry` they are listed in ApiVersions, and what clients push is read and
kept, as by a receiver plugin of Kafka; without it, pushes are not read. Neither needs a right.
"""

from collections.abc import Mapping
from typing import Any, Final

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.telemetry.collected import CollectedMetrics, PushingClient
from klamm.broker.telemetry.instances import ClientInstance, ClientInstances
from klamm.broker.telemetry.otlp import InvalidMetrics, Point, read_points
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Effect, Outcome
from klamm.controller.steps import Steps
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.cluster.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from klamm.protocol.messages.cluster.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from klamm.protocol.uuid import ZERO_UUID, Uuid
from klamm.quick_dataclasses import dataclass

UNCOMPRESSED: Final = 0
ACCEPTED_COMPRESSION: Final = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy: what clients shall prefer, first."""
MAX_UNPACKED_BYTES: Final = 4 * 1024 * 1024
_RESERVED: Final = frozenset({ZERO_UUID, Uuid(bytes(15) + b"\1"), Uuid(b"\xff" * 16)})


def handle_get_telemetry_subscriptions(
    brokers: SimulatedBrokers, image: MetadataImage, request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> Outcome:
    """What the client shall push, and how often; once in a push interval."""
    client_instance_id = request.client_instance_id
    if client_instance_id == ZERO_UUID:
        client_instance_id = brokers.controller.new_uuid_outside_the_log()
    instances = brokers.client_instances(context.requester.asked_broker_id)
    known = _instance(brokers, image, instances, client_instance_id, context)
    asked = known.asked(context.now_ms)
    keep = _Keep(instances, client_instance_id, asked or known)
    if asked is None:
        return Outcome(
            GetTelemetrySubscriptionsResponse(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED), effects=[keep]
        )
    subscribed = asked.subscribed
    response = GetTelemetrySubscriptionsResponse(
        client_instance_id=client_instance_id,
        subscription_id=subscribed.subscription_id,
        accepted_compression_types=ACCEPTED_COMPRESSION,
        push_interval_ms=subscribed.push_interval_ms,
        telemetry_max_bytes=_max_bytes(context),
        delta_temporality=True,
        requested_metrics=subscribed.metrics,
    )
    return Outcome(response, effects=[keep])


def handle_push_telemetry(
    brokers: SimulatedBrokers, image: MetadataImage, request: PushTelemetryRequest, context: RequestContext
) -> Steps:
    """Whether the metrics were accepted; refused ones count as a push, too."""
    client_instance_id = request.client_instance_id
    if client_instance_id in _RESERVED:
        return Outcome(PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST))
    instances = brokers.client_instances(context.requester.asked_broker_id)
    known = _instance(brokers, image, instances, client_instance_id, context)
    pushed, code = known.pushed(context.now_ms, request.subscription_id, terminating=request.terminating)
    effects: list[Effect] = [_Keep(instances, client_instance_id, pushed)]
    code = code or _fault_of_content(request, context)
    if not code and request.metrics and brokers.collected_metrics is not None:
        points: list[Point] = []
        try:
            for point in read_points(_unpacked(request)):
                points.append(point)
                if len(points) % context.at_once == 0:
                    yield
        except InvalidMetrics:
            code = ErrorCode.INVALID_RECORD
        else:
            effects.append(_Collect(brokers.collected_metrics, _pusher(request, context), points))
    return Outcome(PushTelemetryResponse(error_code=code), effects=effects)


def _instance(
    brokers: SimulatedBrokers,
    image: MetadataImage,
    instances: ClientInstances,
    client_instance_id: Uuid,
    context: RequestContext,
) -> ClientInstance:
    """The instance as it is known, or a new one; also a new one if subscriptions have changed since."""
    known = instances.find(client_instance_id, context.now_ms, brokers.subscriptions.version)
    if known is not None:
        return known
    client = _properties(client_instance_id, context)
    return ClientInstance(brokers.subscriptions.of_client(image, client_instance_id, client))


def _properties(client_instance_id: Uuid, context: RequestContext) -> Mapping[str, str]:
    """What the patterns of subscriptions match."""
    requester, client = context.requester, context.requester.client
    return {
        "client_instance_id": str(client_instance_id),
        "client_id": requester.client_id or "",
        "client_software_name": (client and client.software_name) or "unknown",
        "client_software_version": (client and client.software_version) or "unknown",
        "client_source_address": requester.host,
        "client_source_port": str(client.port if client else 0),
    }


def _fault_of_content(request: PushTelemetryRequest, context: RequestContext) -> ErrorCode:
    if request.compression_type not in (UNCOMPRESSED, *ACCEPTED_COMPRESSION):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return ErrorCode.TELEMETRY_TOO_LARGE if len(request.metrics) > _max_bytes(context) else ErrorCode.NONE


def _max_bytes(context: RequestContext) -> int:
    return context.settings.static_int("telemetry.max.bytes", context.requester.asked_broker_id)


def _unpacked(request: PushTelemetryRequest) -> bytes:
    # Imported here, because most clusters get no metrics.
    from klamm.broker.data.codecs import DamagedPayload, PayloadTooLarge, unpack

    try:
        return unpack(request.compression_type, bytes(request.metrics), MAX_UNPACKED_BYTES)
    except (DamagedPayload, PayloadTooLarge) as error:
        raise InvalidMetrics from error


def _pusher(request: PushTelemetryRequest, context: RequestContext) -> PushingClient:
    requester, client = context.requester, context.requester.client
    return PushingClient(
        client_instance_id=request.client_instance_id,
        broker_id=requester.asked_broker_id or 0,
        client_id=(requester.client_id or "")[:256],
        software_name=(client and client.software_name) or "",
        software_version=(client and client.software_version) or "",
        host=requester.host,
        pushed_ms=context.now_ms,
        is_terminated=request.terminating,
    )


@dataclass(frozen=True, slots=True)
class _Keep:
    """Keeps an instance as it is after its request."""

    instances: ClientInstances
    client_instance_id: Uuid
    instance: ClientInstance

    def apply(self, _soft: Any, now_ms: int) -> None:
        self.instances.put(self.client_instance_id, self.instance, now_ms)


@dataclass(frozen=True, slots=True)
class _Collect:
    """Keeps the metrics of a push."""

    collected: CollectedMetrics
    push: PushingClient
    points: list[Point]

    def apply(self, _soft: Any, _now_ms: int) -> None:
        self.collected.add(self.push, self.points)
