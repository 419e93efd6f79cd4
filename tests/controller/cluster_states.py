"""Images to test rules on, built by replay from records, as every image is."""

import numpy as np
from hypothesis import strategies as st

from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from klamm.controller.metadata.replay import replay
from klamm.controller.settings import Settings
from klamm.controller.transitions.features import bootstrap_records
from klamm.controller.transitions.new_partitions import new_partition_records
from klamm.protocol.fields import Message
from klamm.protocol.records.brokers import BrokerEndpoint, BrokerRegistrationChangeRecord, RegisterBrokerRecord
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid


def uuid_of(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def apply(image: MetadataImage, *records: object) -> Delta:
    """Replay one batch at the end of the image. Returns its delta."""
    return replay(image, records, image.next_offset)  # type: ignore[arg-type]


def registration(broker_id: int, rack: str | None = None, epoch: int | None = None) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=uuid_of(10_000 + broker_id),
        broker_epoch=broker_id if epoch is None else epoch,
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9000 + broker_id)],
        rack=rack,
        log_dirs=[uuid_of(20_000 + broker_id)],
    )


def unfence(broker_id: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_id, fenced=-1)


def fence(broker_id: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_id, fenced=1)


def live_cluster(brokers: int, first: int = 1) -> MetadataImage:
    """A cluster with this number of live brokers and no topics. Ids count from `first`, racks are a, b, c in turn."""
    image = MetadataImage()
    apply(image, *bootstrap_records(Settings()))
    for broker_id in range(first, first + brokers):
        apply(image, registration(broker_id, "abc"[broker_id % 3]), unfence(broker_id))
    return image


def add_topic(image: MetadataImage, number: int, replicas: list[list[int]], **configs: str) -> None:
    """Add a topic named t<number>; `configs` have underscores for dots."""
    records: list[Message] = [TopicRecord(name=f"t{number}", topic_id=uuid_of(number))]
    records += [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=f"t{number}", name=name.replace("_", "."), value=value)
        for name, value in configs.items()
    ]
    apply(
        image, *records, *new_partition_records(image.brokers, uuid_of(number), 0, np.array(replicas, dtype=np.int32))
    )


@st.composite
def clusters(draw: st.DrawFn) -> MetadataImage:
    """Three to six brokers, counted from 0 or 1, with topics of one to four replicas, some configs of their own."""
    brokers = draw(st.integers(3, 6))
    first = draw(st.sampled_from([0, 1]))
    image = live_cluster(brokers, first)
    if draw(st.booleans()):
        apply(
            image,
            ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name="min.insync.replicas", value="2"),
        )
    for number in range(1, draw(st.integers(1, 4)) + 1):
        replication_factor = draw(st.integers(1, min(4, brokers)))
        row = st.permutations(range(first, first + brokers)).map(lambda ids, r=replication_factor: list(ids)[:r])  # type: ignore[misc]
        configs = {}
        if draw(st.booleans()):
            configs["min_insync_replicas"] = str(draw(st.integers(1, 3)))
        if draw(st.integers(0, 3)) == 0:
            configs["unclean_leader_election_enable"] = "true"
        add_topic(image, number, draw(st.lists(row, min_size=1, max_size=5)), **configs)
    return image
