"""The background work on the records of topics: retention, every `log.retention.check.interval.ms`, and compaction, for
which the cleaner rests `log.cleaner.backoff.ms` when it has found nothing. As Kafka's LogManager and LogCleaner.

Time is the controller's clock. Each tick does a bounded part, so that requests wait for some 20 ms at most. Internal
topics are left out: their coordinators compact them.
"""

from collections.abc import Iterator
from math import inf
from typing import Final

from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.log_compaction import Dirty, LogCompaction, dirty_part
from klamm.broker.data.record_file import RecordFileError
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.broker.data.retention import retained_start
from klamm.controller.configs import (
    CleanupRules,
    log_cleaner_backoff_ms,
    log_cleaner_enabled,
    retention_check_interval_ms,
)
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey
from klamm.controller.settings import Settings

INITIAL_DELAY_MS: Final = 30_000
"""The time until the first check of retention: Kafka's log.initial.task.delay.ms, which is internal."""
PARTITIONS_PER_TICK: Final = 300
BATCHES_PER_PARTITION: Final = 2_000
"""A partition with more batches counts as several."""
BATCHES_PER_TICK: Final = 20_000
"""The most batches that retention removes in a tick, about 10 ms."""


class Cleanup:
    """Retention and compaction of the partitions of one data plane."""

    def __init__(self, data: DataPlane, settings: Settings) -> None:
        self._data = data
        self._settings = settings
        self._retention_due_ms: int | None = None
        self._cleaner_due_ms = 0
        self._now_ms = 0
        self._retention: Iterator[None] | None = None
        self._cleaner: Iterator[None] | None = None
        self._uncleanable: set[LogKey] = set()
        """The partitions whose records cannot be read from the file."""

    @property
    def is_busy(self) -> bool:
        """Whether some of what is due is left for the next tick."""
        return self._retention is not None or self._cleaner is not None

    @property
    def next_due_ms(self) -> float:
        """When `tick` has something to do."""
        if self.is_busy or self._retention_due_ms is None:
            return 0
        cleaner_due_ms = self._cleaner_due_ms if log_cleaner_enabled(self._settings) else inf
        return min(self._retention_due_ms, cleaner_due_ms)

    def make_due(self, now_ms: int) -> None:
        """Let the next ticks check retention, and look for logs to compact, whenever that was done last."""
        self._retention_due_ms = self._cleaner_due_ms = now_ms

    def tick(self, image: MetadataImage, now_ms: int) -> None:
        """Do a part of what is due. To be called regularly."""
        if self._retention_due_ms is None:
            self._retention_due_ms = now_ms + INITIAL_DELAY_MS
            self._cleaner_due_ms = now_ms + log_cleaner_backoff_ms(image.configs, self._settings)
        if self._retention is None and now_ms >= self._retention_due_ms:
            self._retention_due_ms = now_ms + retention_check_interval_ms(self._settings)
            self._retention = self._retain_all(image)
        if self._cleaner is None and now_ms >= self._cleaner_due_ms and log_cleaner_enabled(self._settings):
            self._cleaner = self._clean_all(image)
        self._now_ms = now_ms
        if self._retention is not None and next(self._retention, self) is self:
            self._retention = None
        if self._cleaner is not None and next(self._cleaner, self) is self:
            self._cleaner = None
            self._cleaner_due_ms = now_ms + log_cleaner_backoff_ms(image.configs, self._settings)

    def _partitions(self, image: MetadataImage) -> Iterator[tuple[LogKey, ReplicatedLog, CleanupRules] | None]:
        """The partitions that are led from here, with their rules; None: a part of the work is done."""
        count = 0
        for topic_id in list(self._data.topic_ids):
            for partition_index in list(self._data.partitions_of(topic_id)):
                topic, found = image.topics_by_id.get(topic_id), self._data.find(topic_id, partition_index)
                if topic is not None and found is not None and found.is_led and not topic.is_internal:
                    yield (topic_id, partition_index), found, self._data.cleanup_rules(image, topic, found.leader)
                count += 1 if found is None else 1 + found.log.batch_count // BATCHES_PER_PARTITION
                if count >= PARTITIONS_PER_TICK:
                    count = 0
                    yield None

    # -- retention -------------------------------------------------------------------------------------------------

    def _retain_all(self, image: MetadataImage) -> Iterator[None]:
        for one in self._partitions(image):
            if one is None:
                yield
            elif not one[2].compacts:
                yield from self._retain(*one)

    def _retain(self, key: LogKey, found: ReplicatedLog, rules: CleanupRules) -> Iterator[None]:
        """Delete what retention no longer covers, a number of batches at a time."""
        log = found.log
        while (start := self._retained_start(found, rules)) > log.log_start_offset:
            while log.log_start_offset < start:
                step = min(start, log.offset_after(BATCHES_PER_TICK))
                self._data.delete_before(*key, step, self._now_ms)
                if not log.size_bytes:
                    log.segments.begin(log.log_end_offset, self._now_ms)
                if step < start:
                    yield
                    if self._data.find(*key) is not found:  # the topic was deleted
                        return
                    start = min(start, log.log_end_offset)

    def _retained_start(self, found: ReplicatedLog, rules: CleanupRules) -> int:
        return retained_start(found.log, rules, found.high_watermark(self._now_ms), self._now_ms)

    # -- compaction ------------------------------------------------------------------------------------------------

    def _clean_all(self, image: MetadataImage) -> Iterator[None]:
        """Compact the log with the largest share of dirty bytes, as long as there is one; also apply retention to
        compacted topics that have both policies."""
        while True:
            best: tuple[float, LogKey] | None = None
            for one in self._partitions(image):
                if one is None:
                    yield
                    continue
                key, found, rules = one
                if not rules.compacts:
                    continue
                yield from self._retain(*one)
                dirty = self._dirty(key, found, rules)
                if dirty is not None and (best is None or dirty.ratio > best[0]):
                    best = dirty.ratio, key
            if best is None:
                return
            yield from self._clean(image, best[1])
            yield

    def _dirty(self, key: LogKey, found: ReplicatedLog, rules: CleanupRules) -> Dirty | None:
        return None if key in self._uncleanable else dirty_part(found, rules, self._now_ms)

    def _clean(self, image: MetadataImage, key: LogKey) -> Iterator[None]:
        topic, found = image.topics_by_id.get(key[0]), self._data.find(*key)
        if topic is None or found is None:
            return
        rules = self._data.cleanup_rules(image, topic, found.leader)
        dirty = self._dirty(key, found, rules)
        if dirty is None:
            return
        compaction = LogCompaction(found, dirty, rules, self._now_ms)
        try:
            for _ in compaction.steps():
                self._data.room.settle()
                yield
                if compaction.is_obsolete or self._data.find(*key) is not found:
                    return
        except RecordFileError:
            self._uncleanable.add(key)
        self._data.room.settle()
