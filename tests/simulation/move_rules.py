"""The part of the machine that is moves and elections: replicas are asked to go elsewhere, and back, and to lead."""

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.messages.partitions.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.controller.handlers.cluster import ENOUGH_TIME_MS
from tests.controller.handlers.reassignment_requests import elect, in_progress
from tests.simulation.config_rules import ConfigRules
from tests.simulation.judgement import Asked
from tests.simulation.model import ModelPartition
from tests.simulation.model_configs import SET, TOPIC
from tests.simulation.model_moves import PREFERRED, UNCLEAN, MovingAsked, MovingModel
from tests.simulation.strategies import BROKER_IDS, asked, picks, seldom

Wish = tuple[int, int, Sequence[int] | None]
"""Which topic, which of its partitions, and where to; None: back."""
STEPS_MS = (1, 20, 500, 3_000)

targets = st.permutations(BROKER_IDS).flatmap(lambda ids: st.integers(1, 4).map(lambda size: list(ids)[:size]))
wishes = st.tuples(picks, st.integers(0, 2), targets)
odd_wishes = st.tuples(picks, st.integers(0, 11), st.none() | targets | st.sampled_from([[], [1, 1], [1, 9], [2, -1]]))
moving_asked = precondition(lambda self: hasattr(self, "model") and self.model.topics)


