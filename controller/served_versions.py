"""Up to which version an API is served: Apache Kafka's newest, and one more of those that KIP-578 raises if asked for.

KIP-578 was never adopted, so its numbers are nobody's: a client may give them another meaning one day. With
`--kip-578-versions` they are told and read, with the schema of the version before.
"""

from typing import Any, Final

from klamm.protocol.api import Api

KIP_578_API_KEYS: Final = frozenset({19, 37, 45})
"""CreateTopics, CreatePartitions and AlterPartitionReassignments."""

_PRODUCE_KEY: Final = 0


def oldest_version_told(api: Api[Any, Any]) -> int:
    """The oldest version of `api` that clients are told. Of Produce that is 0, as Kafka tells it: librdkafka takes a
    broker without it for one that knows no compression. Versions 0 to 2 are not answered all the same."""
    return 0 if api.key == _PRODUCE_KEY else api.versions.start


def newest_version(api: Api[Any, Any], *, kip_578_versions: bool) -> int:
    """The newest version of `api` that is told to clients and answered."""
    return api.latest_stable + (kip_578_versions and api.key in KIP_578_API_KEYS)
