"""What is served: for each listener, broker and client the APIs and their versions, as one value (decision 11).

A `ServedApis` is asked once for each request; the `ApiTable` that it gives is what ApiVersions describes, what the
decoder reads, and what decides whether a request is refused. Another behaviour is another value: the versions that
KIP-578 raises are one, an emulated older release would be another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from klamm.controller.client import Client
from klamm.protocol.api import Api, Listener
from klamm.protocol.served import ApiTable, ServedApi, declared

KIP_578_API_KEYS: Final = frozenset({19, 37, 45})
"""CreateTopics, CreatePartitions and AlterPartitionReassignments: KIP-578 gives each one more version. It was never
adopted, so a later release of Kafka may give these numbers another meaning; they are served only if asked for."""

_PRODUCE_KEY: Final = 0


class ServedApis(Protocol):
    """Which APIs are served to whom, in which versions."""

    def to(self, client: Client) -> ApiTable:
        """The APIs that `client` is served on the listener of the broker that it is connected to. Called for each
        request: the answer is to be made beforehand."""
        ...


@dataclass(frozen=True, slots=True)
class ServedByListener:
    """A `ServedApis` that is the same for all brokers and clients."""

    tables: Mapping[Listener, ApiTable]

    def to(self, client: Client) -> ApiTable:
        return self.tables[client.listener]


def kafka_versions(api: Api[Any, Any]) -> ServedApi:
    """The versions in which Apache Kafka 4.3 serves the API: those that are stable.

    Of Produce, versions from 0 on are described, as Kafka does: librdkafka takes a broker without version 0 for one
    without compression. Versions 0 to 2 are not answered all the same."""
    answered = range(api.versions.start, api.latest_stable + 1)
    described = range(answered.stop) if api.key == _PRODUCE_KEY else answered
    return replace(declared(api), described=described, answered=answered)


def kip_578_versions(served: ServedApi) -> ServedApi:
    """The same, with one more version if KIP-578 raises the API's; its schema is that of the version before."""
    if served.api.key not in KIP_578_API_KEYS:
        return served
    return replace(
        served,
        described=range(served.described.start, served.described.stop + 1),
        answered=range(served.answered.start, served.answered.stop + 1),
        newest_schema=served.answered[-1],
    )
