"""Which topics the members of a group are subscribed to, and what is known of these topics."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from klamm.broker.groups.consumer.group import ConsumerGroup, ResolvedRegex
from klamm.broker.groups.consumer.member import Member
from klamm.broker.groups.consumer.topics import Topic, Topics
from klamm.protocol.uuid import Uuid


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """The counts of `ConsumerGroup` as they will be."""

    topic_names: Counter[str]
    regexes: Counter[str]
    resolved_topics: Counter[str]

    def all_topic_names(self) -> set[str]:
        return self.topic_names.keys() | self.resolved_topics.keys()

    def homogeneous(self, size: int) -> bool:
        """All `size` members are subscribed to the same topics: by names alone, or by one regular expression alone."""
        if not self.regexes:
            return all(self.topic_names[name] == size for name in self.all_topic_names())
        return (
            len(self.regexes) == 1
            and self.regexes.total() == size
            and not self.topic_names
            and all(count == 1 for count in self.resolved_topics.values())
        )


def subscriptions_after(group: ConsumerGroup, removed: Sequence[Member], added: Sequence[Member]) -> Subscriptions:
    """The subscriptions when `removed` have gone (or are what they were) and `added` have come.

    Of a regular expression that its last member leaves, the topics no longer count; those of a new one count as soon
    as it has been resolved.
    """
    topic_names, regexes = group.topic_name_counts.copy(), group.regex_counts.copy()
    resolved_topics = group.resolved_topic_counts.copy()
    for members, step in ((removed, -1), (added, 1)):
        for member in members:
            _add(topic_names, member.subscribed_topic_names, step)
            if member.subscribed_topic_regex:
                _add(regexes, (member.subscribed_topic_regex,), step)
    for regex in {member.subscribed_topic_regex for member in removed} - regexes.keys():
        if regex in group.resolved:
            _add(resolved_topics, group.resolved[regex].topic_names, -1)
    return Subscriptions(+topic_names, +regexes, +resolved_topics)


def _add(counts: Counter[str], names: Iterable[str], step: int) -> None:
    for name in names:
        counts[name] += step


def subscribed_topics(member: Member, resolved: Mapping[str, ResolvedRegex], topics: Topics) -> Mapping[Uuid, Topic]:
    """The topics that exist of those that a member is subscribed to, by id."""
    names = member.subscribed_topic_names
    if member.subscribed_topic_regex in resolved:
        names |= resolved[member.subscribed_topic_regex].topic_names
    found = (topics.named(name) for name in sorted(names))
    return {topic.topic_id: topic for topic in found if topic is not None}


def metadata_hash(topic_names: Iterable[str], topics: Topics) -> int:
    """A number of 64 bits with sign that changes when one of these topics appears, vanishes, grows or changes racks.

    0 if none of them exists, as in Kafka. Kafka computes it with XXH3: the numbers differ, and are compared only with
    those of the same group.
    """
    found = [topic for name in sorted(topic_names) if (topic := topics.named(name)) is not None]
    if not found:
        return 0
    digest = blake2b(digest_size=8)
    for topic in found:
        digest.update(topics.fingerprint(topic))
    return int.from_bytes(digest.digest(), signed=True)
