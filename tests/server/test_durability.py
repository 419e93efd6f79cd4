"""Nothing that depends on the log leaves the server before the log is durable up to that offset. `WAYS` lists each way
in which something leaves. For each, the test holds the disk: nothing may leave, however much time passes. Then the
syncs return one by one: everything leaves, and nothing before its sync."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from klamm.controller.data_limits import DataLimits
from klamm.controller.settings import Settings
from klamm.controller.topic_policy import Judgement
from klamm.protocol.api import Api
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers import broker_heartbeat, broker_registration, unregister_broker
from klamm.protocol.messages.cluster import api_versions, describe_cluster
from klamm.protocol.messages.data import fetch, produce
from klamm.protocol.messages.topics import create_topics, delete_topics, metadata
from klamm.protocol.messages.transactions import init_producer_id
from klamm.protocol.uuid import Uuid
from tests.broker.data.batches import batch
from tests.registrations import REGISTERED_FEATURES
from tests.server.harness import settled
from tests.server.held_servers import PATIENT, ROUNDS, FailingController, Held, held_server
from tests.server.slow_disks import make_slow_log, open_slow_log

Asked = tuple[Api[Any, Any], int, Message]
SLOW_REPLICATION = Settings(seed=1, data_limits=DataLimits(replication_rate=10))


def creation(*names: str) -> Asked:
    topics = [create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return create_topics.API, 7, create_topics.CreateTopicsRequest(topics=topics, timeout_ms=1000)


def deletion(name: str) -> Asked:
    return delete_topics.API, 5, delete_topics.DeleteTopicsRequest(topic_names=[name], timeout_ms=1000)


LOOK: Asked = (metadata.API, 12, metadata.MetadataRequest(topics=None))
VERSIONS: Asked = (api_versions.API, 0, api_versions.ApiVersionsRequest())
MANY = creation(*(f"many-{number}" for number in range(10)))
"""More than one decision step processes."""


def produced(acks: int, topic_name: str = "t") -> Asked:
    data = [produce.PartitionProduceData(index=0, records=batch(10))]
    topics = [produce.TopicProduceData(name=topic_name, partition_data=data)]
    return produce.API, 12, produce.ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=topics)


def fetched(offset: int = 0) -> Asked:
    partitions = [fetch.FetchPartition(fetch_offset=offset, partition_max_bytes=1_000_000)]
    topics = [fetch.FetchTopic(topic="t", partitions=partitions)]
    return fetch.API, 12, fetch.FetchRequest(max_wait_ms=3_000, min_bytes=1, topics=topics)


async def topic_t(held: Held) -> None:
    """Led by broker 1, to which all clients connect."""
    assignments = [create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])]
    topic = create_topics.CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=assignments)
    request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=1_000)
    assert (await held.running.connect_in_memory().ask(create_topics.API, 7, request)).topics[0].error_code == 0


async def topic_t_with_records(held: Held) -> None:
    await topic_t(held)
    await held.running.connect_in_memory().ask(*produced(1))


async def broker_2_is_down(held: Held) -> None:
    await held.running.server.stop_broker(2)


async def a_change(held: Held) -> None:
    await held.ask(creation("new"))


async def a_look_at_what_others_changed(held: Held) -> None:
    await held.ask(creation("new"))
    await held.ask(LOOK)


async def an_answer_that_says_nothing_of_the_image(held: Held) -> None:
    """Every answer waits, also one that does not depend on the image."""
    await held.ask(creation("new"))
    await held.ask(VERSIONS)


async def a_refusal(held: Held) -> None:
    await held.ask(creation("new"))
    await held.ask(creation("new"))


async def several_in_one_piece(held: Held) -> None:
    await held.ask(creation("new"), LOOK, creation("new"), LOOK)


async def one_by_one_on_a_connection(held: Held) -> None:
    """After the first sync the first answer may leave, but no later one."""
    peer = await held.ask(creation("new"))
    for name in ("second", "third"):
        await held.ask(creation(name), on=peer)


async def in_turns_of_many(held: Held) -> None:
    """More requests than one connection may handle in a row."""
    await held.ask(creation("new"), *[VERSIONS] * 40)
    await held.ask(*[VERSIONS] * 40)


async def more_than_may_be_pending(held: Held) -> None:
    await held.ask(creation("new"), *[VERSIONS] * 100)


async def an_answer_in_pieces(held: Held) -> None:
    await held.ask(creation(*(f"new-{number}" for number in range(2))))
    await held.ask(LOOK, LOOK)


async def a_long_request(held: Held) -> None:
    await held.ask(creation("new"), MANY, LOOK)


async def a_change_that_waits_for_a_long_request(held: Held) -> None:
    await held.ask(MANY)
    await held.ask(creation("new"))


async def an_id_of_a_new_block(held: Held) -> None:
    await held.ask((init_producer_id.API, 4, init_producer_id.InitProducerIdRequest(transactional_id=None)))


async def the_policys_verdict(held: Held) -> None:
    """A thread calls the policy."""
    await held.ask(creation("new"))
    await settled(lambda: "new" in held.running.controller.image.topics_by_name)


def fail_in(held: Held, place: str) -> None:
    assert isinstance(held.running.controller, FailingController)
    held.running.controller.fails_in = place


async def a_bug_after_the_records(held: Held) -> None:
    fail_in(held, "submit")
    await held.ask(deletion("t"))


async def a_bug_after_the_records_of_what_may_be_long(held: Held) -> None:
    fail_in(held, "submit")
    await held.ask(creation("new"))


async def a_bug_after_a_long_request(held: Held) -> None:
    fail_in(held, "commit")
    await held.ask(MANY)


async def a_bug_in_an_answer_that_waited(held: Held) -> None:
    await held.ask(fetched())
    await held.ask(creation("new"))
    fail_in(held, "try_complete")


async def a_bug_behind_the_changes_of_others(held: Held) -> None:
    await held.ask(creation("new"))
    fail_in(held, "submit")
    await held.ask(LOOK)


async def records_that_are_there(held: Held) -> None:
    await held.ask(creation("new"))
    await held.ask(fetched())


async def records_that_come(held: Held) -> None:
    await held.ask(fetched())
    await held.ask(creation("new"))
    await held.ask(produced(1))


async def no_records_in_time(held: Held) -> None:
    await held.ask(fetched())
    await held.ask(creation("new"))


async def the_end_of_a_topic_that_is_waited_for(held: Held) -> None:
    await held.ask(fetched())
    await held.ask(deletion("t"))


async def acks_of_one(held: Held) -> None:
    await held.ask(creation("new"))
    await held.ask(produced(1))


async def acks_of_all(held: Held) -> None:
    """The followers have the records before the deadline, while others change something."""
    await held.ask(produced(-1))
    await held.ask(creation("new"))


async def what_stands_before_a_request_that_is_none(held: Held) -> None:
    """The invalid request ends the connection after the answers."""
    peer = await held.ask(creation("new"), LOOK)
    await peer.send(b"\xff\xff\xff\xff")


async def what_stands_before_a_refusal_that_closes_the_connection(held: Held) -> None:
    await held.ask(creation("new"), produced(0, "unknown"), answers=1)


async def a_client_that_has_ended_its_side(held: Held) -> None:
    peer = await held.ask(creation("new"), LOOK)
    assert isinstance(peer.stream, trio.StapledStream)
    await peer.stream.send_eof()


async def a_server_that_stops(held: Held) -> None:
    await held.ask(creation("new"), LOOK)
    await held.ask(LOOK)
    await held.call(held.running.server.drain)


async def a_broker_from_outside(held: Held) -> None:
    peer = held.connect(controller=True)
    registration = broker_registration.BrokerRegistrationRequest(
        broker_id=50,
        cluster_id=held.log.cluster_id,
        incarnation_id=Uuid(b"incarnation-----"),
        listeners=[broker_registration.Listener(name="PLAINTEXT", host="10.0.0.1", port=9092)],
        features=[
            broker_registration.Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, low, high in REGISTERED_FEATURES
        ],
        log_dirs=[Uuid(b"directory-------")],
    )
    await held.ask((broker_registration.API, 4, registration), on=peer)
    epoch = held.running.controller.image.brokers[50].broker_epoch
    beat = broker_heartbeat.BrokerHeartbeatRequest(
        broker_id=50, broker_epoch=epoch, current_metadata_offset=held.log.end_offset
    )
    await held.ask((broker_heartbeat.API, 1, beat), on=peer)
    await held.ask((describe_cluster.API, 1, describe_cluster.DescribeClusterRequest(endpoint_type=2)), on=peer)


async def a_sync_is_under_way(held: Held) -> None:
    """The sync in progress does not cover what is appended now."""
    await held.ask(creation("new"))


async def a_broker_is_added(held: Held) -> None:
    await a_sync_is_under_way(held)
    await held.call(held.running.server.add_broker)


async def a_broker_is_stopped(held: Held) -> None:
    await a_sync_is_under_way(held)
    await held.call(lambda: held.running.server.stop_broker(2))


async def a_broker_is_started(held: Held) -> None:
    await a_sync_is_under_way(held)
    await held.call(lambda: held.running.server.start_broker(2))


async def a_broker_that_crashed_is_started(held: Held) -> None:
    """It finds the session of its former incarnation and waits for the end of that session."""
    await held.running.server.stop_broker(2, mode="crash")
    await held.ask(creation("new"))
    await held.call(lambda: held.running.server.start_broker(2))
    await held.pass_time(12)


async def a_broker_that_is_down_is_removed(held: Held) -> None:
    await a_sync_is_under_way(held)
    await held.call(lambda: held.running.server.remove_broker(2))


async def a_broker_that_is_up_is_removed(held: Held) -> None:
    await a_sync_is_under_way(held)
    await held.call(lambda: held.running.server.remove_broker(2))


async def a_broker_is_removed_that_others_have_unregistered(held: Held) -> None:
    await held.ask((unregister_broker.API, 0, unregister_broker.UnregisterBrokerRequest(broker_id=2)))
    await held.call(lambda: held.running.server.remove_broker(2))


async def a_broker_is_stopped_that_others_have_unregistered(held: Held) -> None:
    await held.ask((unregister_broker.API, 0, unregister_broker.UnregisterBrokerRequest(broker_id=2)))
    await held.call(lambda: held.running.server.stop_broker(2))


async def a_snapshot(held: Held) -> None:
    await held.ask(creation("new"))
    await held.call(held.running.server.snapshot)


@dataclass(frozen=True, slots=True)
class Way:
    """A way in which something leaves the server."""

    go: Callable[[Held], Awaitable[None]]
    prepare: Callable[[Held], Awaitable[None]] | None = None
    """Called first, while the disk works."""
    server: Mapping[str, Any] = field(default_factory=dict)
    has_files: bool = False
    """Whether the log is in a data directory."""


WAYS = (
    Way(a_change),
    Way(a_look_at_what_others_changed),
    Way(an_answer_that_says_nothing_of_the_image),
    Way(a_refusal),
    Way(several_in_one_piece),
    Way(one_by_one_on_a_connection),
    Way(in_turns_of_many),
    Way(more_than_may_be_pending),
    Way(an_answer_in_pieces, server={"limits": replace(PATIENT, send_bytes=100)}),
    Way(a_long_request),
    Way(a_change_that_waits_for_a_long_request),
    Way(an_id_of_a_new_block),
    Way(the_policys_verdict, server={"judge_topic": lambda _topic: Judgement()}),
    Way(a_bug_after_the_records, topic_t),
    Way(a_bug_after_the_records_of_what_may_be_long),
    Way(a_bug_after_a_long_request),
    Way(a_bug_in_an_answer_that_waited, topic_t),
    Way(a_bug_behind_the_changes_of_others),
    Way(records_that_are_there, topic_t_with_records),
    Way(records_that_come, topic_t),
    Way(no_records_in_time, topic_t),
    Way(the_end_of_a_topic_that_is_waited_for, topic_t),
    Way(acks_of_one, topic_t),
    Way(acks_of_all, topic_t, {"settings": SLOW_REPLICATION}),
    Way(what_stands_before_a_request_that_is_none),
    Way(what_stands_before_a_refusal_that_closes_the_connection, topic_t),
    Way(a_client_that_has_ended_its_side),
    Way(a_server_that_stops),
    Way(a_broker_from_outside),
    Way(a_broker_is_added),
    Way(a_broker_is_stopped),
    Way(a_broker_is_started, broker_2_is_down),
    Way(a_broker_that_crashed_is_started),
    Way(a_broker_that_is_down_is_removed, broker_2_is_down),
    Way(a_broker_that_is_up_is_removed),
    Way(a_broker_is_removed_that_others_have_unregistered, broker_2_is_down),
    Way(a_broker_is_stopped_that_others_have_unregistered),
    Way(a_snapshot, has_files=True),
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.go.__name__)
async def test_nothing_leaves_before_the_log_is_durable_up_to_what_it_saw(
    way: Way, mock_clock: MockClock, tmp_path: Path
) -> None:
    log = open_slow_log(tmp_path) if way.has_files else make_slow_log()
    async with held_server(mock_clock, log=log, **way.server) as held:
        if way.prepare is not None:
            await way.prepare(held)
        held.disk.hold()
        await way.go(held)
        await held.pass_time(4)
        assert held.log.durable_offset < held.log.end_offset, "there is something to wait for"
        assert held.left == []
        for _ in range(ROUNDS):
            await held.let_one_sync_through()
        assert len(held.left) == held.expected
        assert [one for one in held.left if one.durable_offset < one.needed_offset] == []
    log.close()
