"""An image as plain values, for comparison: what it says, not how its columns happen to lie."""

from typing import Any

from klamm.controller.metadata.image import MetadataImage


def image_facts(image: MetadataImage) -> dict[str, Any]:
    """Everything that the image says."""
    return {
        "topics": {topic.name: (topic.topic_id, topic.row) for topic in image.topics_by_name.values()},
        "partitions": {
            (topic.name, index): image.partitions.read(topic.row, index)
            for topic in image.topics_by_name.values()
            for index in range(image.partition_count(topic))
        },
        "brokers": dict(image.brokers),
        "configs": image.configs,
        "features": image.features,
        "acls": image.acls.by_id,
        "next_offset": image.next_offset,
        "next_producer_id": image.next_producer_id,
        "collision_keys": image.collision_keys,
        "total_partitions": image.total_partitions(),
    }
