"""The features of a cluster: the levels that are supported, and those of a new metadata log.

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
from klamm.controller.metadata_versions import FIRST_LEVEL_WITH_LOG_DIRS, LATEST_LEVEL, METADATA_VERSIONS, OLDEST_LEVEL
from klamm.controller.releases import CURRENT
from klamm.controller.settings import Settings
from klamm.controller.transitions.config_changes import MIN_INSYNC_REPLICAS
from klamm.protocol.records.cluster import FeatureLevelRecord
from klamm.protocol.records.configs import ConfigRecord

SUPPORTED_FEATURES = dict(sorted(CURRENT.features.items()))
"""The levels that Apache Kafka 4.3 supports."""
_SINCE_LEVELS: Final = {
    ELIGIBLE_LEADER_REPLICAS_VERSION: {26: 1},
    GROUP_VERSION: {22: 1},
    SHARE_VERSION: {28: 1},
    STREAMS_VERSION: {29: 1},
    TRANSACTION_VERSION: {24: 2},
}
"""The level of each feature in a new log, from which level of metadata.version on (`kafka-storage format`)."""


def new_metadata_version(settings: Settings) -> int:
    """The level of metadata.version in a new log."""
    if settings.metadata_version is not None:
        return settings.metadata_version
    return settings.emulation.release.metadata_version or LATEST_LEVEL


def supported_features(settings: Settings, image: MetadataImage) -> dict[str, tuple[int, int]]:
    """The lowest and highest level of each feature that the nodes of this process support: those of the emulated
    release, and the level that the log has already."""
    of_release = settings.emulation.release.features or SUPPORTED_FEATURES
    levels = {
        name: (lowest, max(highest, image.features.get(name, 0)))
        for name in SUPPORTED_FEATURES
        for lowest, highest in [of_release.get(name, (0, 0))]
    }
    return {name: (lowest, highest) for name, (lowest, highest) in levels.items() if highest}


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
    if ELIGIBLE_LEADER_REPLICAS_VERSION in bootstrap_levels(new_metadata_version(settings)):
        records.append(_cluster_min_isr(settings))
    return records


def elr_safety_records(image: MetadataImage, settings: Settings) -> list[Record]:
    """What has to precede the record that turns eligible leader replicas on: the minimum ISR becomes a setting of the
    cluster, and that of single brokers goes (KIP-966)."""
    name = MIN_INSYNC_REPLICAS
    records: list[Record] = []
    if name not in image.config(BROKER_RESOURCE, ""):
        records.append(_cluster_min_isr(settings))
    brokers = [
        broker
        for (resource_type, broker), configs in image.configs.items()
        if resource_type == BROKER_RESOURCE and broker and name in configs
    ]
    records += [
        ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=broker, name=name, value=None) for broker in brokers
    ]
    return records


def _cluster_min_isr(settings: Settings) -> ConfigRecord:
    # With eligible leader replicas, the minimum ISR is a setting of the cluster and not of each broker (KIP-966).
    value = str(settings.static_int(MIN_INSYNC_REPLICAS))
    return ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name=MIN_INSYNC_REPLICAS, value=value)


def refuse_other_metadata_version(image: MetadataImage, settings: Settings) -> None:
    """Raise ReplayError if the log has a metadata.version in which Klamm writes no records, or another one than the
    settings ask for, or a feature or a level of one that only newer releases support.

    Klamm supports the versions that Apache Kafka 4.3 supports: every one since 3.3.
    """
    level, asked = image.features.metadata_version, settings.metadata_version
    if level not in METADATA_VERSIONS:
        raise ReplayError(
            f"the metadata log is at {METADATA_VERSION} {level or 'none'}, and Klamm supports only {OLDEST_LEVEL} to "
            f"{LATEST_LEVEL}, like Apache Kafka 4.3: start a release of Kafka that supports the level and change it "
            "(kafka-features.sh), or use a new directory"
        )
    if asked is not None and level != asked:
        raise ReplayError(f"the metadata log is at {METADATA_VERSION} {level}, and {asked} is asked for")
    for name, found in image.features.items():
        highest = SUPPORTED_FEATURES.get(name, (0, 0))[1]
        if found > highest:
            supports = f"supports it only up to level {highest}" if highest else "does not know this feature"
            raise ReplayError(f"the metadata log is at level {found} of {name}, and Klamm {supports}")
    if level < FIRST_LEVEL_WITH_LOG_DIRS and _has_several_log_dirs(settings):
        first = METADATA_VERSIONS[FIRST_LEVEL_WITH_LOG_DIRS]
        raise ReplayError(
            f"several log directories of a broker need {METADATA_VERSION} {first} or higher, and the metadata log is "
            f"at {METADATA_VERSIONS[level]}"
        )


def _has_several_log_dirs(settings: Settings) -> bool:
    """Whether a broker has several log directories. Kafka's broker halts with them at an old metadata.version
    (MetadataVersionConfigValidator)."""
    every = [settings.static_configs, *settings.broker_static_configs.values()]
    listed = [configs.get("log.dirs") or configs.get("log.dir") or "" for configs in every]
    return any(len({path.strip() for path in paths.split(",")} - {""}) > 1 for paths in listed)
