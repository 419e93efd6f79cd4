"""Which replicas of a partition are in a log directory that went offline (KIP-858), and which of the others fetch."""

from collections.abc import Callable, Collection

from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import Partition


def offline_replicas(image: MetadataImage, partition: Partition) -> tuple[int, ...]:
    """The brokers whose registration does not have the directory of their replica any more."""
    found = []
    for broker_id, directory in zip(partition.replicas, partition.directories, strict=True):
        broker = image.brokers.get(broker_id)
        if broker is not None and not broker.has_directory(directory):
            found.append(broker_id)
    return tuple(found)


def fetching(image: MetadataImage, down: Collection[int], offline: Collection[int]) -> Callable[[int], bool]:
    """Whether a broker's replica fetches and serves records: not if the broker is `down` or fenced, or the replica
    `offline`."""

    def fetches(broker_id: int) -> bool:
        broker = image.brokers.get(broker_id)
        return broker is not None and not broker.fenced and broker_id not in down and broker_id not in offline

    return fetches
