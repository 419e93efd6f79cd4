"""An image as plain values, for comparison: what it says, not how its columns happen to lie."""

from typing import Any

from klamm.controller.metadata.image import MetadataImage
from tests.controller.image_consistency import check_consistency


def image_facts(image: MetadataImage) -> dict[str, Any]:
    """Everything that the image says, kind by kind, and in which order it says it. Its tables must agree."""
    check_consistency(image)
    return {**image.facts(), "next_offset": image.next_offset}
