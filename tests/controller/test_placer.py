"""Placing the topics of one request, compared with a placement that gets every broker's count and every limit."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.assignment import NO_LIMIT, Algorithm, CannotPlace, ClusterView, PlacementSpec, place
from klamm.controller.settings import Profile, Settings
from klamm.controller.transitions.limits import count_as_taken
from klamm.controller.transitions.placement import Placer, Wanted
from klamm.protocol.errors import ApiError
from tests.controller.cluster_states import add_topic, live_cluster
from tests.controller.test_enlargement import context

topics = st.lists(st.tuples(st.sampled_from(("t", "__consumer_offsets")), st.integers(1, 4), st.integers(1, 3)))


@given(topics, st.integers(1, 12), st.integers(1, 30), st.integers(0, 9), st.sampled_from(("kip", "kafka")))
def test_limits_that_cannot_be_reached_are_not_looked_at_and_all_others_are(
    wanted: list[tuple[str, int, int]], per_broker: int, in_all: int, seed: int, profile: Profile
) -> None:
    image = live_cluster(3)
    add_topic(image, 1, [[1, 2], [1, 3]])
    limits = {"max.broker.partitions": str(per_broker), "max.partitions": str(in_all)}
    ours = replace(context(seed), settings=Settings(profile=profile, static_configs=limits))
    placer, rng = Placer(image, ours), np.random.default_rng(seed)
    held, partitions = {1: 2, 2: 1, 3: 1}, 2
    algorithm = Algorithm.STRIPED if profile == "kafka" else Algorithm.ROUND_ROBIN
    for name, count, replication_factor in wanted:
        limited = name == "t"
        view = ClusterView(
            broker_ids=np.array([1, 2, 3]),
            racks=tuple(image.brokers[broker_id].rack for broker_id in (1, 2, 3)),
            replica_counts=np.array([held[broker_id] for broker_id in (1, 2, 3)]),
            replica_limit=per_broker if limited else NO_LIMIT,
            partition_count=partitions,
            partition_limit=in_all if limited else NO_LIMIT,
        )
        placed = placer.place(Wanted(name, count, replication_factor))
        spec = PlacementSpec(partitions=count, replication_factor=replication_factor, algorithm=algorithm)
        if isinstance(placed, ApiError):
            with pytest.raises(CannotPlace, match=re.escape(placed.message or "")):
                place(view, spec, rng)
            continue
        expected = place(view, spec, rng)
        assert placed.tolist() == expected.tolist()
        count_as_taken(ours, name, placed)
        if limited:
            partitions += count
            for broker_id in held:
                held[broker_id] += int((placed == broker_id).sum())
