"""Random administrators, random losses: the real controller beside a model in plain Python, step by step.

Requests are good and bad ones mixed, sent to any broker or to the controller; brokers arrive, fall silent, stop,
return and are forgotten; the controller restarts. After every step the invariants hold and the answers were those of
the model. At the end the log, replayed in batches of any size, gives the image, and the same calls on another cluster
give the same bytes.
"""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.replay import replay
from klamm.controller.settings import PROFILES, Profile
from klamm.protocol.messages.topics.create_topics import CreatableTopic
from tests.controller.image_facts import image_facts
from tests.controller.snapshots import lasting_facts, rebuilt
from tests.simulation.config_rules import ConfigRules
from tests.simulation.invariants import INVARIANTS, Simulated
from tests.simulation.judgement import NUM_PARTITIONS, REPLICATION_FACTOR
from tests.simulation.model import Model
from tests.simulation.model_configs import (
    MAX_BROKER_PARTITIONS,
    MAX_PARTITIONS,
    MIN_ISR,
    NO_LIMIT,
    UNDER_REPLICATED,
    Edit,
    ModelConfigs,
)
from tests.simulation.strategies import BROKER_IDS, limits_of_one, waiting_topics
from tests.simulation.traced_cluster import TracedCluster

RACKS: tuple[Sequence[str | None], ...] = (("a", "b", "c"), ("a", "a", "b"), (None,), ("a", None))


class ClusterMachine(ConfigRules):
    """One history."""

    @initialize(
        profile=st.sampled_from(PROFILES),
        seed=st.integers(0, 2**16),
        racks=st.sampled_from([RACKS[0], *RACKS]),
        brokers=st.sampled_from([3, 0, 1, 2, 3, 4, 5]),
        min_isr=st.integers(1, 2),
        limits=st.tuples(st.sampled_from([None, None, 6, 9]), st.sampled_from([None, None, 12])),
        placeholders=st.booleans(),
        sizes=st.lists(st.tuples(st.integers(1, 10), st.integers(1, 3)), max_size=3),
        stride=st.integers(1, 5),
        waiting=st.just(()) | waiting_topics,
        spare=st.integers(0, 4),
        of_one=limits_of_one,
    )
    def begin(
        self,
        *,
        profile: Profile = "kip",
        seed: int = 0,
        racks: Sequence[str | None] = RACKS[0],
        brokers: int = 3,
        min_isr: int = 1,
        limits: tuple[int | None, int | None] = (None, None),
        placeholders: bool = False,
        sizes: Sequence[tuple[int, int]] = (),
        stride: int = 3,
        waiting: Sequence[tuple[str, int, int, bool]] = (),
        spare: int = 0,
        of_one: str | None = None,
    ) -> None:
        static = {
            "num.partitions": str(NUM_PARTITIONS),
            "default.replication.factor": str(REPLICATION_FACTOR),
            MIN_ISR: str(min_isr),
            UNDER_REPLICATED: str(placeholders).lower(),
        }
        for name, value in zip((MAX_BROKER_PARTITIONS, MAX_PARTITIONS), limits, strict=True):
            static |= {} if value is None else {name: str(value)}
        of_broker = {2: {MAX_BROKER_PARTITIONS: "5"}}
        self.set_up(
            Model(profile, ModelConfigs(static, of_broker), racks),
            racks=racks,
            profile=profile,
            seed=seed,
            configs=static,
            broker_configs=of_broker,
        )
        self.simulated = Simulated(self.cluster, self.model)
        self.stride = stride
        for broker_id in BROKER_IDS[:brokers]:
            self.come_up(broker_id, clean=False)
        for number, (partitions, replication_factor) in enumerate(sizes):
            topic = CreatableTopic(
                name=f"first-{number}", num_partitions=partitions, replication_factor=replication_factor
            )
            self.create_good_topics([topic])
        if waiting and 0 < brokers < len(BROKER_IDS):
            self.everything_holds()
            self.wait_for_a_broker(waiting, spare, spare, of_one, clean=False)

    def set_up(self, model: Model, **fields: Any) -> None:
        """A cluster and its model, before there are brokers."""
        self.cluster, self.model = TracedCluster(**fields), model

    @precondition(lambda self: hasattr(self, "model") and 0 < len(self.model.live()) < len(BROKER_IDS))
    @rule(
        topics=waiting_topics,
        spare=st.integers(0, 6),
        pick=st.integers(0, 3),
        of_one=limits_of_one,
        clean=st.booleans(),
    )
    def wait_for_a_broker(
        self, topics: Sequence[tuple[str, int, int, bool]], spare: int, pick: int, of_one: str | None, clean: bool
    ) -> None:
        """Topics are made with placeholders while brokers leave; then one comes that has room for some of them.

        How much room that is, broker 1 has no say in, whatever limit it has of its own.
        """
        self.allow_placeholders(True)
        self.set_limit(Edit(MAX_BROKER_PARTITIONS, None), 1, own=True)
        self.set_limit(Edit(MAX_BROKER_PARTITIONS, str(NO_LIMIT)))
        for name, partitions, missing, one_leaves in topics:
            replication_factor = len(self.model.usable()) + missing
            self.create_good_topics(
                [CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor)]
            )
            self.everything_holds()
            if one_leaves and len(self.model.live()) > 1:
                leaving = self.model.live()[-1]
                self.shut_down(leaving)
                self.unregister(leaving)
                self.everything_holds()
        absent = [broker_id for broker_id in BROKER_IDS if broker_id not in self.model.live()]
        coming = absent[pick % len(absent)]
        held = self.model.held()
        self.set_limit(Edit(MAX_BROKER_PARTITIONS, str(max(1, held[coming] + spare))))
        self.set_limit(Edit(MAX_BROKER_PARTITIONS, of_one), 1, own=True)
        self.everything_holds()
        self.come_up(coming, clean)

    @invariant()
    def everything_holds(self) -> None:
        if not hasattr(self, "simulated"):
            return
        shadow = self.simulated.shadow
        new = self.cluster.records(shadow.next_offset)
        first = self.cluster.log.end_offset - len(new)
        # The same records in other batches than those in which they were written.
        for at in range(0, len(new), self.stride):
            replay(shadow, new[at : at + self.stride], first + at)
        for holds in INVARIANTS:
            holds(self.simulated)
        self.simulated.asked = None

    def _start_from_snapshots(self, records: Sequence[Any], first: int) -> None:
        """A snapshot at some offset and the rest of the log give the same image, and so does one at the end."""
        for cut in {self.stride * 7 % (len(records) + 1), len(records)}:
            image = MetadataImage()
            replay(image, records[:cut], first)
            found = rebuilt(image)
            replay(found, records[cut:], first + cut)
            assert lasting_facts(found) == lasting_facts(self.cluster.image)

    def teardown(self) -> None:
        if not hasattr(self, "simulated"):
            return
        records = self.cluster.records()
        image, first = MetadataImage(), self.cluster.log.end_offset - len(records)
        for at, record in enumerate(records):
            replay(image, [record], first + at)
        assert image_facts(image) == image_facts(self.cluster.image)
        self._start_from_snapshots(records, first)
        assert self.cluster.done_again().log.log_bytes() == self.cluster.log.log_bytes()
