"""The features of a 4.3 cluster: the levels that are supported, and those of a new metadata log.

Levels and names: golden/broker-join section 5. The metadata.version record must be the first one of a log, because
Kafka's readers need it to decode the others.
"""

from klamm.controller.feature_names import ELIGIBLE_LEADER_REPLICAS_VERSION, KRAFT_VERSION, METADATA_VERSION
from klamm.controller.log_records import Record
from klamm.controller.metadata.image import BROKER_RESOURCE, MetadataImage
from klamm.controller.metadata.replay import ReplayError
from klamm.controller.releases import CURRENT
from klamm.controller.settings import Settings
from klamm.protocol.records.cluster import FeatureLevelRecord
from klamm.protocol.records.configs import ConfigRecord

SUPPORTED_FEATURES = dict(sorted(CURRENT.features.items()))
BOOTSTRAP_LEVELS = {
    METADATA_VERSION: 30,
    ELIGIBLE_LEADER_REPLICAS_VERSION: 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}


def finalized_levels(image: MetadataImage, *, is_dynamic: bool) -> dict[str, int]:
    """The levels above 0, by feature. `is_dynamic`: that of kraft.version is 1, which no FeatureLevelRecord says."""
    return {KRAFT_VERSION: 1, **image.features} if is_dynamic else image.features


def bootstrap_records(settings: Settings) -> list[Record]:
    """The first records of a new cluster."""
    records: list[Record] = [
        FeatureLevelRecord(name=name, feature_level=level) for name, level in BOOTSTRAP_LEVELS.items()
    ]
    min_isr = str(settings.static_int("min.insync.replicas"))
    # With eligible leader replicas, the minimum ISR is a setting of the cluster and not of each broker (KIP-966).
    records.append(
        ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name="min.insync.replicas", value=min_isr)
    )
    return records


def refuse_other_metadata_version(image: MetadataImage) -> None:
    """Raise ReplayError if the log has a metadata.version other than the one that Klamm writes records in.

    Apache Kafka supports every version since 3.3 and writes the records of that version; its tools can raise the
    version.
    """
    level, written = image.features.get(METADATA_VERSION), BOOTSTRAP_LEVELS[METADATA_VERSION]
    if level != written:
        raise ReplayError(
            f"the metadata log is at {METADATA_VERSION} {level}, and Klamm goes on with {written} alone: have Apache "
            f"Kafka 4.3 start on it and raise the level (kafka-features.sh upgrade --metadata 4.3), or begin anew"
        )
