"""Steering by hand: leaders, ISRs, replication, sessions, disks; and waits for a state of the cluster."""

import uuid
from typing import Any

import pytest
import trio

import klamm
from klamm.control.command import decode_control_options
from klamm.control.tables import as_text
from klamm.protocol.messages.data import produce
from klamm.protocol.messages.groups import consumer_group_heartbeat as consumer_heartbeat
from klamm.protocol.messages.groups import find_coordinator
from klamm.protocol.messages.partitions import alter_partition_reassignments as moves
from klamm.protocol.messages.shares import share_group_heartbeat as share_heartbeat
from klamm.protocol.messages.streams import streams_group_heartbeat as streams_heartbeat
from tests.broker.data.batches import batch
from tests.klamm.control.control_cluster import controlled_cluster
from tests.server.harness import Peer

TOPIC = "orders"


async def connect(cluster: klamm.Cluster, broker_id: int) -> Peer:
    host, _, port = cluster.bootstrap_servers.split(",")[broker_id - 1].rpartition(":")
    return Peer(await trio.open_tcp_stream(host, int(port)))


async def write(cluster: klamm.Cluster, count: int = 1, acks: int = -1, timeout_ms: int = 5_000) -> int:
    """The error code of a Produce to the leader."""
    peer = await connect(cluster, await cluster.leader(TOPIC, 0))
    code = await write_at(peer, count, acks, timeout_ms)
    await peer.aclose()
    return code


async def write_at(peer: Peer, count: int = 1, acks: int = -1, timeout_ms: int = 5_000) -> int:
    data = [produce.PartitionProduceData(index=0, records=batch(count))]
    topic = produce.TopicProduceData(name=TOPIC, partition_data=data)
    request = produce.ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])
    response = await peer.ask(produce.API, 9, request)
    return int(response.responses[0].partition_responses[0].error_code)


async def test_a_leader_is_moved_to_each_member_of_the_isr() -> None:
    async with klamm.Cluster(brokers=3) as cluster:
        await cluster.create_topic(TOPIC, 1, 3)
        image = cluster._up.image
        epoch = image.partitions.read(image.topics_by_name[TOPIC].row, 0).leader_epoch
        for number, broker_id in enumerate((1, 2, 3, 3), 1):
            await cluster.move_leader(TOPIC, 0, broker_id)
            assert await cluster.leader(TOPIC, 0) == broker_id
            assert await write(cluster) == 0
            assert image.partitions.read(image.topics_by_name[TOPIC].row, 0).leader_epoch <= epoch + number
        await cluster.stop_broker(2)
        for change, reason in (
            (cluster.move_leader(TOPIC, 0, 2), "broker 2 is not in the ISR [13], [13]"),
            (cluster.move_leader(TOPIC, 0, 9), "broker 9 is not in the ISR"),
            (cluster.move_leader("none", 0, 1), "there is no topic 'none'"),
            (cluster.move_leader(TOPIC, 1, 1), "has no partition 1"),
        ):
            with pytest.raises(klamm.ClusterError, match=reason):
                await change


async def test_an_isr_is_shrunk_stays_so_and_grows_again() -> None:
    async with klamm.Cluster(brokers=3, configs={"min.insync.replicas": 2}) as cluster:
        await cluster.create_topic(TOPIC, 1, 3)
        await cluster.move_leader(TOPIC, 0, 1)
        await cluster.shrink_isr(TOPIC, 0, 3)
        assert sorted(await cluster.isr(TOPIC, 0)) == [1, 2]
        assert await write(cluster) == 0
        await cluster.shrink_isr(TOPIC, 0, 2)
        assert await write(cluster) == klamm.ErrorCode.NOT_ENOUGH_REPLICAS
        await trio.sleep(0.4)
        assert await cluster.isr(TOPIC, 0) == [1], "no tick lets them join"
        with pytest.raises(TimeoutError, match=r"orders-0 has the ISR \[1\] of"):
            await cluster.wait_for_isr(TOPIC, timeout_seconds=0.05)
        await cluster.grow_isr(TOPIC, 0, 3)
        await cluster.grow_isr(TOPIC, 0, 2)
        await cluster.wait_for_isr(TOPIC, 0)
        assert await write(cluster) == 0
        for change, reason in (
            (cluster.shrink_isr(TOPIC, 0, 1), "broker 1 is the leader"),
            (cluster.shrink_isr(TOPIC, 0, 9), "broker 9 is not in the ISR"),
            (cluster.grow_isr(TOPIC, 0, 9), "broker 9 is no replica"),
        ):
            with pytest.raises(klamm.ClusterError, match=reason):
                await change


