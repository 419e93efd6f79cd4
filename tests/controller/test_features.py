"""The feature levels of a log: with which level it can be continued, and the effects of eligible leader replicas."""

import pytest

from klamm.controller.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from klamm.controller.metadata.replay import ReplayError
from klamm.controller.settings import Settings
from klamm.controller.transitions.config_changes import clear_elr_records
from klamm.controller.transitions.features import bootstrap_records, refuse_other_metadata_version
from klamm.protocol.records.cluster import FeatureLevelRecord
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.partitions import ClearElrRecord
from tests.controller.cluster_states import apply

MIN_ISR = ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name="min.insync.replicas", value="2")
CLUSTER_MIN_ISR = ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name="min.insync.replicas", value="2")
OTHER = ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name="retention.ms", value="2")


def new_image() -> MetadataImage:
    image = MetadataImage()
    apply(image, *bootstrap_records(Settings()))
    return image


@pytest.mark.parametrize("level", [29, 30, 31])
def test_a_log_is_gone_on_with_at_one_metadata_version_alone(level: int) -> None:
    image = new_image()
    apply(image, FeatureLevelRecord(name="metadata.version", feature_level=level))
    if level == 30:
        refuse_other_metadata_version(image)
    else:
        with pytest.raises(ReplayError, match=f"the metadata log is at metadata.version {level}, and Klamm goes on"):
            refuse_other_metadata_version(image)


def test_a_log_that_names_no_metadata_version_is_refused() -> None:
    with pytest.raises(ReplayError, match=r"at metadata\.version None"):
        refuse_other_metadata_version(MetadataImage())


@pytest.mark.parametrize("level", [None, 0, 1])
def test_another_minimum_of_replicas_in_sync_clears_who_is_eligible_where_that_is_kept(level: int | None) -> None:
    image = MetadataImage() if level is None else new_image()
    if level is not None:
        apply(image, FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=level))
    expected = [ClearElrRecord(topic_name="t"), ClearElrRecord(topic_name="")] if level == 1 else []
    assert clear_elr_records(image, [OTHER, MIN_ISR, CLUSTER_MIN_ISR]) == expected
