"""The metadata log: the one thing that must survive. In memory, or in Kafka's own files.

Whoever needs a log takes a `MetadataLog`; which of the two it is, is decided at the start. What the records mean is
not known here: they are encoded, kept in order, made durable, and given back.
"""

from klamm.controller.log.errors import CorruptLog, LogError
from klamm.controller.log.memory_log import MemoryLog
from klamm.controller.log.segment_log import SegmentLog
from klamm.controller.metadata_log import MetadataLog

__all__ = ["CorruptLog", "LogError", "MemoryLog", "MetadataLog", "SegmentLog"]