async def test_the_followers_of_a_broker_stop_fetching_and_go_on() -> None:
    async with klamm.Cluster(brokers=2, configs={"replica.lag.time.max.ms": 500}) as cluster:
        await cluster.create_topic(TOPIC, 1, 2)
        await cluster.move_leader(TOPIC, 0, 1)
        assert await write(cluster) == 0
        await cluster.set_replication_rate(2, 0)
        assert await write(cluster, timeout_ms=100) == klamm.ErrorCode.REQUEST_TIMED_OUT
        await cluster.wait_until(lambda: _isr_is(cluster, [1]))
        assert await write(cluster) == 0
        await cluster.set_replication_rate(2, None)
        await cluster.wait_for_isr(TOPIC)
        with pytest.raises(klamm.ClusterError, match="there is no simulated broker 9"):
            await cluster.set_replication_rate(9, 0)


async def _isr_is(cluster: klamm.Cluster, isr: list[int]) -> bool:
    return await cluster.isr(TOPIC, 0) == isr


async def test_a_lagging_follower_has_the_lag_of_its_rate() -> None:
    async with klamm.Cluster(brokers=2, clock="manual") as cluster:
        await cluster.create_topic(TOPIC, 1, 2)
        await cluster.move_leader(TOPIC, 0, 1)
        await cluster.set_replication_rate(2, 10)
        await write(cluster, 50, acks=1)
        topic_id = cluster._up.image.topics_by_name[TOPIC].topic_id
        log = cluster._up.brokers.data.find(topic_id, 0)
        assert log is not None
        assert log.lag(2, await cluster.now_ms()) == 50
        await cluster.advance("2s")
        assert log.lag(2, await cluster.now_ms()) in (29, 30)
        await cluster.set_replication_rate(2, 1000)
        await cluster.advance("10ms")
        assert log.lag(2, await cluster.now_ms()) in (18, 19, 20)
        await cluster.set_replication_rate(2, None)
        assert log.lag(2, await cluster.now_ms()) == 0


async def test_a_session_expires_and_a_fenced_broker_stays_fenced_until_it_is_unfenced() -> None:
    async with klamm.Cluster(brokers=3, configs={"broker.heartbeat.interval.ms": 100}) as cluster:
        await cluster.create_topic(TOPIC, 3, 3)
        brokers: Any = cluster._up.image.brokers
        await cluster.fence_broker(2)
        assert brokers[2].fenced
        assert 2 not in {await cluster.leader(TOPIC, index) for index in range(3)}
        await trio.sleep(0.5)
        assert brokers[2].fenced
        peer = await connect(cluster, 2)
        assert await peer.is_served(), "its listener is open"
        await peer.aclose()
        await cluster.unfence_broker(2)
        assert not brokers[2].fenced
        await cluster.wait_for_isr(TOPIC)
        await cluster.expire_session(3)
        await cluster.wait_until(lambda: not brokers[3].fenced)
        assert 3 not in {await cluster.leader(TOPIC, index) for index in range(3)}
        await cluster.stop_broker(3)
        with pytest.raises(klamm.ClusterError, match="broker 3 is down"):
            await cluster.fence_broker(3)


async def test_a_disk_is_away_and_back() -> None:
    async with klamm.Cluster(brokers=2) as cluster:
        await cluster.create_topic(TOPIC, 1, 2)
        await cluster.move_leader(TOPIC, 0, 1)
        await cluster.create_topic("alone", 2, 1)
        peer = await connect(cluster, 1)
        await cluster.take_disk(1)
        await cluster.take_disk(1)
        assert await cluster.leader(TOPIC, 0) == 2
        assert await cluster.isr(TOPIC, 0) == [2]
        assert {await cluster.leader("alone", index) for index in range(2)} == {2, -1}
        assert cluster._up.image.brokers[1].fenced
        assert await write_at(peer) == klamm.ErrorCode.KAFKA_STORAGE_ERROR
        assert [(fault.id, fault.hits) for fault in await cluster.faults()] == [("disk-1-is-away", 1)]
        assert await write(cluster) == 0
        with pytest.raises(klamm.ClusterError, match="the disk of broker 1 is away"):
            await cluster.unfence_broker(1)
        await cluster.return_disk(1)
        assert {await cluster.leader("alone", index) for index in range(2)} == {1, 2}
        await cluster.wait_for_isr(TOPIC)
        await cluster.move_leader(TOPIC, 0, 1)
        assert await write_at(peer) == 0
        await peer.aclose()


