"""What Kafka's messages and metadata records are, and their bytes. No I/O, no state, no clock.

`protocol.messages` and `protocol.records` declare; `protocol.codec` encodes and decodes. Message modules are imported
when their API is first asked for, schemas are built when they are first used. The public names are those below.
"""

from protocol.api import Api, Listener, RecordType
from protocol.codec.frames import FrameBuffer, encode_frame
from protocol.codec.messages import decode_message, encode_message
from protocol.codec.requests import (
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    load_api,
    read_request,
)
from protocol.columns import Columns, ColumnsSlice, Parts, Ragged
from protocol.errors import ApiError, ErrorCode, ProtocolError, UnsupportedVersion
from protocol.fields import Message
from protocol.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid

__all__ = [
    "METADATA_TOPIC_ID",
    "ZERO_UUID",
    "Api",
    "ApiError",
    "Columns",
    "ColumnsSlice",
    "ErrorCode",
    "FrameBuffer",
    "Listener",
    "Message",
    "Parts",
    "ProtocolError",
    "Ragged",
    "RecordType",
    "UnsupportedVersion",
    "Uuid",
    "decode_message",
    "decode_request",
    "decode_request_header",
    "decode_response",
    "encode_frame",
    "encode_message",
    "encode_request",
    "encode_response",
    "load_api",
    "read_request",
]
