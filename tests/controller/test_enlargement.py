"""Enlarged topics: old and new partitions together are as even as if they had been created at once."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.context import RequestContext
from klamm.controller.metadata.columns import Ints
from klamm.controller.transitions.placement import Placer, PresentPartitions, Wanted
from tests.controller.cluster_states import live_cluster
from tests.controller.contexts import make_context


def context(seed: int) -> RequestContext:
    return make_context(api_version=3, seed=seed)


@given(st.integers(1, 7), st.integers(1, 20), st.integers(1, 20), st.integers(0, 99), st.data())
def test_leaders_stay_even_over_old_and_new_partitions(
    brokers: int, first: int, more: int, seed: int, data: st.DataObject
) -> None:
    image = live_cluster(brokers)
    replication_factor = data.draw(st.integers(1, brokers))
    old = Placer(image, context(seed)).place(Wanted("t", first, replication_factor))
    assert isinstance(old, np.ndarray)
    present = PresentPartitions(first, int(old[0, 0]))
    wanted = Wanted("t", more, replication_factor, present=present)
    new: Ints | object = Placer(image, context(seed + 1)).place(wanted)
    assert isinstance(new, np.ndarray)
    leads = Counter(dict.fromkeys(image.brokers, 0))
    leads.update(np.concatenate((old, new))[:, 0].tolist())
    assert max(leads.values()) - min(leads.values()) <= 1
