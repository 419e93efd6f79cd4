"""Members of groups on a cluster without sockets: requests whose answers may come later."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from klamm.controller.core import Answer, Call
from klamm.protocol.codec.requests import decode_response, encode_response
from klamm.protocol.fields import Message
from klamm.protocol.messages.groups.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.groups.heartbeat import HeartbeatRequest
from klamm.protocol.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from klamm.protocol.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from klamm.protocol.messages.offsets.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offsets.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.controller.handlers.cluster import DrivenCluster

DELAY_MS = 300
CONFIGS: Mapping[str, str] = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": str(DELAY_MS),
    "group.min.session.timeout.ms": "1000",
    "group.max.size": "3",
}
SESSION_MS, REBALANCE_MS = 6_000, 20_000
GROUP = "g"


@dataclass
class Asked:
    """A request that was submitted."""

    cluster: DrivenCluster
    call: Call
    answer: Answer

    @property
    def is_waiting(self) -> bool:
        """Whether there is no response yet."""
        return self.response is None

    @property
    def response(self) -> Any:
        """The response as the client reads it; None: there is none yet."""
        self.answer = self.cluster.controller.try_complete(self.call, self.answer)
        if not isinstance(self.answer.response, Message):
            return None
        raw = bytes(encode_response(self.call.api, self.call.api_version, 1, self.answer.response))
        return decode_response(self.call.api, self.call.api_version, raw)[1]


class Conversation:
    """Requests about one group, to its coordinator."""

    def __init__(self, cluster: DrivenCluster, group_id: str = GROUP) -> None:
        self.cluster = cluster
        self.group_id = group_id
        found = self.find()
        if found.error_code:
            found = self.find()
        assert not found.error_code
        self.coordinator_id: int = found.node_id

    def find(self) -> Any:
        """The broker that coordinates the group."""
        response = self.cluster.ask(FindCoordinatorRequest(coordinator_keys=[self.group_id]))
        return response.coordinators[0]

    def submit(self, request: Message, version: int | None = None) -> Asked:
        """Send a request to the coordinator."""
        call = self.cluster.call(request, version=version, broker_id=self.coordinator_id)
        return Asked(self.cluster, call, self.cluster.controller.submit(call))

    def ask(self, request: Message, version: int | None = None) -> Any:
        """Send a request whose response exists when its records are replicated."""
        asked = self.submit(request, version)
        if asked.is_waiting:
            self.pass_time(2)
        assert not asked.is_waiting
        return asked.response

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass; the coordinators run their timers."""
        self.cluster.clock.advance(milliseconds)
        self.cluster.brokers.tick()

    # Members

    def join(self, member_id: str = "", *, metadata: bytes = b"m", version: int | None = None, **fields: Any) -> Asked:
        """JoinGroup."""
        protocols = [JoinGroupRequestProtocol(name="range", metadata=metadata)]
        values: dict[str, Any] = {
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": protocols,
            **fields,
        }
        return self.submit(JoinGroupRequest(group_id=self.group_id, member_id=member_id, **values), version)

    def new_member_id(self) -> str:
        """A member id from a first JoinGroup."""
        member_id: str = self.join().response.member_id
        return member_id

    def sync(self, member_id: str, generation_id: int, assignments: Mapping[str, bytes] | None = None) -> Asked:
        """SyncGroup; the leader's has assignments."""
        given = [
            SyncGroupRequestAssignment(member_id=one, assignment=what) for one, what in (assignments or {}).items()
        ]
        request = SyncGroupRequest(
            group_id=self.group_id,
            member_id=member_id,
            generation_id=generation_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=given,
        )
        return self.submit(request)

    def heartbeat(self, member_id: str, generation_id: int) -> int:
        """The error code of a Heartbeat."""
        request = HeartbeatRequest(group_id=self.group_id, member_id=member_id, generation_id=generation_id)
        code: int = self.ask(request).error_code
        return code

    def stable(self, count: int = 1, **fields: Any) -> tuple[list[str], int]:
        """A stable group of this many members: their ids, the leader first, and the generation."""
        ids = [self.new_member_id() for _ in range(count)]
        joins = [self.join(member_id, **fields) for member_id in ids]
        for _ in range(count + 1):
            self.pass_time(DELAY_MS)
        joined: list[JoinGroupResponse] = [one.response for one in joins]
        leader, generation_id = joined[0].leader, joined[0].generation_id
        ids.sort(key=lambda member_id: member_id != leader)
        syncs = [self.sync(member_id, generation_id) for member_id in ids[1:]]
        syncs.append(self.sync(leader, generation_id, {member_id: member_id.encode() for member_id in ids}))
        self.pass_time(2)
        synced: list[SyncGroupResponse] = [one.response for one in syncs]
        assert [one.error_code for one in synced] == [0] * count
        return ids, generation_id

    # Offsets

    def commit(self, offset: int, *, topic: str = "t", partition: int = 0, version: int = 9, **fields: Any) -> int:
        """The error code of committing one offset, outside of a generation unless `fields` say so."""
        request = self.commit_request(offset, topic=topic, partition=partition, **fields)
        code: int = self.ask(request, version).topics[0].partitions[0].error_code
        return code

    def commit_request(
        self, offset: int, *, topic: str = "t", partition: int = 0, metadata: str = "", **fields: Any
    ) -> OffsetCommitRequest:
        """OffsetCommit of one offset."""
        one = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        topics = [OffsetCommitRequestTopic(name=topic, partitions=[one])]
        return OffsetCommitRequest(group_id=self.group_id, topics=topics, **fields)

    def committed(self, topic: str = "t", partition: int = 0) -> int:
        """The committed offset of a partition; -1: none."""
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.group_id, topics=topics)])
        group = self.ask(request, 9).groups[0]
        assert not group.error_code
        offset: int = group.topics[0].partitions[0].committed_offset
        return offset
