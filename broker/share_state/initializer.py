"""Carries out what share groups want to have initialized, after their records are written: the share coordinator is
asked for each partition, and the group's shard learns what became of it."""

from collections.abc import Callable
from dataclasses import dataclass

from klamm.broker.coordinator.answer import Step
from klamm.broker.coordinator.coordinators import Coordinators
from klamm.broker.coordinator.outbox import Outbox
from klamm.broker.coordinator.shard import Shard
from klamm.broker.groups.share.outcome import Initialization
from klamm.broker.groups.share.shard import GroupsWithShare
from klamm.broker.share_state.offset import SharePartitionKey
from klamm.broker.share_state.persister import Persister
from klamm.broker.share_state.questions import Initialize
from klamm.controller.metadata.image import MetadataImage
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.internal_topics import CONSUMER_OFFSETS
from klamm.protocol.uuid import Uuid


@dataclass(frozen=True, slots=True)
class Initialized:
    """What the share coordinator answered about the partitions of one group."""

    failed: dict[tuple[Uuid, int], ApiError]


class Initializer:
    """Takes initializations from the shards of `__consumer_offsets`."""

    def __init__(self, coordinators: Coordinators, persister: Persister) -> None:
        self._coordinators = coordinators
        self._persister = persister

    def follow(self, image: MetadataImage, shard: Shard, _now_ms: int) -> None:
        """Carry out what waits in a shard."""
        state = shard.state
        while isinstance(state, GroupsWithShare) and state.share.to_initialize:
            self.carry_out(state.share.to_initialize.popleft(), shard.broker_id, lambda _: None)

    def carry_out(
        self,
        wanted: Initialization,
        broker_id: int,
        done: Callable[[Initialized], None],
        wait_on: Callable[[Shard], None] = lambda _: None,
    ) -> None:
        """Initialize the partitions, in steps if there are many, then tell the group's shard on `broker_id`, then call
        `done`."""
        questions = {
            SharePartitionKey(wanted.group_id, topic_id, partition): Initialize(wanted.state_epoch, start_offset)
            for topic_id, offsets in wanted.start_offsets.items()
            for partition, start_offset in offsets.items()
        }

        def finished(image: MetadataImage, answers: dict[SharePartitionKey, object], now_ms: int) -> None:
            failed = {
                (key.topic_id, key.partition): answer for key, answer in answers.items() if isinstance(answer, ApiError)
            }
            self._note(image, wanted, broker_id, is_done=not failed, now_ms=now_ms)
            done(Initialized(failed))

        if questions:
            self._persister.ask_all(questions, finished, wait_on)
        else:
            done(Initialized({}))

    def _note(
        self, image: MetadataImage, wanted: Initialization, broker_id: int, *, is_done: bool, now_ms: int
    ) -> None:
        partitions = {topic_id: tuple(offsets) for topic_id, offsets in wanted.start_offsets.items()}

        def operation(groups: GroupsWithShare) -> Outbox:
            if is_done:
                return groups.share.initialized(wanted.group_id, partitions, now_ms)
            return groups.share.not_initialized(wanted.group_id, partitions)

        # A shard that has moved knows the partitions as being initialized: a heartbeat asks again.
        step = Step(resolved=lambda _: None, refused=_ignore, wait_on=lambda _: None)
        self._coordinators.submit(image, (CONSUMER_OFFSETS, wanted.group_id, broker_id), step, operation, now_ms)


def _ignore(_code: ErrorCode) -> None:
    return None
