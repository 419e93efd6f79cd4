"""What the simulation has seen: every batch of the log from its bytes, and what clients were told of it.

The log and the controller here are the real ones; each tells the witness of what it just did. From the bytes alone the
witness has an image of its own (`shadow`), each change of a partition one after the other, and what every batch did to
the limits. What clients were told is kept as far as it must survive.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from klamm.controller.core import Answer, Call, Controller
from klamm.controller.log import SegmentLog
from klamm.controller.log.segment_files import list_segments
from klamm.controller.long_decision import LongDecision
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import Partition
from klamm.controller.metadata.replay import replay
from klamm.protocol.record_batch import Batch, BatchBuilder, decode_batch_header, decode_batches
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from klamm.protocol.uuid import Uuid
from klamm.server.request_log import RequestLine, RequestLog
from tests.simulation.cluster.violation import Violation, demand
from tests.simulation.model_configs import BROKER, ModelConfigs

Place = tuple[Uuid, int]


@dataclass
class Written:
    """What a log says of topics and configs that were ever there."""

    created: dict[Uuid, int] = field(default_factory=dict)
    """How many partitions a topic was made with."""
    removed: set[Uuid] = field(default_factory=set)
    configs: set[tuple[int, str, str, str | None]] = field(default_factory=set)


@dataclass
class Promised:
    """What clients were told has happened."""

    created: dict[Uuid, int] = field(default_factory=dict)
    removed: set[Uuid] = field(default_factory=set)
    configs: set[tuple[int, str, str, str | None]] = field(default_factory=set)
    end_offset: int = 0
    """Everything below it was seen by somebody who got an answer."""
    producer_ids: set[int] = field(default_factory=set)
    record_offsets: dict[Place, dict[int, float]] = field(default_factory=dict)
    """The first offsets of batches that were acknowledged, and when that was decided."""


class Witness:
    """See above. `dead`: the process that goes on has died already, and nothing of it counts."""

    def __init__(self, configs: ModelConfigs) -> None:
        self.configs = configs
        self.promised = Promised()
        self.written = Written()
        self.shadow = MetadataImage()
        self.end_offset = 0
        self.batches: list[bytes] = []
        self.changes: list[tuple[Partition, Partition]] = []
        self.asking: int | None = None
        """Whose limits the next batch has to keep: those of the broker that was asked; None: the cluster's."""
        self.dead = False
        self.violations: list[Violation] = []
        """What was found in places from where nobody could be told."""
        self.on_decided: Callable[[RequestLine], None] = lambda _line: None
        self.unclean_elections = 0
        self.on_unclean: Callable[[Place, bool], None] = lambda _place, _was_last: None
        """Called with the partition, and whether the new leader is the last one that was in sync, alone."""
        self._digest = sha256()

    @property
    def digest(self) -> str:
        """Of all bytes of all logs, those that were lost included."""
        return self._digest.hexdigest()

    def look(self, data: bytes) -> None:
        """What was appended. The server has nothing to do with what is wrong with it: that is told afterwards."""
        try:
            self.see(data)
        except Violation as violation:
            self.violations.append(violation)

    def see(self, data: bytes) -> None:
        """What was appended. Raises Violation."""
        position = 0
        for batch in decode_batches(data):
            self._digest.update(data[position : position + batch.size_bytes])
            self.batches.append(data[position : position + batch.size_bytes])
            position += batch.size_bytes
            reason = f"{batch.base_offset} after {self.end_offset}"
            demand("log_offsets_have_no_gap", batch.base_offset == self.end_offset, reason)
            self.end_offset = batch.last_offset + 1
            if not batch.is_control:
                self._see_batch(batch)

    def _see_batch(self, batch: Batch) -> None:
        before, self.asking, asked = dict(self.shadow.usage.replicas), None, self.asking
        partitions = self.shadow.usage.partitions
        self.configs.dynamic = {name: dict(of) for (kind, name), of in self.shadow.configs.items() if kind == BROKER}
        limits = self.configs.limits(asked)
        note(self.written, batch)
        for offset, record in enumerate(batch.records, batch.base_offset):
            self._see_record(record, offset)
        now = self.shadow.usage
        for broker_id, held in now.replicas.items():
            fits = held <= limits.replicas or held <= before.get(broker_id, 0)
            demand("limits_are_never_exceeded_by_new_placements", fits, f"broker {broker_id}: {held} > {limits}")
        fits = now.partitions <= limits.partitions or now.partitions <= partitions
        demand("limits_are_never_exceeded_by_new_placements", fits, f"{now.partitions} partitions > {limits}")

    def _see_record(self, record: Any, offset: int) -> None:
        before = self._partition(record)
        replay(self.shadow, [record], offset)
        after = self._partition(record)
        if before is None or after is None:
            return
        self.changes.append((before, after))
        kept = after.leader_epoch >= before.leader_epoch and after.partition_epoch > before.partition_epoch
        demand("epochs_never_go_back", kept, f"{before} {after}")
        own = after.leader in (before.leader, -1) or after.leader_epoch > before.leader_epoch
        demand("one_leader_of_an_epoch", own, f"{before} {after}")
        clean = {*before.isr, *before.eligible_leader_replicas}
        if after.leader >= 0 and after.leader != before.leader and after.leader not in clean:
            self.unclean_elections += 1
            was_last = before.last_known_elr == (after.leader,) or before.isr == (after.leader,)
            self.on_unclean((record.topic_id, record.partition_id), was_last)

    def _partition(self, record: Any) -> Partition | None:
        if not isinstance(record, PartitionChangeRecord):
            return None
        return self.shadow.partitions.read(self.shadow.topics_by_id[record.topic_id].row, record.partition_id)

    def begin_again(self, survived: bytes, first_offset: int) -> None:
        """A new process finds these bytes of the log, from this offset on; what was before is in a snapshot, which
        shows in the image: it has to be that of all batches."""
        starts = [decode_batch_header(batch, 0).base_offset for batch in self.batches]
        first = starts.index(first_offset) if first_offset in starts else len(starts)
        count, size = first, 0
        while count < len(self.batches) and size + len(self.batches[count]) <= len(survived):
            size += len(self.batches[count])
            count += 1
        sound = survived == b"".join(self.batches[first:count])
        reason = f"{len(survived)} bytes from offset {first_offset} on"
        demand("a_restart_finds_whole_batches_as_they_were_written", sound, reason)
        self.batches, self.shadow, self.written = self.batches[:count], MetadataImage(), Written()
        self.end_offset = 0
        for batch in decode_batches(b"".join(self.batches)):
            note(self.written, batch)
            self.end_offset = batch.last_offset + 1
            if not batch.is_control:
                replay(self.shadow, batch.records, batch.base_offset)
        self.changes.clear()
        told, there = self.promised, self.written
        enough = self.end_offset >= told.end_offset
        demand(
            "no_answer_told_of_what_a_crash_can_take",
            enough,
            f"the log ends at {self.end_offset}, clients saw {told.end_offset}",
        )
        kept = told.created.items() <= there.created.items() and told.removed <= there.removed
        demand("acknowledged_changes_survive", kept and told.configs <= there.configs, f"{told} but {there}")


