"""How many ISRs a request changes itself: as many as one step may change. A request that needs more leaves all of them
to steps."""

from collections.abc import Callable
from typing import Any

import pytest

from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers.broker_heartbeat import BrokerHeartbeatRequest
from klamm.protocol.messages.brokers.unregister_broker import UnregisterBrokerRequest
from klamm.protocol.records.partitions import PartitionChangeRecord
from tests.controller.handlers.cluster import DrivenCluster, directory
from tests.controller.handlers.tiny_steps import finish, make_steps_tiny

MOST = 2
"""The most changes of a tiny step."""
Make = Callable[[DrivenCluster], Message]


def beat(cluster: DrivenCluster, **fields: Any) -> Message:
    epoch = cluster.image.brokers[2].broker_epoch
    offset = cluster.log.end_offset
    return BrokerHeartbeatRequest(broker_id=2, broker_epoch=epoch, current_metadata_offset=offset, **fields)


def return_of_another_life(cluster: DrivenCluster, *, clean: bool) -> Message:
    cluster.controller.end_session(2)
    cluster.lives[2] += 1
    return cluster.registration(2, previous_broker_epoch=cluster.image.brokers[2].broker_epoch if clean else -1)


REQUESTS: dict[str, Make] = {
    "a broker is unregistered": lambda _: UnregisterBrokerRequest(broker_id=2),
    "a broker returns after a clean end": lambda cluster: return_of_another_life(cluster, clean=True),
    "a broker returns after an unclean end": lambda cluster: return_of_another_life(cluster, clean=False),
    "a broker wants to be fenced": lambda cluster: beat(cluster, want_fence=True),
    "a broker begins to shut down": lambda cluster: beat(cluster, want_shut_down=True),
    "a directory is offline": lambda cluster: beat(cluster, offline_log_dirs=[directory(2)]),
}


@pytest.mark.parametrize("partitions", [MOST - 1, MOST, MOST + 1])
@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_changes_as_many_isrs_as_a_step_or_leaves_them_all(
    name: str, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = DrivenCluster(3)
    assert cluster.create_at("t", *[[1, 2, 3]] * (partitions - 1), [2, 1, 3]).error_code == 0
    assert cluster.register(2, log_dirs=[directory(2), directory(2, 1)]).error_code == 0
    assert not cluster.heartbeat(2).is_fenced
    make_steps_tiny(monkeypatch)
    answer = cluster.submit(REQUESTS[name](cluster))
    assert answer.record_offsets is not None
    first, last = answer.record_offsets
    own = cluster.records(first)[: last - first + 1]
    changes = [record for record in own if isinstance(record, PartitionChangeRecord)]
    assert len(changes) == (partitions if partitions <= MOST else 0)
    finish(cluster)
    assert not any(2 in partition.isr for partition in cluster.partitions("t"))


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_broker_that_is_unfenced_leads_at_once_what_one_step_may_elect(
    partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With tiny steps one leader."""
    cluster = DrivenCluster(3)
    assert cluster.create_at("t", *[[2]] * partitions).error_code == 0
    cluster.lose(2)
    make_steps_tiny(monkeypatch)
    cluster.lives[2] += 1
    assert cluster.register(2).error_code == 0
    finish(cluster)
    answer = cluster.submit(beat(cluster))
    assert answer.record_offsets is not None
    first, last = answer.record_offsets
    assert last - first == (1 if partitions == 1 else 0), "the change of the registration, and an election"
    finish(cluster)
    assert {partition.leader for partition in cluster.partitions("t")} == {2}
