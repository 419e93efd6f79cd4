"""A simulated broker as an object: its requests to the controller, and the state that only it has."""

import math
from dataclasses import replace

import pytest

from klamm.broker.assembly import assemble
from klamm.broker.brokers import NoSuchBroker, SimulatedBrokers
from klamm.broker.log_dirs.directories import directory_id
from klamm.broker.simulated_broker import HEARTBEAT_GROUPS, BrokerError, SimulatedBroker
from klamm.controller.authorizer import STANDARD_AUTHORIZER
from klamm.controller.core import Answer, Call, Controller
from klamm.controller.metadata.broker import EndPoint
from klamm.controller.settings import Settings
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.messages.topics import metadata
from klamm.protocol.messages.topics.metadata import MetadataRequest
from klamm.protocol.messages.transactions.init_producer_id import InitProducerIdRequest
from klamm.protocol.record_batch import decode_batches
from klamm.protocol.records.brokers import RegisterBrokerRecord
from tests.controller.handlers.cluster import CLUSTER_ID, SESSION_MS, Clock, DrivenCluster, new_memory_log
from tests.controller.handlers.config_requests import LOGGER

AT = (EndPoint("PLAINTEXT", "127.0.0.1", 9001, 0),)
OTHER = (EndPoint("PLAINTEXT", "127.0.0.1", 9999, 0),)
INTERVAL_SECONDS = 2.0


class Process:
    """A controller and the brokers of its process, on a log that survives it."""

    def __init__(self) -> None:
        self.log, self.clock = new_memory_log(), Clock()
        self.controller: Controller
        self.brokers: SimulatedBrokers
        self.start()

    def start(self) -> None:
        self.controller, self.brokers = assemble(Controller, Settings(seed=1), self.log, self.clock)

    def add(self, broker_id: int = 1, end_points: tuple[EndPoint, ...] = AT) -> SimulatedBroker:
        return self.brokers.add(broker_id, "r", end_points)

    def registrations(self) -> list[RegisterBrokerRecord]:
        batches = [batch for batch in decode_batches(self.log.log_bytes()) if not batch.is_control]
        return [record for batch in batches for record in batch.records if isinstance(record, RegisterBrokerRecord)]


def bring_up(broker: SimulatedBroker, now: float = 0.0) -> None:
    broker.begin_incarnation()
    assert broker.register()
    assert broker.ask_to_be_unfenced()
    broker.come_up(now)


def test_a_broker_registers_what_it_is_and_is_unfenced() -> None:
    process = Process()
    broker = process.add()
    assert (broker.is_up, broker.broker_epoch, broker.next_heartbeat_at) == (False, -1, math.inf)
    bring_up(broker)
    known = process.controller.image.brokers[1]
    assert (known.incarnation_id, known.broker_epoch) == (broker.incarnation_id, broker.broker_epoch)
    assert (known.rack, known.end_points, known.log_dirs) == ("r", AT, (directory_id(CLUSTER_ID, 1, 0),))
    assert not known.fenced
    assert broker.is_up


@pytest.mark.parametrize(("end_points", "count"), [(AT, 1), (OTHER, 2)], ids=["the same ports", "another port"])
def test_a_broker_of_another_process_goes_on_as_it_was(end_points: tuple[EndPoint, ...], count: int) -> None:
    process = Process()
    before = process.add()
    bring_up(before)
    process.start()
    after = process.add(end_points=end_points)
    bring_up(after)
    assert after.incarnation_id == before.incarnation_id
    assert len(process.registrations()) == count
    assert process.controller.image.brokers[1].end_points == end_points


def test_a_crashed_broker_is_not_registered_before_its_session_is_over() -> None:
    process = Process()
    broker = process.add()
    bring_up(broker)
    broker.go_down(cleanly=False)
    broker.begin_incarnation()
    assert not broker.register()
    process.clock.advance(SESSION_MS)
    process.controller.tick()
    assert broker.register()
    assert len(process.registrations()) == 2


def test_a_broker_that_shut_down_is_registered_again_at_once() -> None:
    process = Process()
    broker = process.add()
    bring_up(broker)
    while not broker.ask_to_shut_down():
        pass
    broker.go_down(cleanly=True)
    assert (broker.is_up, broker.stopped_cleanly, broker.next_heartbeat_at) == (False, True, math.inf)
    assert process.controller.image.brokers[1].fenced
    bring_up(broker)
    assert (broker.is_up, broker.stopped_cleanly) == (True, False)


def test_heartbeats_are_spread_over_the_interval_and_keep_the_session() -> None:
    process = Process()
    broker, other = process.add(1), process.add(2)
    bring_up(broker, now=100.0)
    bring_up(other, now=100.0)
    first = 100.0 + INTERVAL_SECONDS * 2 / HEARTBEAT_GROUPS
    assert broker.next_heartbeat_at == pytest.approx(first)
    assert other.next_heartbeat_at == pytest.approx(100.0 + INTERVAL_SECONDS * 3 / HEARTBEAT_GROUPS)
    process.clock.advance(SESSION_MS - 1)
    process.brokers.beat(first, refuse_none, end_none)
    assert broker.next_heartbeat_at == pytest.approx(first + INTERVAL_SECONDS)
    process.clock.advance(1)
    process.controller.tick()
    assert [process.controller.image.brokers[broker_id].fenced for broker_id in (1, 2)] == [False, True]


