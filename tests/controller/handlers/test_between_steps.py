"""Any request, a tick or a restart may come between two steps of long work. Steps are as small as possible, deletions
compact the tables at once, and after each event the invariants of `stepwise` hold. When no work is left, no partition
needs a change."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.controller.metadata.broker import BrokerState
from klamm.controller.metadata.partition import Partition
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.controller.transitions import long_work
from klamm.controller.transitions.broker_lifecycle import BrokerStatus, broker_status
from klamm.protocol.messages.brokers.unregister_broker import UnregisterBrokerRequest
from klamm.protocol.messages.topics.create_topics import CreatableTopicConfig
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.controller.handlers.cluster import ENOUGH_TIME_MS, DrivenCluster
from tests.controller.handlers.config_requests import BROKER, DELETE, SET, TOPIC, edit
from tests.controller.handlers.reassignment_requests import elect, move
from tests.controller.handlers.stepwise import (
    Key,
    check_answers,
    check_change,
    check_partition,
    check_rest,
    in_elrs,
    in_isrs,
    live_brokers,
    partitions_by_id,
)
from tests.controller.handlers.test_limits import enlarge
from tests.controller.handlers.tiny_steps import finish, make_steps_tiny
from tests.controller.image_facts import image_facts

BROKERS = 4
TARGETS = ([1, 2], [2, 1], [3], [2, 3, 4], [4, 1, 2], [1, 2, 3, 4], [4], [3, 1])
"""The replica lists to which partitions are moved."""
Event = tuple[str, int, int]


class Stepwise:
    """A cluster whose work takes several steps, and how each broker last stopped."""

    def __init__(self) -> None:
        self.cluster = DrivenCluster(BROKERS)
        self.seen: dict[Key, Partition] = {}
        self.made = 0
        self.came_back: dict[int, bool] = {}
        """Brokers that have been fenced since they registered as another incarnation; whether they stopped cleanly, as
        far as this process knows."""
        self.distrusted: set[int] = set()
        """Those of them that served until they stopped uncleanly."""
        self.counts: Counter[str] = Counter()
        """How often each case that the test is about has occurred."""

    def take(self, event: Event) -> None:
        kind, one, other = event
        getattr(self, kind)(one, other)
        self.check()

    def check(self) -> None:
        found, live = partitions_by_id(self.cluster), live_brokers(self.cluster)
        for key, partition in found.items():
            check_partition(partition)
            if key in self.seen:
                check_change(self.seen[key], partition, live)
        for broker_id in self.distrusted:
            trusted = {key for key, one in found.items() if broker_id in one.eligible_leader_replicas}
            before = {key for key, one in self.seen.items() if broker_id in one.eligible_leader_replicas}
            assert trusted <= before, "after an unclean end a broker becomes eligible nowhere"
        self.seen = found
        self.counts["work was left"] += self.cluster.controller.has_work

    def _topic(self, pick: int) -> str | None:
        names = sorted(self.cluster.image.topics_by_name)
        return names[pick % len(names)] if names else None

    def _broker(self, pick: int, first: Callable[[BrokerState], bool] = lambda _: True) -> int | None:
        """A registered broker; one of `first`, if any is registered."""
        brokers = list(self.cluster.image.brokers.values())
        ids = [broker.broker_id for broker in brokers if first(broker)] or [broker.broker_id for broker in brokers]
        return ids[pick % len(ids)] if ids else None

    # Topics

    def create(self, pick: int, size: int) -> None:
        ring = [(pick + position) % BROKERS + 1 for position in range(2 * BROKERS)]
        rows = [ring[first : first + pick % 3 + 1] for first in range(2 + size % 3)]
        configs = [CreatableTopicConfig(name="min.insync.replicas", value=str(1 + size % 3))]
        if pick % 3 == 0:
            configs.append(CreatableTopicConfig(name="unclean.leader.election.enable", value="true"))
        self.cluster.create_at(f"t{self.made}", *rows, configs=configs)
        self.made += 1

    def delete(self, pick: int, _: int) -> None:
        state = DeleteTopicState(name=self._topic(pick))
        self.cluster.ask(DeleteTopicsRequest(topics=[state], timeout_ms=ENOUGH_TIME_MS))

    def grow(self, pick: int, more: int) -> None:
        if name := self._topic(pick):
            enlarge(self.cluster, name, len(self.cluster.partitions(name)) + more % 3)

    def reassign(self, pick: int, target: int) -> None:
        if name := self._topic(pick):
            target %= len(TARGETS) + 1
            move(self.cluster, name, *[TARGETS[target] if target < len(TARGETS) else None] * (1 + pick % 2))

    def elect(self, unclean: int, _: int) -> None:
        elect(self.cluster, None, unclean % 2)

    def configure(self, pick: int, value: int) -> None:
        resource = (TOPIC, name) if pick % 2 and (name := self._topic(pick)) else (BROKER, "")
        if value % 3:
            edit(self.cluster, resource, ("min.insync.replicas", SET, str(value % 3)))
        elif resource[0] == TOPIC:
            edit(self.cluster, resource, ("unclean.leader.election.enable", (SET, DELETE)[value % 2], "true"))

    # Brokers

    def serve(self, pick: int, _: int) -> None:
        if broker_id := self._broker(pick, lambda broker: broker.fenced):
            fenced = self.cluster.image.brokers[broker_id].fenced
            isrs, elrs = in_isrs(self.cluster, broker_id), in_elrs(self.cluster, broker_id)
            if fenced and not self.cluster.heartbeat(broker_id).is_fenced and broker_id in self.came_back:
                assert not isrs, "what its former incarnation was in sync with"
                assert self.came_back.pop(broker_id) or not elrs, "what its former incarnation had acknowledged"
                self.distrusted.discard(broker_id)
                self.counts["came back"] += 1

    def fence(self, pick: int, _: int) -> None:
        if broker_id := self._broker(pick, lambda broker: broker.live):
            self.cluster.heartbeat(broker_id, want_fence=True)

    def stop(self, pick: int, _: int) -> None:
        """A broker in controlled shutdown may stop when it has left every ISR."""
        leads = {partition.leader for partition in partitions_by_id(self.cluster).values()}
        if broker_id := self._broker(
            pick,
            lambda broker: not broker.fenced and (broker.in_controlled_shutdown or broker.broker_id in leads),
        ):
            leaving = broker_status(self.cluster.image.brokers[broker_id]) is BrokerStatus.CONTROLLED_SHUTDOWN
            isrs = in_isrs(self.cluster, broker_id)
            may_stop = self.cluster.heartbeat(broker_id, want_shut_down=True).should_shut_down
            assert not (leaving and may_stop and isrs)
            self.counts["stopped" if may_stop else "may not stop"] += leaving

    def crash(self, pick: int, clean: int) -> None:
        if broker_id := self._broker(pick):
            epoch, was_live = (
                self.cluster.image.brokers[broker_id].broker_epoch,
                self.cluster.image.brokers[broker_id].live,
            )
            self.cluster.controller.end_session(broker_id)
            self.cluster.lives[broker_id] += 1
            previous = epoch if clean % 2 else -1
            assert not self.cluster.register(broker_id, previous_broker_epoch=previous).error_code
            if clean % 2:
                self.distrusted.discard(broker_id)
            elif was_live:
                self.distrusted.add(broker_id)
            self.came_back[broker_id] = bool(clean % 2) and self.came_back.get(broker_id, True)

    def register_again(self, pick: int, _: int) -> None:
        broker_id = pick % BROKERS + 1
        before = self.cluster.image.brokers.get(broker_id)
        if before is None:
            self.came_back[broker_id] = False
            self.cluster.lives[broker_id] += 1
        assert not self.cluster.register(broker_id).error_code
        assert before in (None, self.cluster.image.brokers[broker_id])

    def unregister(self, pick: int, _: int) -> None:
        if len(self.cluster.image.brokers) > 2:
            self.came_back.pop(pick % BROKERS + 1, None)
            self.distrusted.discard(pick % BROKERS + 1)
            self.cluster.ask(UnregisterBrokerRequest(broker_id=pick % BROKERS + 1))

    # Time

    def work(self, steps: int, _: int) -> None:
        for _ in range(1 + steps % 5):
            self.cluster.controller.work()

    def tick(self, _: int, __: int) -> None:
        self.cluster.tick()

    def ask(self, _: int, __: int) -> None:
        check_answers(self.cluster)

    def restart(self, _: int, __: int) -> None:
        self.cluster.restart()
        self.came_back = dict.fromkeys(self.came_back, True)
        self.distrusted.clear()

    def rest(self) -> None:
        finish(self.cluster)
        self.check()
        self.cluster.tick()
        finish(self.cluster)
        self.check()
        check_answers(self.cluster)
        check_rest(self.cluster)
        assert self.cluster.replayed_facts() == image_facts(self.cluster.image)


EVENTS = (
    *(
        "stop",
        "work",
        "crash",
        "serve",
        "stop",
        "work",
        "stop",
        "create",
        "work",
        "fence",
        "serve",
        "delete",
        "stop",
        "tick",
    ),
    *("serve", "grow", "reassign", "ask", "register_again", "configure", "elect", "unregister", "restart"),
)
histories = st.lists(
    st.tuples(st.sampled_from(EVENTS), st.integers(0, 11), st.integers(0, 11)), min_size=20, max_size=30
)


@pytest.fixture(scope="module", autouse=True)
def tiny_steps() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        make_steps_tiny(patch)
        patch.setattr(long_work, "ROWS_PER_STEP", 3)
        patch.setattr(long_work, "ROWS_PER_SCAN", 2)
        patch.setattr(
            "klamm.controller.metadata.topic_table.PartitionTable", lambda: PartitionTable(compact_at_dead_rows=0)
        )
        yield


def run(history: Sequence[Event]) -> Stepwise:
    stepwise = Stepwise()
    for number in range(3):
        stepwise.create(number, 4)
    for event in history:
        stepwise.take(event)
    stepwise.rest()
    return stepwise


def test_what_comes_between_two_steps_breaks_no_rule_and_is_settled_in_the_end() -> None:
    counts: Counter[str] = Counter()

    @settings(max_examples=60)
    @given(histories)
    def property_of_histories(history: Sequence[Event]) -> None:
        counts.update(run(history).counts)

    property_of_histories()
    least = {"work was left": 500, "may not stop": 40, "came back": 10, "stopped": 10}
    assert all(counts[name] >= times for name, times in least.items()), counts
