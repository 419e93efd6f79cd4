"""A group on a cluster of three brokers."""

import pytest

from tests.broker.groups.conversation import CONFIGS, Conversation
from tests.controller.handlers.cluster import DrivenCluster


@pytest.fixture
def group() -> Conversation:
    """A group that has no members yet, and the topic `t` of two partitions."""
    cluster = DrivenCluster(profile="kafka", configs=CONFIGS)
    cluster.create("t", 2, 3)
    return Conversation(cluster)
