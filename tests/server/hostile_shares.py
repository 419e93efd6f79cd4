"""Requests of share groups that mean no good, from a seed: ranges that are foreign, expired, overlapping, negative or
not acquired, huge batches, sessions of other epochs, members without end, and state of the share coordinator."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from klamm.broker.dispatch import APIS
from klamm.protocol.api import Api
from klamm.protocol.fields import Message
from klamm.protocol.messages.share_state import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    write_share_group_state,
)
from klamm.protocol.messages.shares import share_acknowledge, share_fetch
from klamm.protocol.messages.shares.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from klamm.protocol.messages.shares.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from klamm.protocol.messages.shares.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from klamm.protocol.messages.shares.share_group_describe import ShareGroupDescribeRequest
from klamm.protocol.messages.shares.share_group_heartbeat import ShareGroupHeartbeatRequest
from klamm.protocol.uuid import Uuid

TOPIC = "shared"
GROUPS = ("g", "g", "g", "h", "", "\0", "ö" * 300)
MEMBERS = ("m", "m", "n", "", "\0\x01", "y" * 36, "y" * 37)
OFFSETS = (-(2**63), -5, -1, 0, 0, 1, 2, 3, 5, 9, 10, 2**40, 2**63 - 1)
NUMBERS = (-(2**31), -2, -1, 0, 1, 2, 1_000, 2**31 - 1)
EPOCHS = (0, 0, 0, 1, 1, 2, 3, 7, -1, -1, -2, 2**31 - 1)
INDEXES = (0, 0, 0, 1, 7, -1, 2**31 - 1)
BY_REQUEST = {api.request: api for api in APIS}


class HostileShares:
    """The requests of one seed."""

    def __init__(self, seed: int, topic_id: Uuid) -> None:
        self._chance = Random(seed)
        self._topic_id = topic_id
        self._members = 0

    def request(self) -> tuple[Api[Any, Any], int, Message]:
        """One request in any version."""
        made = self._one(KINDS)(self)
        api = BY_REQUEST[type(made)]
        return api, self._chance.randint(api.kept_versions.start, api.latest_stable), made

    def leaves(self) -> bool:
        """Whether the connection is closed now, or stays open with its sessions."""
        return self._chance.random() < 0.5

    def _one(self, values: Iterable[Any]) -> Any:
        return self._chance.choice(tuple(values))

    def _many(self, make: Callable[[], Any]) -> list[Any]:
        return [make() for _ in range(self._one((0, 1, 1, 2, 40)))]

    def _id(self) -> Uuid:
        return self._one((self._topic_id,) * 5 + (Uuid(self._chance.randbytes(16)),))  # type: ignore[no-any-return]

    def heartbeat(self) -> Message:
        self._members += 1
        return ShareGroupHeartbeatRequest(
            group_id=self._one(GROUPS),
            member_id=self._one((*MEMBERS, f"without-end-{self._members}", f"without-end-{self._members}")),
            member_epoch=self._one((0, 0, 0, 1, 2, *NUMBERS)),
            rack_id=self._one((None, None, "", "r")),
            subscribed_topic_names=self._one((None, [], [TOPIC], [TOPIC], [TOPIC, "gone", "z" * 300])),
        )

    def describe(self) -> Message:
        return ShareGroupDescribeRequest(
            group_ids=self._many(lambda: self._one(GROUPS)), include_authorized_operations=self._one((True, False))
        )

    def _acks(self, batch: Any) -> list[Any]:
        def make() -> Any:
            first, last = self._one(OFFSETS), self._one(OFFSETS)
            types = self._one(([1], [2], [3], [4], [0], [9], [], [1] * 3, [1] * 2_000))
            return batch(first_offset=first, last_offset=last, acknowledge_types=types)

        return self._many(make)

    def fetch(self) -> Message:
        def place() -> Any:
            acks = self._one(((), self._acks(share_fetch.AcknowledgementBatch)))
            return share_fetch.FetchPartition(partition_index=self._one(INDEXES), acknowledgement_batches=acks)

        return share_fetch.ShareFetchRequest(
            group_id=self._one((None, *GROUPS)),
            member_id=self._one((None, *MEMBERS)),
            share_session_epoch=self._one(EPOCHS),
            max_wait_ms=self._one((0, 0, 1, *NUMBERS[:5])),
            min_bytes=self._one((0, 1, *NUMBERS)),
            max_bytes=self._one((10**6, *NUMBERS)),
            max_records=self._one((1, 3, 500, *NUMBERS)),
            batch_size=self._one((1, 500, *NUMBERS)),
            share_acquire_mode=self._one((0, 1, 1, 2, -1)),
            is_renew_ack=self._one((False, False, True)),
            topics=self._many(lambda: share_fetch.FetchTopic(topic_id=self._id(), partitions=self._many(place))),
            forgotten_topics_data=self._one(
                ((), [share_fetch.ForgottenTopic(topic_id=self._id(), partitions=list(INDEXES))])
            ),
        )

    def acknowledge(self) -> Message:
        def place() -> Any:
            return share_acknowledge.AcknowledgePartition(
                partition_index=self._one(INDEXES),
                acknowledgement_batches=self._acks(share_acknowledge.AcknowledgementBatch),
            )

        return share_acknowledge.ShareAcknowledgeRequest(
            group_id=self._one((None, *GROUPS)),
            member_id=self._one((None, *MEMBERS)),
            share_session_epoch=self._one(EPOCHS),
            is_renew_ack=self._one((False, True)),
            topics=self._many(
                lambda: share_acknowledge.AcknowledgeTopic(topic_id=self._id(), partitions=self._many(place))
            ),
        )

    def alter(self) -> Message:
        def place() -> Any:
            return AlterShareGroupOffsetsRequestPartition(
                partition_index=self._one(INDEXES), start_offset=self._one(OFFSETS)
            )

        topics = [AlterShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=self._many(place))]
        return AlterShareGroupOffsetsRequest(group_id=self._one(GROUPS), topics=topics)

    def delete_offsets(self) -> Message:
        topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=self._one((TOPIC, "gone", "")))]
        return DeleteShareGroupOffsetsRequest(group_id=self._one(GROUPS), topics=topics)

    def describe_offsets(self) -> Message:
        topics = [DescribeShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=list(INDEXES))]
        return DescribeShareGroupOffsetsRequest(
            groups=self._many(
                lambda: DescribeShareGroupOffsetsRequestGroup(
                    group_id=self._one(GROUPS), topics=self._one((None, topics))
                )
            )
        )

    def initialize(self) -> Message:
        one = initialize_share_group_state.PartitionData(
            partition=self._one(INDEXES), state_epoch=self._one(NUMBERS), start_offset=self._one(OFFSETS)
        )
        topic = initialize_share_group_state.InitializeStateData(topic_id=self._id(), partitions=[one])
        return initialize_share_group_state.InitializeShareGroupStateRequest(group_id=self._one(GROUPS), topics=[topic])

    def read_state(self) -> Message:
        one = read_share_group_state.PartitionData(partition=self._one(INDEXES), leader_epoch=self._one(NUMBERS))
        topic = read_share_group_state.ReadStateData(topic_id=self._id(), partitions=[one])
        return read_share_group_state.ReadShareGroupStateRequest(group_id=self._one(GROUPS), topics=[topic])

    def write_state(self) -> Message:
        batches = self._many(
            lambda: write_share_group_state.StateBatch(
                first_offset=self._one(OFFSETS),
                last_offset=self._one(OFFSETS),
                delivery_state=self._one((0, 2, 4)),
                delivery_count=self._one((-1, 0, 1, 2**15 - 1)),
            )
        )
        one = write_share_group_state.PartitionData(
            partition=self._one(INDEXES),
            state_epoch=self._one(NUMBERS),
            leader_epoch=self._one(NUMBERS),
            start_offset=self._one(OFFSETS),
            state_batches=batches,
        )
        topic = write_share_group_state.WriteStateData(topic_id=self._id(), partitions=[one])
        return write_share_group_state.WriteShareGroupStateRequest(group_id=self._one(GROUPS), topics=[topic])

    def delete_state(self) -> Message:
        one = delete_share_group_state.PartitionData(partition=self._one(INDEXES))
        topic = delete_share_group_state.DeleteStateData(topic_id=self._id(), partitions=[one])
        return delete_share_group_state.DeleteShareGroupStateRequest(group_id=self._one(GROUPS), topics=[topic])


KINDS: tuple[Callable[[HostileShares], Message], ...] = (
    HostileShares.heartbeat,
    HostileShares.heartbeat,
    HostileShares.describe,
    HostileShares.fetch,
    HostileShares.fetch,
    HostileShares.fetch,
    HostileShares.fetch,
    HostileShares.acknowledge,
    HostileShares.acknowledge,
    HostileShares.alter,
    HostileShares.delete_offsets,
    HostileShares.describe_offsets,
    HostileShares.initialize,
    HostileShares.read_state,
    HostileShares.write_state,
    HostileShares.delete_state,
)