class MoveRules(ConfigRules):
    """What administrators do to replicas, and what happens to brokers meanwhile."""

    model: MovingModel

    def _asked(self, broker_id: int | None) -> Asked:
        self.simulated.asked = broker_id
        return MovingAsked(self.model, broker_id)

    def stand_up(self, broker_id: int) -> None:
        if broker_id in self.model.down:
            self._say_who_is_down(self.model.down - {broker_id})

    def is_up(self, broker_id: int) -> bool:
        return broker_id not in self.model.down

    def _say_who_is_down(self, down: set[int]) -> None:
        self.cluster.set_down(sorted(down))
        self.model.down = down
        self.model.brokers_changed()

    @rule(down=st.sets(st.sampled_from(BROKER_IDS), min_size=1, max_size=2))
    def crash(self, down: set[int]) -> None:
        """Brokers do nothing any more, and nobody knows before their sessions are over."""
        self._say_who_is_down(self.model.down | {broker_id for broker_id in down if broker_id in self.model.brokers})

    @rule()
    def come_back(self) -> None:
        """All that are down go on as if nothing had been."""
        self._say_who_is_down(set())
        self.all_beat()

    @rule(milliseconds=st.sampled_from(STEPS_MS))
    def live_on(self, milliseconds: int) -> None:
        """Time passes for whoever is up."""
        self.cluster.clock.advance(milliseconds)
        for broker_id, broker in list(self.model.brokers.items()):
            if not broker.fenced and not broker.leaving and self.is_up(broker_id):
                self._beat(broker_id)
        self.pass_time(0)

    @moving_asked
    @rule(
        wanted=st.lists(wishes, min_size=1, max_size=3),
        broker_id=asked,
        allow_factor=st.sampled_from([True] * 4 + [False]),
    )
    def move(self, wanted: Sequence[Wish], broker_id: int | None = 1, allow_factor: bool = True) -> None:
        items = []
        for pick, place, target in wanted:
            name = self._picked(pick)
            items.append((name, place % len(self.model.topics[name].partitions), target))
        self._reassign(items, broker_id, allow_factor)

    @moving_asked
    @rule(wanted=st.lists(odd_wishes, min_size=1, max_size=4), broker_id=asked, unknown=seldom)
    def move_oddly(self, wanted: Sequence[Wish], broker_id: int | None, unknown: bool) -> None:
        items = [(self._picked(pick), index, target) for pick, index, target in wanted]
        self._reassign([*items, ("unknown", 0, [1])] if unknown else items, broker_id)

    @moving_asked
    @rule(pick=picks, keep=st.integers(0, 3), to=st.permutations(BROKER_IDS))
    def move_again(self, pick: int, keep: int, to: Sequence[int]) -> None:
        """A partition that is moving gets another target: some that it has or gets, and others."""
        moving = self._moving()
        if moving:
            name, index, partition = moving[pick % len(moving)]
            kept = [replica for replica in partition.replicas if replica >= 0][:keep]
            target = [*kept, *[replica for replica in to if replica not in kept]][: max(1, keep)]
            self._reassign([(name, index, target)], 1)

    @rule(pick=picks, all_of_them=seldom)
    def take_back(self, pick: int, all_of_them: bool) -> None:
        moving = self._moving()
        if moving:
            chosen = moving if all_of_them else [moving[pick % len(moving)]]
            self._reassign([(name, index, None) for name, index, _ in chosen], 1)

    def _moving(self) -> list[tuple[str, int, ModelPartition]]:
        return [
            (name, index, partition)
            for name, topic in self.model.topics.items()
            for index, partition in enumerate(topic.partitions)
            if partition.moving
        ]

    def _reassign(
        self, items: Sequence[tuple[str, int, Sequence[int] | None]], broker_id: int | None, allow_factor: bool = True
    ) -> None:
        self.simulated.asked = broker_id
        by_name: dict[str, list[ReassignablePartition]] = {}
        for name, index, target in items:
            by_name.setdefault(name, []).append(ReassignablePartition(partition_index=index, replicas=target))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=ENOUGH_TIME_MS,
            allow_replication_factor_change=allow_factor,
            topics=[ReassignableTopic(name=name, partitions=partitions) for name, partitions in by_name.items()],
        )
        response = self.cluster.ask(request, broker_id=broker_id)
        assert response.error_code == ErrorCode.NONE
        answered = [
            (topic.name, one.partition_index, one.error_code)
            for topic in response.responses
            for one in topic.partitions
        ]
        with self.model.one_batch():
            expected = [
                (
                    name,
                    one.partition_index,
                    int(self.model.move(name, one.partition_index, one.replicas, broker_id, allow_factor=allow_factor)),
                )
                for name, partitions in by_name.items()
                for one in partitions
            ]
        assert answered == expected
        self.model.fill()

    @rule(some=st.none() | st.lists(st.tuples(picks, st.integers(0, 3)), max_size=3))
    def list_moves(self, some: Sequence[tuple[int, int]] | None) -> None:
        expected = {
            f"{name}-{index}": (partition.replicas, partition.adding, partition.removing)
            for name, index, partition in self._moving()
        }
        if some is None or not self.model.topics:
            assert in_progress(self.cluster) == expected
            return
        wanted: dict[str, list[int]] = {}
        for pick, index in some:
            wanted.setdefault(self._picked(pick), []).append(index)
        names = [f"{name}-{index}" for name, indexes in wanted.items() for index in indexes]
        assert in_progress(self.cluster, wanted) == {name: expected[name] for name in names if name in expected}

    @rule(
        election_type=st.sampled_from([PREFERRED, PREFERRED, UNCLEAN]),
        some=st.none() | st.lists(st.tuples(picks, st.integers(0, 4)), min_size=1, max_size=3),
    )
    def elect_leaders(self, election_type: int, some: Sequence[tuple[int, int]] | None) -> None:
        wanted: dict[str, list[int]] | None = None
        if some is not None and self.model.topics:
            wanted = {}
            for pick, index in some:
                wanted.setdefault(self._picked(pick), []).append(index)
        code, results = elect(self.cluster, wanted, election_type)
        assert code == ErrorCode.NONE
        tried = self.model.in_need(election_type) if wanted is None else wanted
        with self.model.one_batch():
            expected = {
                name: list(zip(indexes, self.model.elect(name, indexes, election_type), strict=True))
                for name, indexes in tried.items()
            }
        assert {name: [(index, code) for index, code, _ in of_topic] for name, of_topic in results.items()} == expected
        self.model.fill()

    @moving_asked
    @rule(pick=picks, on=st.sampled_from([True, True, False]))
    def allow_unclean_elections(self, pick: int, on: bool) -> None:
        name = self._picked(pick)
        config = AlterableConfig(
            name="unclean.leader.election.enable", config_operation=SET, value="true" if on else "false"
        )
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[config])
        response = self.cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        assert response.responses[0].error_code == ErrorCode.NONE
        self.model.topics[name].unclean = on
