"""Kafka's messages and metadata records, and their encoding. No I/O, no state, no clock.

`klamm.protocol.messages` and `klamm.protocol.records` declare them; `klamm.protocol.codec` encodes and decodes them.
The module of a message is imported, and its schema is built, at the first use. The public names are those below.
"""

from klamm.protocol.api import Api, Listener, RecordType
from klamm.protocol.codec.frames import FrameBuffer, encode_frame
from klamm.protocol.codec.messages import decode_message, encode_message
from klamm.protocol.codec.requests import (
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    load_api,
    read_request,
)
from klamm.protocol.columns import Columns, ColumnsSlice, Parts, Ragged
from klamm.protocol.errors import ApiError, ErrorCode, ProtocolError, UnsupportedVersion
from klamm.protocol.fields import Message
from klamm.protocol.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid

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
