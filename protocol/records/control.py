"""Control records of the raft log.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import RecordType, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class Voter(Message):
    voter_id: int = field("int32", default=0)
    voter_directory_id: Uuid = field("uuid", default=ZERO_UUID, since=1)


@message
class LeaderChangeMessage(Message):
    version: int = field("int16", default=0)
    leader_id: int = field("int32", default=0)
    voters: Sequence[Voter] = field([Voter], default=())
    granting_voters: Sequence[Voter] = field([Voter], default=())


@message
class SnapshotHeaderRecord(Message):
    version: int = field("int16", default=0)
    last_contained_log_timestamp: int = field("int64", default=0)


@message
class SnapshotFooterRecord(Message):
    version: int = field("int16", default=0)


@message
class KRaftVersionRecord(Message):
    version: int = field("int16", default=0)
    kraft_version: int = field("int16", default=0, json_name="kRaftVersion")


@message
class Endpoint(Message):
    name: str = field("string", default="")
    host: str = field("string", default="")
    port: int = field("uint16", default=0)


@message
class KRaftVersionFeature(Message):
    min_supported_version: int = field("int16", default=0)
    max_supported_version: int = field("int16", default=0)


@message
class VotersRecordVoter(Message):
    voter_id: int = field("int32", default=0)
    voter_directory_id: Uuid = field("uuid", default=ZERO_UUID)
    endpoints: Sequence[Endpoint] = field([Endpoint], default=())
    kraft_version_feature: KRaftVersionFeature = field(
        KRaftVersionFeature, default=KRaftVersionFeature, json_name="kRaftVersionFeature"
    )


@message
class VotersRecord(Message):
    version: int = field("int16", default=0)
    voters: Sequence[VotersRecordVoter] = field([VotersRecordVoter], default=())


LEADER_CHANGE = RecordType(
    id=2,
    name="LeaderChangeMessage",
    versions=span(0, 1),
    flexible_since=0,
    message=LeaderChangeMessage,
)

SNAPSHOT_HEADER = RecordType(
    id=3,
    name="SnapshotHeaderRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=SnapshotHeaderRecord,
)

SNAPSHOT_FOOTER = RecordType(
    id=4,
    name="SnapshotFooterRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=SnapshotFooterRecord,
)

KRAFT_VERSION = RecordType(
    id=5,
    name="KRaftVersionRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=KRaftVersionRecord,
)

VOTERS = RecordType(
    id=6,
    name="VotersRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=VotersRecord,
)
