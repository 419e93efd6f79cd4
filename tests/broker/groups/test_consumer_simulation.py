"""Random members of a consumer group, of both protocols, with named invariants after every step: as the coordinator
sees it, a partition belongs to one member at most; replay of the records gives the same group; epochs never decrease.
When nothing happens any more, no member has a partition to which it is not subscribed, the group is stable, and every
partition of every subscribed topic is assigned."""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from klamm.broker.groups.consumer.group import ConsumerGroup
from klamm.broker.groups.consumer.member import Member
from klamm.broker.groups.consumer.outcome import GroupSettings
from klamm.broker.groups.consumer.replay import replay
from klamm.protocol.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from klamm.protocol.uuid import Uuid
from tests.broker.groups.consumer_host import ConsumerHost, same

GROUP = "g"
TOPICS = ("orders", "payments", "audit")
REGEXES = ("", "", "o.*", "(orders|audit)", "p[a-z]+")
SETTINGS = GroupSettings(session_timeout_ms=1_000, assignment_interval_ms=0, regex_refresh_interval_ms=20_000)

member_ids = st.sampled_from(("a", "b", "c", "d"))
instance_ids = st.sampled_from((None, None, "i1", "i2"))
names = st.frozensets(st.sampled_from(TOPICS))


@dataclass(slots=True)
class Client:
    """What a consumer knows: its epoch and what it owns."""

    member_id: str
    instance_id: str | None
    epoch: int = 0
    owned: dict[Uuid, frozenset[int]] = field(default_factory=dict)
    wanted: dict[Uuid, frozenset[int]] | None = None
    """The last assignment, as long as the client has not applied it."""
    missed_an_answer: bool = False
    """The next request has all fields, as those of Kafka's own clients do, so that the answer has the assignment."""
    topic_names: list[str] = field(default_factory=list)
    regex: str = ""

    def partitions(self) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=topic_id, partitions=sorted(owned)) for topic_id, owned in self.owned.items()]


class ConsumerGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.host = ConsumerHost(SETTINGS)
        self.clients: dict[str, Client] = {}
        self.group_epoch = self.assignment_epoch = 0

    @initialize(partitions=st.integers(1, 6))
    def topics(self, partitions: int) -> None:
        self.host.topics.create("orders", partitions)
        self.host.topics.create("payments", 3)

    @rule(
        member_id=member_ids,
        instance_id=instance_ids,
        topic_names=names,
        regex=st.sampled_from(REGEXES),
        assignor=st.sampled_from((None, "uniform", "range")),
    )
    def join(
        self, member_id: str, instance_id: str | None, topic_names: frozenset[str], regex: str, assignor: str | None
    ) -> None:
        response = self.host.heartbeat(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=member_id,
                instance_id=instance_id,
                rebalance_timeout_ms=3_000,
                subscribed_topic_names=sorted(topic_names),
                subscribed_topic_regex=regex,
                server_assignor=assignor,
                topic_partitions=[],
            )
        )
        if response.error_code:
            return
        for other in list(self.clients.values()):
            if other.member_id == member_id or (instance_id is not None and other.instance_id == instance_id):
                del self.clients[other.member_id]
        self.clients[member_id] = Client(member_id, instance_id, topic_names=sorted(topic_names), regex=regex)
        self._heard(self.clients[member_id], response)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), applies=st.booleans(), says=st.booleans(), lost=st.booleans())
    def beat(self, data: st.DataObject, *, applies: bool, says: bool, lost: bool) -> None:
        client = self._choose(data)
        if applies:
            self._apply(client)
        response = self._beat(client, says=says)
        client.missed_an_answer |= lost
        if not lost or response.error_code:
            self._heard(client, response)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), topic_names=names, regex=st.sampled_from((None, *REGEXES)))
    def subscribe(self, data: st.DataObject, topic_names: frozenset[str], regex: str | None) -> None:
        client = self._choose(data)
        client.topic_names = sorted(topic_names)
        client.regex = client.regex if regex is None else regex
        self._heard(client, self._beat(client, says=False, topic_names=client.topic_names, regex=regex))

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), for_a_while=st.booleans())
    def leave(self, data: st.DataObject, *, for_a_while: bool) -> None:
        client = self._choose(data)
        client.epoch = -2 if for_a_while and client.instance_id is not None else -1
        self._beat(client, says=False)
        del self.clients[client.member_id]

    @rule(duration_ms=st.sampled_from((10, 600, 1_100, 12_000)))
    def time_passes(self, duration_ms: int) -> None:
        self.host.sleep(duration_ms)

    @rule(name=st.sampled_from(TOPICS), partitions=st.integers(1, 6))
    def change_topic(self, name: str, partitions: int) -> None:
        topic = self.host.topics.named(name)
        if topic is None:
            self.host.topics.create(name, partitions)
        elif partitions > topic.partitions:
            self.host.topics.grow(name, partitions)
        elif partitions == 1:
            self.host.topics.delete(name)
        self.host.topics_changed()

    def _choose(self, data: st.DataObject) -> Client:
        return self.clients[data.draw(st.sampled_from(sorted(self.clients)))]

    def _beat(
        self, client: Client, *, says: bool, topic_names: list[str] | None = None, regex: str | None = None
    ) -> ConsumerGroupHeartbeatResponse:
        says_all, client.missed_an_answer = client.missed_an_answer, False
        return self.host.heartbeat(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=client.member_id,
                member_epoch=client.epoch,
                instance_id=client.instance_id,
                rebalance_timeout_ms=3_000 if says_all else -1,
                topic_partitions=client.partitions() if says or says_all else None,
                subscribed_topic_names=client.topic_names if says_all else topic_names,
                subscribed_topic_regex=client.regex if says_all else regex,
            )
        )

    def _heard(self, client: Client, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.error_code:
            self.clients.pop(client.member_id, None)
            return
        client.epoch = response.member_epoch
        if response.assignment is not None:
            client.wanted = {
                topic.topic_id: frozenset(topic.partitions) for topic in response.assignment.topic_partitions
            }

    @staticmethod
    def _apply(client: Client) -> None:
        if client.wanted is not None:
            client.owned, client.wanted = dict(client.wanted), None

    @property
    def group(self) -> ConsumerGroup | None:
        return self.host.groups.get(GROUP)

    @invariant()
    def a_partition_belongs_to_one_member(self) -> None:
        owners = Counter(
            (topic_id, partition)
            for member in (self.group.members.values() if self.group is not None else ())
            for epochs in (member.assigned, member.pending_revocation)
            for topic_id, partitions in epochs.items()
            for partition in partitions
        )
        assert all(count == 1 for count in owners.values()), owners
        if self.group is not None:
            assert all(self.group.is_owned(*place) for place in owners)

    @invariant()
    def a_partition_is_in_one_target(self) -> None:
        targets = Counter(
            (topic_id, partition)
            for assignment in (self.group.target.values() if self.group is not None else ())
            for topic_id, partitions in assignment.items()
            for partition in partitions
        )
        assert all(count == 1 for count in targets.values()), targets

    @invariant()
    def replay_makes_the_same_group(self) -> None:
        groups: dict[str, ConsumerGroup] = {}
        for record in self.host.log:
            replay(groups, record.key, record.value)
        assert groups.keys() == self.host.groups.keys()
        assert all(same(groups[group_id], group) for group_id, group in self.host.groups.items())

    @invariant()
    def epochs_never_go_back(self) -> None:
        if self.group is not None:
            assert self.group.group_epoch >= self.group_epoch
            assert self.group.assignment_epoch >= self.assignment_epoch
            assert self.group.group_epoch >= self.group.assignment_epoch
            assert all(member.member_epoch <= self.group.group_epoch for member in self.group.members.values())
            self.group_epoch, self.assignment_epoch = self.group.group_epoch, self.group.assignment_epoch

    def teardown(self) -> None:
        """From here on there are only heartbeats: members that have stopped time out, and the group becomes stable."""
        for round_number in range(60):
            for client in list(self.clients.values()):
                self._apply(client)
                self._heard(client, self._beat(client, says=True))
            self.host.sleep(500)
            if round_number > 25 and (self.group is None or self.group.state in ("Stable", "Empty")):
                break
        assert self.group is None or self.group.state in ("Stable", "Empty")
        if self.group is None:
            return
        assert self.group.members.keys() == self.clients.keys()
        for member in self.group.members.values():
            client = self.clients[member.member_id]
            assert client.epoch == member.member_epoch == self.group.group_epoch
            assert client.owned == {topic_id: frozenset(epochs) for topic_id, epochs in member.assigned.items()}
        self._assert_all_is_assigned(self.group)

    def _assert_all_is_assigned(self, group: ConsumerGroup) -> None:
        subscribed = [self._subscribed(member, group) for member in group.members.values()]
        topics = {
            topic for names in subscribed for name in names if (topic := self.host.topics.named(name)) is not None
        }
        assigned = {
            (topic_id, partition)
            for member in group.members.values()
            for topic_id, epochs in member.assigned.items()
            for partition in epochs
        }
        assert assigned == {(topic.topic_id, partition) for topic in topics for partition in range(topic.partitions)}

    @staticmethod
    def _subscribed(member: Member, group: ConsumerGroup) -> frozenset[str]:
        resolved = group.resolved.get(member.subscribed_topic_regex)
        return member.subscribed_topic_names | (resolved.topic_names if resolved is not None else frozenset())


TestConsumerGroup = ConsumerGroupMachine.TestCase
TestConsumerGroup.settings = settings(stateful_step_count=40, deadline=None)
