"""Helpers of the snapshot tests: an image rebuilt from its records, and the facts on which two images must agree."""

from typing import Any

from klamm.controller.log_records import count_records
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.replay import replay
from klamm.controller.metadata.snapshot import copy_image, snapshot_batches
from klamm.protocol.record_batch import decode_batch, encode_batch
from tests.controller.image_facts import image_facts


def rebuilt(image: MetadataImage) -> MetadataImage:
    """The image that a start makes of a snapshot of `image`, by way of its bytes."""
    found, offset = MetadataImage(), 0
    for records in snapshot_batches(copy_image(image)):
        data = encode_batch(offset, 1, 0, records)
        batch = decode_batch(data, 0)
        replay(found, batch.contents, batch.base_offset)
        offset += count_records(records)
    found.next_offset = image.next_offset
    return found


def lasting_facts(image: MetadataImage) -> dict[str, Any]:
    """The content of the image and its order; topic rows must have that order, too, although their numbers differ."""
    rows = [topic.row for topic in image.topics_by_name.values()]
    assert rows == sorted(rows)
    return image_facts(image)