async def test_a_broker_cannot_start_while_its_disk_is_away() -> None:
    async with klamm.Cluster(brokers=2) as cluster:
        await cluster.take_disk(2)
        await cluster.stop_broker(2)
        with pytest.raises(klamm.ClusterError, match="broker 2 cannot start: its disk is away"):
            await cluster.start_broker(2)
        await cluster.return_disk(2)
        await cluster.start_broker(2)
        assert not cluster._up.image.brokers[2].fenced
        await cluster.return_disk(2)


async def test_coordinators_move_to_the_next_replica_in_sync_and_keep_what_they_have() -> None:
    async with klamm.Cluster(brokers=3, configs={"offsets.topic.num.partitions": 4}) as cluster:
        with pytest.raises(klamm.ClusterError, match="there are no coordinators yet"):
            await cluster.rehash_coordinators()
        with pytest.raises(klamm.ClusterError, match=r"of .group.: one of groups, .*; did you mean .groups."):
            await cluster.rehash_coordinators("group")
        peer = await connect(cluster, 1)
        key = find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        await peer.ask(find_coordinator.API, 4, key)
        await cluster.wait_for_topic("__consumer_offsets", 4)

        async def coordinator() -> int:
            return int((await peer.ask(find_coordinator.API, 4, key)).coordinators[0].node_id)

        async def is_found() -> bool:
            return await coordinator() >= 0

        await cluster.wait_until(is_found)
        image: Any = cluster._up.image
        row = image.topics_by_name["__consumer_offsets"].row
        seen = []
        for _ in range(4):
            before = [image.partitions.read(row, index) for index in range(4)]
            seen.append(await coordinator())
            assert await cluster.rehash_coordinators("groups") == 4
            for index, partition in enumerate(before):
                at = partition.replicas.index(partition.leader) + 1
                now = image.partitions.read(row, index)
                assert now.leader == (partition.replicas * 2)[at]
                assert now.leader_epoch == partition.leader_epoch + 1
        assert sorted(seen[:3]) == [1, 2, 3]
        assert seen[3] == seen[0]
        with pytest.raises(klamm.ClusterError, match="there are no coordinators yet"):
            await cluster.rehash_coordinators("transactions")
        await cluster.stop_broker(2)
        for _ in range(2):
            await cluster.rehash_coordinators()
            assert 2 not in {image.partitions.read(row, index).leader for index in range(4)}
        await peer.aclose()


async def test_a_single_broker_has_nowhere_to_move_coordinators() -> None:
    async with klamm.Cluster(brokers=1) as cluster:
        peer = await connect(cluster, 1)
        key = find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=["t"])
        await peer.ask(find_coordinator.API, 4, key)
        await peer.aclose()
        await cluster.wait_for_topic("__transaction_state")
        with pytest.raises(klamm.ClusterError, match="no coordinator has another replica in sync"):
            await cluster.rehash_coordinators("transactions")


async def test_waits_for_topics_and_reassignments() -> None:
    async with klamm.Cluster(brokers=3, clock="manual", replication_rate=10) as cluster:
        with pytest.raises(TimeoutError, match=r"topic 'orders' does not exist after 0\.01 s"):
            await cluster.wait_for_topic(TOPIC, timeout_seconds=0.01)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.wait_for_topic, TOPIC, 2)
            await cluster.create_topic(TOPIC, 2, 1)
        with pytest.raises(TimeoutError, match="topic 'orders' has 2 partitions"):
            await cluster.wait_for_topic(TOPIC, 3, timeout_seconds=0.01)
        await cluster.wait_for_reassignments()
        assert await write(cluster, 30, acks=1) == 0
        leader = await cluster.leader(TOPIC, 0)
        peer = await connect(cluster, leader)
        target = leader % 3 + 1
        wanted = moves.ReassignableTopic(
            name=TOPIC, partitions=[moves.ReassignablePartition(partition_index=0, replicas=[target])]
        )
        await peer.ask(moves.API, 0, moves.AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=1000))
        await peer.aclose()
        with pytest.raises(TimeoutError, match="1 partition is in reassignment"):
            await cluster.wait_for_reassignments(TOPIC, timeout_seconds=0.01)
        await cluster.advance("5s")
        await cluster.wait_for_reassignments()
        assert await cluster.leader(TOPIC, 0) == target
        with pytest.raises(TimeoutError, match="group 'g' is Dead with 0 members"):
            await cluster.wait_for_group("g", timeout_seconds=0.01)
        await cluster.wait_for_group("g", 0, "dead")
        with pytest.raises(klamm.ClusterError, match=r"state 'Stabel': one of .*; did you mean 'Stable'\?"):
            await cluster.wait_for_group("g", 0, "Stabel")


