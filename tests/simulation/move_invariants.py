"""What holds after every step while replicas move and records are replicated. They assert; they change nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import Partition
from klamm.controller.metadata.replay import replay
from klamm.protocol.errors import ErrorCode
from klamm.protocol.records.partitions import PartitionChangeRecord
from tests.broker.data.model_log import ModelBatch
from tests.broker.handlers.data_requests import fetch_request
from tests.simulation.model_moves import MovingModel
from tests.simulation.traced_cluster import TracedCluster


class Changed(Protocol):
    """What the invariants look at that need no model."""

    @property
    def image(self) -> MetadataImage: ...

    @property
    def changes(self) -> list[tuple[Partition, Partition]]: ...


@dataclass
class Moved:
    """A cluster, its model, and each change of a partition since the last step, in the order of the log."""

    cluster: TracedCluster
    model: MovingModel
    image: MetadataImage = field(default_factory=MetadataImage)
    changes: list[tuple[Partition, Partition]] = field(default_factory=list)

    def advance(self) -> None:
        """Read what was logged, one record at a time."""
        self.changes.clear()
        new = self.cluster.records(self.image.next_offset)
        for offset, record in enumerate(new, self.cluster.log.end_offset - len(new)):
            before = self._read(record)
            replay(self.image, [record], offset)
            after = self._read(record)
            if before and after:
                self.changes.append((before, after))

    def _read(self, record: Any) -> Partition | None:
        if not isinstance(record, PartitionChangeRecord):
            return None
        return self.image.partitions.read(self.image.topics_by_id[record.topic_id].row, record.partition_id)


def no_move_leaves_fewer_in_sync_than_there_were_or_shall_be(moved: Changed) -> None:
    """Whom a move adds does not count before; whoever is taken out by anything else is no replica that goes."""
    for before, after in moved.changes:
        if before.replicas != after.replicas:
            former = [replica for replica in before.isr if replica not in before.adding_replicas]
            target = [replica for replica in after.replicas if replica not in after.removing_replicas]
            assert len(after.isr) >= min(len(former), len(target))


def replicas_leave_only_when_all_who_come_are_in_sync(moved: Changed) -> None:
    """Or when a move is taken back: then those who were to come are gone."""
    for before, after in moved.changes:
        if before.reassigning and not after.reassigning:
            taken_back = not set(before.adding_replicas) & set(after.replicas)
            assert taken_back or set(before.adding_replicas) <= set(after.isr)
        if set(before.replicas) - set(after.replicas):
            assert not after.reassigning


def nothing_is_being_moved_any_more_once_it_is_there(moved: Changed) -> None:
    for topic in moved.image.topics_by_name.values():
        for index in range(moved.image.partition_count(topic)):
            partition = moved.image.partitions.read(topic.row, index)
            adding, removing = set(partition.adding_replicas), set(partition.removing_replicas)
            if partition.reassigning:
                assert adding <= set(partition.replicas)
                assert removing <= set(partition.replicas)
                missing = not set(partition.replicas) - removing <= set(partition.isr)
                # As recorded from Kafka: who is to come and to go at once never comes. And as in its code: whoever an
                # election leaves alone in sync may be all that is wanted, which the next change notices.
                assert missing or adding & removing or partition.isr == (partition.leader,)


def no_acknowledged_record_is_lost(moved: Moved) -> None:
    """All of them are on every broker in sync, up to the last byte."""
    image, data = moved.cluster.image, moved.cluster.data
    for (topic_id, index), _, partition in moved.model.places():
        acknowledged: Sequence[ModelBatch] = partition.log.acknowledged if partition.log else ()
        found = data.find(topic_id, index)
        for batch in acknowledged:
            assert found is not None
            assert found.log.read(batch.base_offset, 1, batch.end) == batch.data
            isr = image.partitions.read(image.topics_by_id[topic_id].row, index).isr
            assert all(found.log_end_offset(one, moved.cluster.clock.now_ms) >= batch.end for one in isr)


def consumers_read_all_that_is_committed_and_nothing_else(moved: Moved) -> None:
    """In order, and exactly as it was written; nothing acknowledged is missing."""
    now_ms = moved.cluster.clock.now_ms
    for name, topic in moved.model.topics.items():
        for index, partition in enumerate(topic.partitions):
            log = partition.log
            if log and partition.leader in moved.model.brokers and partition.leader not in moved.model.down:
                request = fetch_request(moved.cluster, log.start, topic_name=name, partition=index)
                response = moved.cluster.ask(request, broker_id=partition.leader)
                [found] = response.responses[0].partitions
                readable = [batch for batch in log.batches if batch.end <= log.committed(now_ms)]
                assert (found.error_code, found.high_watermark) == (ErrorCode.NONE, log.committed(now_ms))
                assert found.records == b"".join(batch.data for batch in readable)
                assert set(log.acknowledged) <= set(readable)


def replicas_have_what_the_model_says_and_never_more_than_the_leader(moved: Moved) -> None:
    now_ms = moved.cluster.clock.now_ms
    for (topic_id, index), _, partition in moved.model.places():
        found = moved.cluster.data.find(topic_id, index)
        assert (found is None) == (partition.log is None)
        if found and partition.log:
            ends = {replica: found.log_end_offset(replica, now_ms) for replica in found.replicas}
            assert all(found.lag(replica, now_ms) >= 0 for replica in found.replicas)
            assert found.log.log_end_offset == partition.log.end
            assert ends == {replica: partition.log.has(replica, now_ms) for replica in partition.log.lines}


MOVE_INVARIANTS: tuple[Callable[[Moved], None], ...] = (
    no_move_leaves_fewer_in_sync_than_there_were_or_shall_be,
    replicas_leave_only_when_all_who_come_are_in_sync,
    nothing_is_being_moved_any_more_once_it_is_there,
    replicas_have_what_the_model_says_and_never_more_than_the_leader,
    no_acknowledged_record_is_lost,
    consumers_read_all_that_is_committed_and_nothing_else,
)
