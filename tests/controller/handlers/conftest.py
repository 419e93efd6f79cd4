"""Fixtures of the handler tests: both profiles, and clusters whose log must agree with their image at the end."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from klamm.controller.settings import PROFILES, Profile
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.image_facts import image_facts


@pytest.fixture(params=PROFILES)
def profile(request: pytest.FixtureRequest) -> Profile:
    chosen: Profile = request.param
    return chosen


@pytest.fixture
def start() -> Iterator[Callable[..., DrivenCluster]]:
    """A function that makes clusters. At the end of the test, a replay of each log must give the image."""
    clusters: list[DrivenCluster] = []

    def make(*args: Any, **fields: Any) -> DrivenCluster:
        clusters.append(DrivenCluster(*args, **fields))
        return clusters[-1]

    yield make
    for cluster in clusters:
        assert cluster.replayed_facts() == image_facts(cluster.image)


@pytest.fixture
def cluster(start: Callable[..., DrivenCluster], profile: Profile) -> DrivenCluster:
    """Three live brokers in three racks, in each profile."""
    return start(profile=profile)
