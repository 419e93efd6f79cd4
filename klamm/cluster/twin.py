"""A cluster that begins as another one: which of its brokers are simulated."""

from dataclasses import replace

from klamm.cluster.plan import ClusterPlan
from klamm.controller.log.errors import LogError
from klamm.controller.metadata.image import MetadataImage


def as_twin(plan: ClusterPlan, image: MetadataImage) -> ClusterPlan:
    """The plan with the brokers that were unfenced, each in its rack. The others stay fenced, and can be added. Raises
    LogError if the metadata has no broker."""
    up = sorted((broker.broker_id, broker.rack) for broker in image.brokers.values() if not broker.fenced)
    if not up:
        raise LogError(f"{plan.twin} has no broker that was up, so there is no broker to simulate")
    return replace(plan, broker_ids=tuple(one for one, _ in up), racks=tuple(rack for _, rack in up))
