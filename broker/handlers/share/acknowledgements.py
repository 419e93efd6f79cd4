"""The acknowledgements of a ShareAcknowledge or ShareFetch request: checked, carried out, and what became of each
partition's. Order of the checks: `KafkaApis.handleAcknowledgements`, `validateAcknowledgementBatches`."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from klamm.broker.handlers.hosted import find_partition
from klamm.broker.share_partitions.acknowledgement import REJECT, RENEW, Acknowledged, acknowledge
from klamm.broker.share_partitions.leaders import ShareLeaders
from klamm.broker.share_partitions.share_partition import Phase
from klamm.broker.share_state.offset import SharePartitionKey
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey
from klamm.protocol.errors import ApiError, ErrorCode

OK = ApiError(ErrorCode.NONE)
Results: TypeAlias = dict[LogKey, ApiError]
FIRST_VERSION_WITH_RENEWAL = 2


@dataclass(slots=True)
class Acknowledgements:
    """The acknowledgements of one request, under way."""

    leaders: ShareLeaders
    group_id: str
    member_id: str
    renews: bool
    """`is_renew_ack` of the request: renewals are allowed."""
    most_type: int
    results: Results = field(default_factory=dict)
    _left: int = 0

    @property
    def are_done(self) -> bool:
        """Whether the share coordinator has answered all of them."""
        return self._left == 0

    def begin(
        self,
        image: MetadataImage,
        broker_id: int,
        topics: Iterable[Any],
        denied: Collection[str],
    ) -> None:
        """Carry out those of a request's `topics`."""
        wanted: dict[LogKey, list[Acknowledged]] = {}
        for topic in topics:
            for one in topic.partitions:
                wanted[topic.topic_id, one.partition_index] = [
                    Acknowledged(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                    for batch in one.acknowledgement_batches
                ]
        allowed = {
            place: batches for place, batches in wanted.items() if self._is_allowed(image, place, batches, denied)
        }
        if not any(allowed.values()):
            # As in Kafka: partitions without acknowledgements are not in an answer that has no others.
            return
        for place, batches in allowed.items():
            if batches:
                self._begin_one(broker_id, place, batches)
            else:
                self.results[place] = OK

    def _is_allowed(
        self, image: MetadataImage, place: LogKey, batches: list[Acknowledged], denied: Collection[str]
    ) -> bool:
        topic = image.topics_by_id.get(place[0])
        code = ErrorCode.NONE
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        elif not self._are_valid(batches):
            code = ErrorCode.INVALID_REQUEST
        elif topic.name in denied:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif find_partition(image, self.leaders.data, topic, place[1]) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code:
            self.results[place] = ApiError(code)
        return not code

    def _are_valid(self, batches: Iterable[Acknowledged]) -> bool:
        before = -1
        for batch in batches:
            types = batch.types
            if batch.first_offset > batch.last_offset or batch.first_offset < before or not types:
                return False
            if len(types) > 1 and batch.last_offset - batch.first_offset != len(types) - 1:
                return False
            if any(not 0 <= kind <= self.most_type or (kind == RENEW and not self.renews) for kind in types):
                return False
            before = batch.last_offset
        return True

    def _begin_one(self, broker_id: int, place: LogKey, batches: list[Acknowledged]) -> None:
        partition = self.leaders.find(broker_id, SharePartitionKey(self.group_id, *place))
        if partition is None or partition.phase is not Phase.ACTIVE:
            text = "This server does not host this topic-partition."
            self.results[place] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
            return
        self._left += 1

        def done(error: ApiError | None) -> None:
            self._left -= 1
            self.results[place] = error or OK
            self.leaders.data.watches.touch(place)

        acknowledge(partition, self.member_id, batches, done)


def most_acknowledge_type(api_version: int) -> int:
    """The highest acknowledgement type of a version."""
    return RENEW if api_version >= FIRST_VERSION_WITH_RENEWAL else REJECT


def have_acknowledgements(topics: Iterable[Any]) -> bool:
    """Whether a ShareFetch request has any."""
    return any(one.acknowledgement_batches for topic in topics for one in topic.partitions)


def by_topic(results: Mapping[LogKey, Any]) -> dict[Any, dict[int, Any]]:
    """Results by topic id and partition."""
    found: dict[Any, dict[int, Any]] = {}
    for (topic_id, index), result in results.items():
        found.setdefault(topic_id, {})[index] = result
    return found
