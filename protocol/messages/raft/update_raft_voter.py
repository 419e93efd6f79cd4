"""UpdateRaftVoter: API key 82, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class Listener(Message):
    name: str = field("string", default="")
    host: str = field("string", default="")
    port: int = field("uint16", default=0)


@message
class KRaftVersionFeature(Message):
    min_supported_version: int = field("int16", default=0)
    max_supported_version: int = field("int16", default=0)


@message
class UpdateRaftVoterRequest(Message):
    cluster_id: str | None = field("string", default="", nullable_since=0)
    current_leader_epoch: int = field("int32", default=0)
    voter_id: int = field("int32", default=0)
    voter_directory_id: Uuid = field("uuid", default=ZERO_UUID)
    listeners: Sequence[Listener] = field([Listener], default=())
    kraft_version_feature: KRaftVersionFeature = field(
        KRaftVersionFeature, default=KRaftVersionFeature, json_name="kRaftVersionFeature"
    )


@message
class CurrentLeader(Message):
    leader_id: int = field("int32", default=-1)
    leader_epoch: int = field("int32", default=-1)
    host: str = field("string", default="")
    port: int = field("int32", default=0)


@message
class UpdateRaftVoterResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    current_leader: CurrentLeader = field(CurrentLeader, default=CurrentLeader, tag=0)


API = Api(
    key=82,
    name="UpdateRaftVoter",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"controller"}),
    latest_stable=0,
    request=UpdateRaftVoterRequest,
    response=UpdateRaftVoterResponse,
)