def refuse_none(broker_id: int, code: ErrorCode) -> None:
    raise AssertionError((broker_id, code))


def end_none(broker: SimulatedBroker) -> None:
    raise AssertionError(broker.broker_id)


def test_a_broker_without_its_id_goes_down_and_is_reported() -> None:
    process = Process()
    broker = process.add()
    bring_up(broker)
    broker.broker_epoch -= 1
    with pytest.raises(BrokerError, match="heartbeat of broker 1 refused: STALE_BROKER_EPOCH"):
        broker.ask_to_be_unfenced()
    ended: list[SimulatedBroker] = []
    process.brokers.beat(10.0, refuse_none, ended.append)
    assert ended == [broker]
    assert (broker.is_up, broker.stopped_cleanly, broker.next_heartbeat_at) == (False, False, math.inf)
    assert process.brokers.data.down == {1}
    assert broker.ask_to_shut_down(), "it has nothing left to shut down"


GUARDED_SETTINGS = Settings(
    seed=1, static_configs={"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"}
)


class Suspicious(Controller):
    """A controller that can treat its own process's requests like those of a client without rights."""

    suspects = False

    def submit(self, call: Call) -> Answer:
        return super().submit(replace(call, principal="User:ANONYMOUS") if self.suspects else call)


def test_any_other_refused_heartbeat_is_reported_and_the_broker_goes_on() -> None:
    controller, brokers = assemble(Suspicious, GUARDED_SETTINGS, new_memory_log(), Clock())
    broker = brokers.add(1)
    bring_up(broker)
    controller.suspects = True
    refusals: list[tuple[int, ErrorCode]] = []
    brokers.beat(10.0, lambda broker_id, code: refusals.append((broker_id, code)), end_none)
    assert refusals == [(1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
    assert broker.is_up
    assert 10.0 <= broker.next_heartbeat_at < math.inf
    with pytest.raises(BrokerError, match="heartbeat of broker 1 refused: CLUSTER_AUTHORIZATION_FAILED"):
        broker.ask_to_shut_down()


def test_during_a_long_request_heartbeats_keep_sessions_and_those_that_would_write_remain_due() -> None:
    process = Process()
    fenced, live = process.add(1), process.add(2)
    bring_up(fenced)
    process.clock.advance(SESSION_MS)
    process.controller.tick()
    bring_up(live)
    call = Call(metadata.API, 12, MetadataRequest(topics=None), "broker", 2)
    decision = process.controller.begin_large(call, may_be_interrupted=True)
    due = fenced.next_heartbeat_at
    process.clock.advance(SESSION_MS - 1)
    process.brokers.beat(10.0, refuse_none, end_none)
    assert (fenced.next_heartbeat_at, live.next_heartbeat_at >= 10.0) == (due, True)
    process.clock.advance(1)
    process.controller.tick()
    assert not decision.is_interrupted, "the session of broker 2 was extended"
    decision.run()
    process.controller.finish(decision)
    process.brokers.beat(10.0, refuse_none, end_none)
    assert fenced.next_heartbeat_at > due
    assert not any(broker.fenced for broker in process.controller.image.brokers.values())


def test_only_a_fenced_broker_is_unregistered_and_once_more_is_as_good() -> None:
    process = Process()
    broker = process.add()
    bring_up(broker)
    broker.ask_to_shut_down()
    broker.go_down(cleanly=True)
    assert [broker.unregister(), broker.unregister()] == [ErrorCode.NONE] * 2
    assert 1 not in process.controller.image.brokers


def test_a_broker_is_found_or_the_text_says_where_it_is() -> None:
    process = Process()
    broker = process.add()
    bring_up(broker)
    assert process.brokers.find(1) is broker
    assert process.brokers.next_id() == 2
    process.start()
    with pytest.raises(NoSuchBroker, match="there is no simulated broker 1, though the metadata has one"):
        process.brokers.find(1)
    with pytest.raises(NoSuchBroker, match=r"there is no simulated broker 7$"):
        process.brokers.find(7)
    assert process.brokers.next_id() == 2


def test_each_broker_keeps_its_own_log_level_and_producer_ids() -> None:
    cluster = DrivenCluster(2)
    level = AlterableConfig(name="root", config_operation=0, value="DEBUG")
    resource = AlterConfigsResource(resource_type=LOGGER, resource_name="2", configs=[level])
    assert cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]), broker_id=2).responses[0].error_code == 0
    for broker_id in (1, 2, 2):
        cluster.ask(InitProducerIdRequest(transactional_id=None), broker_id=broker_id)
    found = [(broker.root_log_level, broker.producer_ids) for broker in cluster.brokers.by_id.values()]
    assert found == [(None, range(1, 1_000)), ("DEBUG", range(1_002, 2_000))]


def test_a_broker_that_is_removed_meanwhile_keeps_no_block() -> None:
    """A request may be decided after its broker is gone: ids are new all the same."""
    cluster = DrivenCluster(1)
    del cluster.brokers.by_id[1]
    requested = [cluster.ask(InitProducerIdRequest(transactional_id=None)).producer_id for _ in range(2)]
    assert requested == [0, 1_000]


def test_who_is_down_is_applied_to_replication() -> None:
    process = Process()
    for broker_id in (1, 2):
        bring_up(process.add(broker_id))
    process.brokers.by_id[2].go_down(cleanly=False)
    assert process.brokers.data.down == frozenset()
    process.brokers.note_who_is_down()
    assert process.brokers.data.down == {2}
