"""An image as plain values, for comparison: its content, independent of the layout of its columns."""

from typing import Any

from klamm.controller.metadata.image import MetadataImage
from tests.controller.image_consistency import check_consistency


def image_facts(image: MetadataImage) -> dict[str, Any]:
    """The content of the image, kind by kind, and its order. Asserts that its tables agree."""
    check_consistency(image)
    return {**image.facts(), "next_offset": image.next_offset}
