"""The APIs and versions that are served, for each listener, broker and client, as one value (decision 11).

A `ServedApis` is called once for each request. The `ApiTable` that it returns is used by ApiVersions, by the decoder,
and to refuse requests. Other behaviour is another value: one has the versions of KIP-578, and another one could
emulate an older release.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, get_args

from klamm.controller.client import Client
from klamm.protocol.api import Api, Listener
from klamm.protocol.served import ApiTable, ServedApi, declared

KIP_578_API_KEYS: Final = frozenset({19, 37, 45})
"""CreateTopics, CreatePartitions and AlterPartitionReassignments: KIP-578 gives each one more version. Kafka never
adopted it, so a later release may use these numbers differently; Klamm serves them only if configured."""

TELEMETRY_API_KEYS: Final = frozenset({71, 72})
"""GetTelemetrySubscriptions and PushTelemetry: as in Kafka, clients learn of them only if their metrics are read."""

_PRODUCE_KEY: Final = 0


class ServedApis(Protocol):
    """Which APIs are served to whom, in which versions."""

    def to(self, client: Client) -> ApiTable:
        """The APIs that `client` is served on the listener of the broker that it is connected to. Called for each
        request, so the result should exist already."""
        ...


@dataclass(frozen=True, slots=True)
class ServedByListener:
    """A `ServedApis` that is the same for all brokers and clients."""

    tables: Mapping[Listener, ApiTable]

    def to(self, client: Client) -> ApiTable:
        return self.tables[client.listener]


def kafka_versions(api: Api[Any, Any]) -> ServedApi:
    """The versions in which Apache Kafka 4.3 serves the API: the stable ones.

    Produce is described from version 0 on, as in Kafka, because librdkafka does not compress for a broker without
    version 0. Versions 0 to 2 are not answered nevertheless."""
    answered = api.current_versions
    described = range(answered.stop) if api.key == _PRODUCE_KEY else answered
    return replace(declared(api), described=described, answered=answered)


def kip_578_versions(served: ServedApi) -> ServedApi:
    """The same APIs, each with one more version if KIP-578 adds one; its schema is that of the version before."""
    if served.api.key not in KIP_578_API_KEYS:
        return served
    return replace(
        served,
        described=range(served.described.start, served.described.stop + 1),
        answered=range(served.answered.start, served.answered.stop + 1),
        newest_schema=served.answered[-1],
    )


def serve(
    apis: Iterable[Api[Any, Any]], *, with_kip_578: bool = False, with_telemetry: bool = False
) -> ServedByListener:
    """The `ServedApis` of a cluster that has handlers for `apis`. Each is served on the listeners that it declares.
    Without `with_telemetry`, the APIs of client metrics are answered and not described."""

    def offer(api: Api[Any, Any]) -> ServedApi:
        served = kip_578_versions(kafka_versions(api)) if with_kip_578 else kafka_versions(api)
        is_described = with_telemetry or api.key not in TELEMETRY_API_KEYS
        return served if is_described else replace(served, described=range(0))

    in_order = sorted(apis, key=lambda api: api.key)
    return ServedByListener(
        {
            listener: {api.key: offer(api) for api in in_order if listener in api.listeners}
            for listener in get_args(Listener)
        }
    )
