"""The sizes of replicas, from what Apache Kafka's `kafka-log-dirs --describe` prints: a line of JSON among others."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from klamm.admin.partition_types import TopicPartition

MAX_FILE_BYTES: Final = 256 << 20
SIZES_FILE: Final = "log-dir-sizes.json"
"""What `klamm clone` writes beside the log: a list of partitions with their sizes."""


class InvalidSizes(Exception):
    """The file cannot be read, or has no such line. The text is one line."""


def read_sizes(path: Path) -> Mapping[TopicPartition, int]:
    """The size of each partition in bytes: that of its largest replica. Raises InvalidSizes."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InvalidSizes(f"{path}: at most {MAX_FILE_BYTES} bytes are read")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSizes(f"{path}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from None
    for line in lines:
        if line.startswith(("{", "[")):
            try:
                content = json.loads(line)
                return _cloned_sizes(content) if isinstance(content, list) else _sizes(content)
            except (ValueError, KeyError, TypeError, RecursionError):
                break
    raise InvalidSizes(f"{path}: no line is output of kafka-log-dirs --describe")


def _cloned_sizes(content: list[Any]) -> Mapping[TopicPartition, int]:
    return {_partition(name): int(size) for name, size in content}


def _partition(name: str) -> TopicPartition:
    topic, _, index = name.rpartition("-")
    return TopicPartition(topic, int(index))


def _sizes(content: Any) -> Mapping[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for broker in content["brokers"]:
        for log_dir in broker["logDirs"]:
            for entry in log_dir["partitions"]:
                partition = _partition(entry["partition"])
                found[partition] = max(found.get(partition, 0), int(entry["size"]))
    return found
