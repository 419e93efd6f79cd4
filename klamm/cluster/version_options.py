"""The options with versions: releases of Kafka, newest versions of APIs, the metadata.version of a new log. Standard
library alone, as `klamm.cluster.options`."""

from klamm.console.shown import shown
from klamm.controller.releases import decode_metadata_version, decode_releases


def checked_kafka_version(text: object) -> str:
    """The text, if it names a release, or is a list of releases for listeners and client ids."""
    if not isinstance(text, str):
        raise ValueError(f"Kafka version {shown(text)}: a text is expected, such as '2.8'")
    decode_releases(text)
    return text


def checked_metadata_version(text: object) -> str:
    """The text, if a new log may have this metadata.version."""
    if not isinstance(text, str):
        raise ValueError(f"metadata version {shown(text)}: a text is expected, such as '4.0-IV3'")
    decode_metadata_version(text)
    return text


def checked_max_version(text: object) -> str:
    """The text, if it may be a list of APIs with versions. The names of APIs are checked later."""
    if not isinstance(text, str):
        raise ValueError(f"max version {shown(text)}: a text is expected, such as 'Metadata=9'")
    return text
