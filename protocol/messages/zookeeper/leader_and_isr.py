"""LeaderAndIsr: API key 4, versions 0 to 7, flexible from 4.

Apache Kafka 4.0 removed versions 0 to 7 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class LeaderAndIsrPartitionState(Message):
    topic_name: str = field("string", default="", until=1, ignorable=True)
    partition_index: int = field("int32", default=0, until=1)
    controller_epoch: int = field("int32", default=0, until=1)
    leader: int = field("int32", default=0, until=1)
    leader_epoch: int = field("int32", default=0, until=1)
    isr: Sequence[int] = field(["int32"], default=(), until=1)
    partition_epoch: int = field("int32", default=0, until=1)
    replicas: Sequence[int] = field(["int32"], default=(), until=1)
    is_new: bool = field("bool", default=False, since=1, until=1, ignorable=True)


@message
class LeaderAndIsrRequestLeaderAndIsrPartitionState(Message):
    partition_index: int = field("int32", default=0, since=2)
    controller_epoch: int = field("int32", default=0, since=2)
    leader: int = field("int32", default=0, since=2)
    leader_epoch: int = field("int32", default=0, since=2)
    isr: Sequence[int] = field(["int32"], default=(), since=2)
    partition_epoch: int = field("int32", default=0, since=2)
    replicas: Sequence[int] = field(["int32"], default=(), since=2)
    adding_replicas: Sequence[int] = field(["int32"], default=(), since=3, ignorable=True)
    removing_replicas: Sequence[int] = field(["int32"], default=(), since=3, ignorable=True)
    is_new: bool = field("bool", default=False, since=2, ignorable=True)
    leader_recovery_state: int = field("int8", default=0, since=6)


@message
class LeaderAndIsrTopicState(Message):
    topic_name: str = field("string", default="", since=2)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=5, ignorable=True)
    partition_states: Sequence[LeaderAndIsrRequestLeaderAndIsrPartitionState] = field(
        [LeaderAndIsrRequestLeaderAndIsrPartitionState], default=(), since=2
    )


@message
class LeaderAndIsrLiveLeader(Message):
    broker_id: int = field("int32", default=0)
    host_name: str = field("string", default="")
    port: int = field("int32", default=0)


@message
class LeaderAndIsrRequest(Message):
    controller_id: int = field("int32", default=0)
    is_kraft_controller: bool = field("bool", default=False, since=7, json_name="isKRaftController")
    controller_epoch: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=-1, since=2, ignorable=True)
    type: int = field("int8", default=0, since=5)
    ungrouped_partition_states: Sequence[LeaderAndIsrPartitionState] = field(
        [LeaderAndIsrPartitionState], default=(), until=1
    )
    topic_states: Sequence[LeaderAndIsrTopicState] = field([LeaderAndIsrTopicState], default=(), since=2)
    live_leaders: Sequence[LeaderAndIsrLiveLeader] = field([LeaderAndIsrLiveLeader], default=())


@message
class LeaderAndIsrPartitionError(Message):
    topic_name: str = field("string", default="", until=4, ignorable=True)
    partition_index: int = field("int32", default=0, until=4)
    error_code: int = field("int16", default=0, until=4)


@message
class LeaderAndIsrResponseLeaderAndIsrPartitionError(Message):
    partition_index: int = field("int32", default=0, since=5)
    error_code: int = field("int16", default=0, since=5)


@message
class LeaderAndIsrTopicError(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=5)
    partition_errors: Sequence[LeaderAndIsrResponseLeaderAndIsrPartitionError] = field(
        [LeaderAndIsrResponseLeaderAndIsrPartitionError], default=(), since=5
    )


@message
class LeaderAndIsrResponse(Message):
    error_code: int = field("int16", default=0)
    partition_errors: Sequence[LeaderAndIsrPartitionError] = field([LeaderAndIsrPartitionError], default=(), until=4)
    topics: Sequence[LeaderAndIsrTopicError] = field([LeaderAndIsrTopicError], default=(), since=5)


API = Api(
    key=4,
    name="LeaderAndIsr",
    versions=span(0, 7),
    flexible_since=4,
    listeners=frozenset({"broker"}),
    latest_stable=7,
    removed_before=8,
    request=LeaderAndIsrRequest,
    response=LeaderAndIsrResponse,
)
