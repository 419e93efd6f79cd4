"""Metadata records about topics.

Written by tools/generate_messages.py from spec/.
"""

from klamm.protocol.api import RecordType, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class TopicRecord(Message):
    name: str = field("string", default="")
    topic_id: Uuid = field("uuid", default=ZERO_UUID)


@message
class RemoveTopicRecord(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)


TOPIC = RecordType(
    id=2,
    name="TopicRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=TopicRecord,
)

REMOVE_TOPIC = RecordType(
    id=9,
    name="RemoveTopicRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=RemoveTopicRecord,
)
