"""The partitions of a share group whose state the share coordinator has: each of these functions returns what
`StateTopics` become, and changes nothing.

A partition is in `initializing` from the heartbeat that first subscribes to its topic until the share coordinator has
answered, then in `initialized`. A topic whose state is being deleted is in `deleting`.
"""

from collections.abc import Iterable, Mapping

from klamm.broker.groups.consumer.topics import Topics
from klamm.broker.groups.share.group import ShareGroup, StatePartitions, StateTopics
from klamm.protocol.uuid import Uuid

UNINITIALIZED: int = -1
"""The start offset of a partition before its leader has chosen one."""
_UNKNOWN_NAME = "<UNKNOWN>"


def missing_partitions(
    group: ShareGroup, topic_names: Iterable[str], topics: Topics, now_ms: int, retry_ms: int
) -> dict[Uuid, StatePartitions]:
    """The partitions of these topics that are not initialized. Those that were asked for less than `retry_ms` ago are
    left out."""
    known = group.state_topics or StateTopics()
    pending = {topic_id: found for topic_id, found in known.initializing.items() if now_ms - found.since_ms < retry_ms}
    done = combined(known.initialized, pending)
    missing: dict[Uuid, StatePartitions] = {}
    for name in topic_names:
        topic = topics.named(name)
        if topic is None:
            continue
        have = done[topic.topic_id].partitions if topic.topic_id in done else frozenset()
        if len(have) < topic.partitions:
            missing[topic.topic_id] = StatePartitions(name, frozenset(range(topic.partitions)) - have, now_ms)
    return missing


def with_initializing(known: StateTopics | None, added: Mapping[Uuid, StatePartitions]) -> StateTopics:
    """The initialization of more partitions begins."""
    if known is None:
        return StateTopics(initializing=dict(added))
    initializing = combined(known.initializing, added)
    deleting = {topic_id: name for topic_id, name in known.deleting.items() if topic_id not in initializing}
    return StateTopics(initializing, known.initialized, deleting)


def with_initialized(
    known: StateTopics | None, done: Mapping[Uuid, Iterable[int]], topics: Topics, now_ms: int
) -> StateTopics:
    """The share coordinator has the state of these partitions."""
    known = known or StateTopics()
    named = {
        topic_id: StatePartitions(_name_of(topic_id, topics), frozenset(partitions), now_ms)
        for topic_id, partitions in done.items()
        if topics.with_id(topic_id) is not None
    }
    return StateTopics(without(known.initializing, done), combined(known.initialized, named), known.deleting)


def without(
    topics: Mapping[Uuid, StatePartitions], partitions: Mapping[Uuid, Iterable[int]]
) -> dict[Uuid, StatePartitions]:
    """The topics without these partitions; a topic without any is left out."""
    left = {
        topic_id: StatePartitions(
            found.topic_name, found.partitions - frozenset(partitions.get(topic_id, ())), found.since_ms
        )
        for topic_id, found in topics.items()
    }
    return {topic_id: found for topic_id, found in left.items() if found.partitions}


def combined(
    first: Mapping[Uuid, StatePartitions], second: Mapping[Uuid, StatePartitions]
) -> dict[Uuid, StatePartitions]:
    """The partitions of both; name and time are those of the second."""
    both = dict(first)
    for topic_id, found in second.items():
        before = both[topic_id].partitions if topic_id in both else frozenset()
        both[topic_id] = StatePartitions(found.topic_name, before | found.partitions, found.since_ms)
    return both


def without_deleted_topics(known: StateTopics, topics: Topics) -> StateTopics | None:
    """The state topics that still exist; None: all of them do."""
    ids = (*known.initializing, *known.initialized, *known.deleting)
    if all(topics.with_id(topic_id) is not None for topic_id in ids):
        return None
    return StateTopics(
        {topic_id: found for topic_id, found in known.initializing.items() if topics.with_id(topic_id) is not None},
        {topic_id: found for topic_id, found in known.initialized.items() if topics.with_id(topic_id) is not None},
        {topic_id: name for topic_id, name in known.deleting.items() if topics.with_id(topic_id) is not None},
    )


def assignment_is_pending(group: ShareGroup) -> bool:
    """A subscribed topic is initialized with other partitions than the target assignment gives out."""
    if group.state_topics is None or not group.members:
        return False
    given: dict[Uuid, set[int]] = {}
    for assignment in group.target.values():
        for topic_id, partitions in assignment.items():
            given.setdefault(topic_id, set()).update(partitions)
    return any(
        found.topic_name in group.topic_name_counts and frozenset(given.get(topic_id, ())) != found.partitions
        for topic_id, found in group.state_topics.initialized.items()
    )


def _name_of(topic_id: Uuid, topics: Topics) -> str:
    topic = topics.with_id(topic_id)
    return topic.name if topic is not None else _UNKNOWN_NAME
