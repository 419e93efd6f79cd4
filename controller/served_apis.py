"""The APIs and versions that are served, for each listener, broker and client, as one value (decision 11).

A `ServedApis` is called once for each request. The `ApiTable` that it returns is used by ApiVersions, by the decoder,
and to refuse requests. Other behaviour is another value: one has the versions of KIP-578, and others those of former
releases (`klamm.controller.releases`), for all clients or for some.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from fnmatch import translate
from typing import Any, Final, Protocol, get_args

from klamm.controller.client import Client
from klamm.controller.releases import CURRENT, NO_EMULATION, Emulation, Release
from klamm.controller.settings import Settings
from klamm.protocol.api import Api, Listener
from klamm.protocol.served import ApiTable, ServedApi, declared
from klamm.quick_dataclasses import dataclass

KIP_578_API_KEYS: Final = frozenset({19, 37, 45})
"""CreateTopics, CreatePartitions and AlterPartitionReassignments: KIP-578 gives each one more version. Kafka never
adopted it, so a later release may use these numbers differently; Klamm serves them only if configured."""

TELEMETRY_API_KEYS: Final = frozenset({71, 72})
"""GetTelemetrySubscriptions and PushTelemetry: as in Kafka, clients learn of them only if their metrics are read."""

FIRST_KEY_OF_KLAMM: Final = 10_000
"""APIs from this key on are Klamm's own. Emulated releases answer them and do not list them."""
_PRODUCE_KEY: Final = 0


class ServedApis(Protocol):
    """Which APIs are served to whom, in which versions."""

    def to(self, client: Client) -> ApiTable:
        """The APIs that `client` is served on the listener of the broker that it is connected to. Called for each
        request, so the result should exist already."""
        ...


class ReleaseTable(dict[int, ServedApi]):
    """An `ApiTable` of a release."""

    def __init__(self, release: Release, apis: Iterable[ServedApi]) -> None:
        super().__init__((served.api.key, served) for served in apis)
        self.release = release


Tables = Mapping[Listener, ReleaseTable]


@dataclass(frozen=True, slots=True)
class ServedByListener:
    """A `ServedApis` that is the same for all brokers, with other tables for the clients of some listeners, and for
    those of some ids."""

    tables: Tables
    by_listener_name: Mapping[str, Tables] = field(default_factory=dict)
    by_client_id: tuple[tuple["re.Pattern[str]", Tables], ...] = ()
    """The first pattern that matches counts, before listeners."""

    def to(self, client: Client) -> ApiTable:
        if self.by_client_id and client.client_id is not None:
            for pattern, tables in self.by_client_id:
                if pattern.match(client.client_id):
                    return tables[client.listener]
        if self.by_listener_name:
            return self.by_listener_name.get(client.listener_name or "", self.tables)[client.listener]
        return self.tables[client.listener]


def release_of(served: ApiTable) -> Release:
    """The release that a client's table of APIs is of."""
    return served.release if isinstance(served, ReleaseTable) else CURRENT


def kafka_versions(api: Api[Any, Any]) -> ServedApi:
    """The versions in which Apache Kafka 4.3 serves the API: the stable ones.

    Produce is described from version 0 on, as in Kafka, because librdkafka does not compress for a broker without
    version 0. Versions 0 to 2 are not answered nevertheless."""
    answered = api.current_versions
    described = range(answered.stop) if api.key == _PRODUCE_KEY else answered
    return replace(declared(api), described=described, answered=answered)


def release_versions(api: Api[Any, Any], release: Release, listed: range) -> ServedApi:
    """The versions in which a release serves the API, of which it lists `listed`."""
    if release.has_old_versions:
        return replace(declared(api), described=listed, answered=listed)
    described = range(listed.stop) if api.key == _PRODUCE_KEY else listed
    return replace(
        declared(api), described=described, answered=range(max(listed.start, api.removed_before), listed.stop)
    )


def kip_578_versions(served: ServedApi) -> ServedApi:
    """The same APIs, each with one more version if KIP-578 adds one; its schema is that of the version before."""
    if served.api.key not in KIP_578_API_KEYS or not served.described:
        return served
    return replace(
        served,
        described=range(served.described.start, served.described.stop + 1),
        answered=range(served.answered.start, served.answered.stop + 1),
        newest_schema=served.answered[-1],
    )


def capped(served: ServedApi, newest: int | None) -> ServedApi:
    """The same API without the versions behind `newest`; None: with all."""
    if newest is None:
        return served
    return replace(
        served,
        described=range(served.described.start, min(served.described.stop, newest + 1)),
        answered=range(served.answered.start, min(served.answered.stop, newest + 1)),
    )


def serve(
    apis: Iterable[Api[Any, Any]],
    *,
    with_kip_578: bool = False,
    with_telemetry: bool = False,
    emulation: Emulation = NO_EMULATION,
) -> ServedByListener:
    """The `ServedApis` of a cluster that has handlers for `apis`. Each is served on the listeners that it declares, or
    on those where the emulated release has it. Without `with_telemetry`, the APIs of client metrics are answered and
    not described."""
    in_order = sorted(apis, key=lambda api: api.key)

    def offer(served: ServedApi) -> ServedApi:
        key = served.api.key
        served = capped(kip_578_versions(served) if with_kip_578 else served, emulation.max_versions.get(key))
        is_described = with_telemetry or key not in TELEMETRY_API_KEYS
        return served if is_described else replace(served, described=range(0))

    def tables(release: Release) -> Tables:
        return {
            listener: ReleaseTable(release, map(offer, _of_release(in_order, release, listener)))
            for listener in get_args(Listener)
        }

    return ServedByListener(
        tables(emulation.release),
        {name: tables(release) for name, release in emulation.by_listener.items()},
        tuple((re.compile(translate(glob)), tables(release)) for glob, release in emulation.by_client_id.items()),
    )


def served_with(settings: Settings, apis: Iterable[Api[Any, Any]]) -> ServedByListener:
    """The `ServedApis` of a cluster with handlers for `apis`, as its settings say."""
    return serve(
        apis,
        with_kip_578=settings.kip_578_versions,
        with_telemetry=settings.client_telemetry,
        emulation=settings.emulation,
    )


def _of_release(apis: Iterable[Api[Any, Any]], release: Release, listener: Listener) -> Iterator[ServedApi]:
    """The APIs that a release serves on a listener."""
    ranges = release.ranges(listener)
    for api in apis:
        if release is CURRENT:
            if listener in api.listeners and api.kept_versions:
                yield kafka_versions(api)
        elif api.key in ranges:
            yield release_versions(api, release, ranges[api.key])
        elif api.key >= FIRST_KEY_OF_KLAMM and listener in api.listeners:
            yield replace(kafka_versions(api), described=range(0))
