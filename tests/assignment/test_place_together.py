"""Several clusters placed together get the placements and errors that each gets alone."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.assignment import Algorithm, Asked, CannotPlace, ClusterView, PlacementSpec, place, place_together
from klamm.assignment.kafka import shuffles, striped, stripes_in_bulk
from klamm.assignment.random_source import random_source
from tests.assignment.strategies import Seed, asked, seeds, tight

Case = tuple[ClusterView, PlacementSpec, Seed]


@st.composite
def many_rows(draw: st.DrawFn) -> tuple[ClusterView, PlacementSpec]:
    """Up to 20 brokers with or without racks, and hundreds of rows; half of the clusters have hardly enough room."""
    brokers = draw(st.integers(3, 20))
    racks, partitions, width = draw(st.integers(0, 6)), draw(st.integers(1, 300)), draw(st.integers(1, 4))
    held = np.array(draw(st.lists(st.integers(0, 60), min_size=brokers, max_size=brokers)))
    limit = -(-(partitions * width + int(held.sum())) // brokers) + draw(st.integers(0, 30))
    algorithm = draw(st.sampled_from(Algorithm))
    fenced = np.arange(brokers) >= brokers - draw(st.integers(0, 1))
    names = tuple(f"r{broker % racks}" if racks else None for broker in range(brokers))
    view = ClusterView(
        np.arange(brokers, dtype=np.int32) + np.int32(draw(st.integers(0, 500))), names, fenced, held, limit
    )
    return view, PlacementSpec(partitions=partitions, replication_factor=width, algorithm=algorithm)


def _alone(view: ClusterView, spec: PlacementSpec, seed: Seed) -> tuple[object, int]:
    rng = seed.rng()
    try:
        return place(view, spec, rng).tolist(), random_source(rng).next_int(1 << 30)
    except CannotPlace as error:
        return (error.reason, str(error)), random_source(rng).next_int(1 << 30)


@pytest.mark.parametrize("at_once", [1, 100, 1 << 30])
@given(
    cases=st.lists(st.tuples(asked() | tight() | many_rows(), seeds()), min_size=1, max_size=6),
    cells=st.integers(1, 900),
)
def test_each_cluster_is_placed_as_if_it_were_alone(
    at_once: int, cases: list[tuple[tuple[ClusterView, PlacementSpec], Seed]], cells: int
) -> None:
    """With the same random numbers afterwards; with shuffles side by side or one by one; in chunks of any size."""
    alone = [_alone(*case, seed) for case, seed in cases]
    rngs = [seed.rng() for _, seed in cases]
    with (
        patch.object(striped, "FEW_REPLICAS", 0),
        patch.object(shuffles, "_SWAPS_AT_ONCE", at_once),
        patch.object(stripes_in_bulk, "_MAX_CHUNK_CELLS", cells),
        patch.object(stripes_in_bulk, "_MOST_RACKS_TO_COUNT", at_once % 3),
    ):
        together = place_together([Asked(*case, rng) for (case, _), rng in zip(cases, rngs, strict=True)])
    told = [(one.reason, str(one)) if isinstance(one, CannotPlace) else one.tolist() for one in together]
    assert [(one, random_source(rng).next_int(1 << 30)) for one, rng in zip(told, rngs, strict=True)] == alone