async def test_groups_of_the_newer_kinds_are_awaited() -> None:
    configs = {f"group.{kind}.assignment.interval.ms": 0 for kind in ("consumer", "share", "streams")}
    async with klamm.Cluster(brokers=1, configs=configs, clock="manual") as cluster:
        await cluster.create_topic(TOPIC, 1, 1)
        peer = await connect(cluster, 1)
        key = find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        await peer.ask(find_coordinator.API, 4, key)
        await cluster.wait_for_topic("__consumer_offsets")
        member_id = str(uuid.uuid4())
        subtopology = streams_heartbeat.Subtopology(subtopology_id="0", source_topics=["none"])
        topology = streams_heartbeat.Topology(epoch=1, subtopologies=[subtopology])
        joins: list[tuple[Any, int, Any]] = [
            (consumer_heartbeat.API, 1, consumer_heartbeat.ConsumerGroupHeartbeatRequest(group_id="consumer",
                member_id=member_id, member_epoch=0, rebalance_timeout_ms=60_000, subscribed_topic_names=[TOPIC],
                topic_partitions=[])),
            (share_heartbeat.API, 1, share_heartbeat.ShareGroupHeartbeatRequest(group_id="share",
                member_id=member_id, member_epoch=0, subscribed_topic_names=[TOPIC])),
            (streams_heartbeat.API, 0, streams_heartbeat.StreamsGroupHeartbeatRequest(group_id="streams",
                member_id=member_id, member_epoch=0, rebalance_timeout_ms=60_000, topology=topology, active_tasks=[],
                standby_tasks=[], warmup_tasks=[], process_id="p", client_tags=[])),
        ]  # fmt: skip
        for api, version, request in joins:
            assert (await peer.ask(api, version, request)).error_code == 0
        await peer.aclose()
        await cluster.wait_for_group("consumer", timeout_seconds=5)
        await cluster.wait_for_group("share", timeout_seconds=5)
        await cluster.wait_for_group("streams", 1, "NotReady", timeout_seconds=5)


