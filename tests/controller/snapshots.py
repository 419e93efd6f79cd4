"""What the tests of snapshots share: an image rebuilt from its records, and what two images have to agree on."""

from typing import Any

from klamm.controller.log_records import count_records
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.replay import replay
from klamm.controller.metadata.snapshot import copy_image, snapshot_batches
from klamm.protocol.record_batch import decode_batch, encode_batch
from tests.controller.image_facts import image_facts


def rebuilt(image: MetadataImage) -> MetadataImage:
    """What a start makes of a snapshot of `image`, through its bytes."""
    found, offset = MetadataImage(), 0
    for records in snapshot_batches(copy_image(image)):
        data = encode_batch(offset, 1, 0, records)
        batch = decode_batch(data, 0)
        replay(found, batch.contents, batch.base_offset)
        offset += count_records(records)
    found.next_offset = image.next_offset
    return found


def lasting_facts(image: MetadataImage) -> dict[str, Any]:
    """Everything that the image says, and in which order; and that rows, whose numbers nobody is told, follow it."""
    rows = [topic.row for topic in image.topics_by_name.values()]
    assert rows == sorted(rows)
    return image_facts(image)
