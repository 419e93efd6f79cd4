"""The features of a 4.3 cluster: the levels that are supported, and those of a new metadata log.

Levels and names: golden/broker-join section 5. The metadata.version record must be the first one of a log, because
Kafka's readers need it to decode the others.
"""

from typing import Final

from klamm.controller.feature_names import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
)
from klamm.controller.log_records import Record
from klamm.controller.metadata.image import BROKER_RESOURCE, MetadataImage
from klamm.controller.metadata.replay import ReplayError
from klamm.controller.releases import CURRENT, FIRST_LEVEL_WITH_ELR, LATEST_LEVEL, METADATA_VERSIONS
from klamm.controller.settings import Settings
from klamm.protocol.records.cluster import FeatureLevelRecord
from klamm.protocol.records.configs import ConfigRecord

SUPPORTED_FEATURES = dict(sorted(CURRENT.features.items()))
_SINCE_LEVELS: Final = {
    ELIGIBLE_LEADER_REPLICAS_VERSION: {FIRST_LEVEL_WITH_ELR: 1},
    GROUP_VERSION: {22: 1},
    SHARE_VERSION: {28: 1},
    STREAMS_VERSION: {29: 1},
    TRANSACTION_VERSION: {24: 2},
}
"""The level of each feature in a new log, from which level of metadata.version on. Kafka turns eligible leader replicas
on from 26 on; Klamm's elections need them."""


def new_metadata_version(settings: Settings) -> int:
    """The level of metadata.version in a new log."""
    if settings.metadata_version is not None:
        return settings.metadata_version
    of_release = settings.emulation.release.metadata_version
    return LATEST_LEVEL if of_release is None or of_release < FIRST_LEVEL_WITH_ELR else of_release


def bootstrap_levels(metadata_version: int) -> dict[str, int]:
    """The levels above 0 of a new log, that of metadata.version first."""
    levels = {
        name: max((level for since, level in sinces.items() if since <= metadata_version), default=0)
        for name, sinces in _SINCE_LEVELS.items()
    }
    return {METADATA_VERSION: metadata_version, **{name: level for name, level in levels.items() if level}}


def finalized_levels(image: MetadataImage, *, is_dynamic: bool) -> dict[str, int]:
    """The levels above 0, by feature. `is_dynamic`: that of kraft.version is 1, which no FeatureLevelRecord says."""
    return {KRAFT_VERSION: 1, **image.features} if is_dynamic else image.features


def bootstrap_records(settings: Settings) -> list[Record]:
    """The first records of a new cluster."""
    records: list[Record] = [
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in bootstrap_levels(new_metadata_version(settings)).items()
    ]
    min_isr = str(settings.static_int("min.insync.replicas"))
    # With eligible leader replicas, the minimum ISR is a setting of the cluster and not of each broker (KIP-966).
    records.append(
        ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name="min.insync.replicas", value=min_isr)
    )
    return records


def refuse_other_metadata_version(image: MetadataImage, settings: Settings) -> None:
    """Raise ReplayError if the log has a metadata.version in which Klamm writes no records, or another one than the
    settings ask for.

    Apache Kafka supports every version since 3.3; its tools can raise the version.
    """
    level, asked = image.features.get(METADATA_VERSION), settings.metadata_version
    if level is None or level not in METADATA_VERSIONS or not image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION):
        lacks = " without eligible leader replicas" if level in METADATA_VERSIONS else ""
        raise ReplayError(
            f"the metadata log is at {METADATA_VERSION} {level}{lacks}, and Klamm supports only "
            f"{FIRST_LEVEL_WITH_ELR} to {LATEST_LEVEL}, "
            f"with {ELIGIBLE_LEADER_REPLICAS_VERSION} 1: start Apache Kafka 4.3 on it and raise the levels "
            "(kafka-features.sh upgrade --release-version 4.3), or use a new directory"
        )
    if asked is not None and level != asked:
        raise ReplayError(f"the metadata log is at {METADATA_VERSION} {level}, and {asked} is asked for")