async def test_bad_requests_are_refused_with_the_reason() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        await cluster.ask("POST", "/topics", {"name": TOPIC})
        rows: list[tuple[str, Any, int, str]] = [
            ("/topics/orders/partitions/x/leader", {"broker": 1}, 404, "'x' is no partition"),
            ("/topics/orders/partitions/7/leader", {"broker": 1}, 404, "has no partition 7"),
            ("/topics/none/partitions/0/leader", {"broker": 1}, 404, "there is no topic"),
            ("/topics/orders/partitions/0/leader", {}, 400, "'broker' is missing"),
            ("/topics/orders/partitions/0/leader", {"broker": "1"}, 400, "broker '1'"),
            ("/topics/orders/partitions/0/leader", {"broker": 2}, 409, "not in the ISR"),
            ("/topics/orders/partitions/0/isr", {}, 400, "one of the members"),
            ("/topics/orders/partitions/0/isr", {"add": 1, "remove": 1}, 400, "one of the members"),
            ("/brokers/9/fence", {}, 404, "no simulated broker 9"),
            ("/brokers/1/replication", {"rate": -1}, 400, "rate -1"),
            ("/brokers/1/replication", {}, 400, "'rate' is missing"),
            ("/brokers/1/disk", {"away": 1}, 400, "true or false"),
            ("/coordinators/rehash", {}, 404, "no coordinators yet"),
            ("/coordinators/rehash", {"of": "shares"}, 400, "of 'shares': one of groups, transactions, share groups"),
            ("/coordinators/rehash", {"of": 7}, 400, "of 7"),
            (
                "/transactions/none/time-out",
                {},
                404,
                "there is no transactional id 'none': there was no transaction yet",
            ),
            ("/transactions/a%2Fb/time-out", {}, 404, "there is no transactional id 'a/b'"),
            ("/topics/none/wait", {"timeout_ms": 1}, 504, "does not exist"),
            ("/topics/none/isr/wait", {"timeout_ms": 1}, 404, "there is no topic"),
            ("/groups/g/wait", {"members": -1}, 400, "members -1"),
            ("/groups/g/wait", {"state": "Stabel"}, 400, "is expected; did you mean 'Stable'?"),
            (
                "/groups/g/wait",
                {"state": None},
                400,
                "state None: one of Assigning, CompletingRebalance, Dead, Empty, ",
            ),
            ("/reassignments/wait", {"topic": 7}, 400, "a string"),
            ("/reassignments/wait", {"timeout_ms": 300_001}, 400, "timeout_ms"),
        ]
        for path, body, status, reason in rows:
            got = await cluster.ask("POST", path, body)
            assert (got[0], reason in got[1]["error"]) == (status, True), (path, got)
        status, partition = await cluster.ask("GET", "/topics/orders/partitions/0")
        assert (status, partition["leader"], partition["isr"]) == (200, 1, [1])


def test_the_commands_are_requests() -> None:
    def command(words: str) -> tuple[str, str, Any]:
        options = decode_control_options(("--url", "http://127.0.0.1:1", *words.split()), {})
        return options.method, options.path, options.body

    timeout = {"timeout_ms": 10_000}
    for words, method, path, body in (
        ("leader o 1 2", "POST", "/topics/o/partitions/1/leader", {"broker": 2}),
        ("isr o 1", "GET", "/topics/o/partitions/1", None),
        ("isr o/p 1 --add 0", "POST", "/topics/o%2Fp/partitions/1/isr", {"add": 0}),
        ("isr o 1 --remove 2", "POST", "/topics/o/partitions/1/isr", {"remove": 2}),
        ("replication 2 --rate 0", "POST", "/brokers/2/replication", {"rate": 0}),
        ("rehash-coordinators", "POST", "/coordinators/rehash", {}),
        ("rehash-coordinators --of groups", "POST", "/coordinators/rehash", {"of": "groups"}),
        ("replication 2", "POST", "/brokers/2/replication", {"rate": None}),
        ("fence 2", "POST", "/brokers/2/fence", None),
        ("unfence 2", "POST", "/brokers/2/unfence", None),
        ("expire-session 2", "POST", "/brokers/2/expire-session", None),
        ("disk 2 --away", "POST", "/brokers/2/disk", {"away": True}),
        ("disk 2 --back", "POST", "/brokers/2/disk", {"away": False}),
        ("clean-logs", "POST", "/logs/clean", None),
        ("time-out-transaction t/1", "POST", "/transactions/t%2F1/time-out", None),
        ("wait topic o --partitions 3", "POST", "/topics/o/wait", {"num_partitions": 3, **timeout}),
        ("wait isr o --seconds 2", "POST", "/topics/o/isr/wait", {"partition": None, "timeout_ms": 2_000}),
        ("wait group g --members 2", "POST", "/groups/g/wait", {"members": 2, "state": "Stable", **timeout}),
        ("wait reassignments", "POST", "/reassignments/wait", {"topic": None, **timeout}),
    ):
        assert command(words) == (method, path, body)
    partition = {"topic": "o", "partition": 1, "leader": 2, "leader_epoch": 3, "replicas": [2, 1], "isr": [2]}
    line = "o-1  leader 2  epoch 3  replicas 2,1  isr 2\n"
    assert as_text(partition) == line
    assert as_text({"partitions": [partition, partition]}) == line * 2
    assert as_text({"group": "g", "state": "Stable", "members": 2}) == "group g is Stable, members 2\n"
    assert as_text({"topic": "o", "num_partitions": 2}) == "topic o has 2 partitions\n"
    assert as_text({"id": 2, "rate": None}) == "broker 2: rate -\n"
    assert as_text({"id": 2, "away": True}) == "the disk of broker 2 is away\n"