def note(written: Written, batch: Batch) -> None:
    """What a batch says; a topic and its first partitions stand in one."""
    counts: dict[Uuid, int] = {}
    for record in batch.records:
        if isinstance(record, TopicRecord):
            counts[record.topic_id] = 0
        elif isinstance(record, PartitionRecord) and record.topic_id in counts:
            counts[record.topic_id] += 1
        elif isinstance(record, RemoveTopicRecord):
            written.removed.add(record.topic_id)
        elif isinstance(record, ConfigRecord):
            written.configs.add((record.resource_type, record.resource_name, record.name, record.value))
    demand("no_change_is_half", all(counts.values()), f"topics without partitions: {counts}")
    written.created |= counts


class WatchedLog(SegmentLog):
    """The real one. What each append wrote is read from its file."""

    witness: Witness
    _seen_bytes: int
    _seen_segment: int

    def watch(self, witness: Witness) -> None:
        """To be called once it is open; what an opening appended is looked at now."""
        self.witness = witness
        segments = list_segments(self._log_folder)
        survived = b"".join(segment.path.read_bytes() for segment in segments)
        *_, begun = decode_batches(survived)
        witness.begin_again(survived[: len(survived) - begun.size_bytes], segments[0].base_offset)
        witness.see(survived[len(survived) - begun.size_bytes :])
        self._seen_segment, self._seen_bytes = segments[-1].base_offset, segments[-1].path.stat().st_size

    def append_batch(self, batch: BatchBuilder, timestamp_ms: int) -> tuple[int, int]:
        written = super().append_batch(batch, timestamp_ms)
        if not self.witness.dead:
            active = self._tail.segments[-1]
            if active.base_offset != self._seen_segment:
                self._seen_segment, self._seen_bytes = active.base_offset, 0
            data = os.pread(active.fd, 1 << 30, self._seen_bytes)
            self._seen_bytes += len(data)
            self.witness.look(data)
        return written


class WatchedController(Controller):
    """The real one. Says who is asked before it decides. What it takes for long is little, so that much is."""

    items_at_once = 1
    witness: Witness

    def submit(self, call: Call) -> Answer:
        with self._asking(call.broker_id):
            return super().submit(call)

    def begin(self, call: Call, *, others_wait: bool = False) -> Answer | LongDecision:
        with self._asking(call.broker_id):
            return super().begin(call, others_wait=others_wait)

    def commit(self, decision: LongDecision) -> Answer:
        with self._asking(decision.call.broker_id):
            return super().commit(decision)

    @contextmanager
    def _asking(self, broker_id: int | None) -> Iterator[None]:
        self.witness.asking = broker_id
        try:
            yield
        finally:
            self.witness.asking = None


class WatchedRequestLog(RequestLog):
    """The real one. Every line is shown at once: the image is still what the answer saw."""

    witness: Witness

    def append(self, line: RequestLine) -> None:
        if not self.witness.dead:
            self.witness.on_decided(line)
        super().append(line)
