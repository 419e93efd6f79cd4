"""Groups and transactions: first member, rebalances of both protocols, ten thousand groups, commits, transactions.

One process of blocking sockets asks each server, so that the client's cost is the same for all. Each server has one
broker, which coordinates everything. Members of a rebalance have a connection each.
"""

import selectors
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from bench.processes import ServerProcess
from bench.raw_client import RawClient, Refused, create_topics_frame, refuse_errors, request_frame
from bench.rows import Row, median, percentile
from bench.workbench import Workbench
from klamm.protocol.api import Api
from klamm.protocol.codec.requests import decode_response
from klamm.protocol.fields import Message
from klamm.protocol.messages.data import produce
from klamm.protocol.messages.groups import (
    consumer_group_heartbeat,
    find_coordinator,
    heartbeat,
    join_group,
    sync_group,
)
from klamm.protocol.messages.offsets import offset_commit
from klamm.protocol.messages.topics import metadata
from klamm.protocol.messages.transactions import add_partitions_to_txn, end_txn, init_producer_id
from klamm.protocol.uuid import Uuid
from tests.broker.data.batches import TRANSACTIONAL, batch

NO_DELAY = ("--set", "group.initial.rebalance.delay.ms=0")
TOPIC = "orders"
PARTITIONS = 1_000
MEMBERS = (100, 1_000)
GROUPS = 10_000
FIRST_MEMBERS = 100
COMMITS = 1_000
TRANSACTIONS = 500
REBALANCES = 3
BEATS = 5_000
MIB = 1024 * 1024
NS_PER_MS = 1e6
SESSION_MS = 60_000
RETRY_SECONDS = 0.05
GIVE_UP_SECONDS = 120.0
JOIN, SYNC, BEAT, COMMIT, CONSUMER_BEAT = 5, 3, 3, 7, 0
INITIALIZE, ADD, PRODUCE, END = 3, 3, 9, 3
MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID = 79, 27, 25
HEARTBEAT_SECONDS = 1.0
"""How long members that have an assignment wait before they join again for the others."""


class Asker:
    """A connection that decodes its answers after the clock has stopped."""

    def __init__(self, client: RawClient) -> None:
        self._client = client

    def ask(self, api: Api[Any, Any], version: int, request: Message) -> tuple[Any, float]:
        """The response, and the milliseconds that it took."""
        exchange = self._client.exchange(request_frame(api, version, request))
        return decode_response(api, version, exchange.payload)[1], exchange.last_byte_ns / NS_PER_MS

    def accepted(self, api: Api[Any, Any], version: int, request: Message) -> tuple[Any, float]:
        """The same; Refused if the response has an error."""
        found, took_ms = self.ask(api, version, request)
        if getattr(found, "error_code", 0):
            raise Refused(f"{api.name}: error {found.error_code}")
        return found, took_ms


def measure_groups(bench: Workbench) -> list[Row]:
    """Beside kfake; beside Apache Kafka, if asked for, but for what waits for its initial delay of three seconds."""
    with ExitStack() as stack:
        ours = _Subject(bench, stack.enter_context(bench.klamm(*NO_DELAY, brokers=1)))
        peers = [_Subject(bench, stack.enter_context(bench.kfake(brokers=1)))]
        if bench.kafka_class_path:
            folder = stack.enter_context(bench.folder())
            peers.append(_Subject(bench, stack.enter_context(bench.kafka(folder))))
        return [row for measure in MEASURED for row in measure(ours, peers)]


class _Subject:
    """One server with the topic."""

    def __init__(self, bench: Workbench, server: ServerProcess) -> None:
        self.bench = bench
        self.server = server
        self.name = server.name
        self.client = RawClient(server.addresses[0])
        self.asker = Asker(self.client)
        refuse_errors(self.client.exchange(create_topics_frame(TOPIC, PARTITIONS, 1)).payload)
        for key_type in (0, 1):
            self._until_found(key_type)

    def _until_found(self, key_type: int) -> None:
        request = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g"])
        give_up_at = time.monotonic() + GIVE_UP_SECONDS
        while self.asker.ask(find_coordinator.API, 4, request)[0].coordinators[0].error_code:
            if time.monotonic() > give_up_at:
                raise Refused(f"{self.name} has no coordinator")
            time.sleep(RETRY_SECONDS)

    def topic_id(self) -> Uuid:
        request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=TOPIC)])
        found: Uuid = self.asker.ask(metadata.API, 12, request)[0].topics[0].topic_id
        return found


# -- classic groups ------------------------------------------------------------------------------------------------


def _join(group_id: str, member_id: str) -> bytes:
    request = join_group.JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")],
    )
    return request_frame(join_group.API, JOIN, request)


def _sync(group_id: str, member_id: str, generation_id: int, ids: Sequence[str]) -> bytes:
    given = [sync_group.SyncGroupRequestAssignment(member_id=one, assignment=bytes(100)) for one in ids]
    request = sync_group.SyncGroupRequest(
        group_id=group_id, generation_id=generation_id, member_id=member_id, assignments=given
    )
    return request_frame(sync_group.API, SYNC, request)


class _Rebalance:
    """All members join and sync, each on its connection, as they are answered."""

    def __init__(self, clients: Sequence[RawClient], group_id: str, ids: list[str]) -> None:
        """`ids` are the member ids, empty for new members; they are updated."""
        self._clients = clients
        self._group_id = group_id
        self._ids = ids
        self._generations: dict[int, int] = {}
        """By number of the member: the generation that it has an assignment of."""
        self._joins = set(range(len(clients)))
        self._joined: dict[int, int] = {}

    def run(self) -> float:
        """Returns the milliseconds until all have an assignment of one generation."""
        began = time.perf_counter()
        with selectors.DefaultSelector() as selector:
            for at, client in enumerate(self._clients):
                selector.register(client, selectors.EVENT_READ, at)
                self._join(at)
            while len(self._generations) < len(self._clients) or len(set(self._generations.values())) > 1:
                if time.perf_counter() - began > GIVE_UP_SECONDS:
                    raise Refused(f"{len(self._clients)} members do not become stable")
                ready = selector.select(HEARTBEAT_SECONDS)
                for key, _ in ready:
                    self._take(key.data)
                if not ready:  # others wait for members that have an assignment
                    for at in list(self._generations):
                        self._join(at)
        return (time.perf_counter() - began) * 1_000

    def _join(self, at: int) -> None:
        self._generations.pop(at, None)
        self._joins.add(at)
        self._clients[at].send(_join(self._group_id, self._ids[at]))

    def _take(self, at: int) -> None:
        answer = self._clients[at].receive()
        if at not in self._joins:
            if decode_response(sync_group.API, SYNC, answer)[1].error_code:
                self._join(at)
            else:
                self._generations[at] = self._joined[at]
            return
        found = decode_response(join_group.API, JOIN, answer)[1]
        if found.error_code not in (0, MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID):
            raise Refused(f"JoinGroup: error {found.error_code}")
        if found.error_code != REBALANCE_IN_PROGRESS:
            self._ids[at] = "" if found.error_code == UNKNOWN_MEMBER_ID else found.member_id
        if found.error_code:
            self._join(at)
            return
        self._joins.discard(at)
        self._joined[at] = found.generation_id
        all_ids = [one.member_id for one in found.members] if found.leader == found.member_id else ()
        self._clients[at].send(_sync(self._group_id, found.member_id, found.generation_id, all_ids))


def _classic_rebalances(ours: _Subject, peers: Sequence[_Subject]) -> list[Row]:
    rows = []
    for members in MEMBERS:
        count = ours.bench.samples(members, members // 10)
        found = {one.name: median(_rebalances_of(one, count)) for one in (ours, *peers)}
        rows += _rows(f"rebalance of {count:,} members, classic", "ms", found, {"kfake": 2.0, "kafka": 1.0})
    return rows


def _rebalances_of(subject: _Subject, count: int) -> list[float]:
    """A group whose members are known joins again, all of them at once."""
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(subject.server.addresses[0])) for _ in range(count)]
        ids = [""] * count
        group_id = f"classic-{count}"
        _Rebalance(clients, group_id, ids).run()
        return [_Rebalance(clients, group_id, ids).run() for _ in range(REBALANCES)]


def _first_member(ours: _Subject, peers: Sequence[_Subject]) -> list[Row]:
    count = ours.bench.samples(FIRST_MEMBERS, 10)
    found = {}
    for one in (ours, *(peer for peer in peers if peer.name == "kfake")):
        found[one.name] = median([_Rebalance([one.client], f"first-{at}", [""]).run() for at in range(count)])
    return _rows("the first member joins, no initial delay", "ms", found, {"kfake": 1.0})


def _many_groups(ours: _Subject, peers: Sequence[_Subject]) -> list[Row]:
    count = ours.bench.samples(GROUPS, 1_000)
    memory, beats = {}, {}
    for one in (ours, *(peer for peer in peers if peer.name == "kfake")):
        before = one.server.resident_bytes
        members: list[tuple[str, str]] = []
        for number in range(count):
            ids = [""]
            _Rebalance([one.client], f"many-{number}", ids).run()
            members.append((f"many-{number}", ids[0]))
        memory[one.name] = (one.server.resident_bytes - before) / MIB
        requests = [
            heartbeat.HeartbeatRequest(group_id=group_id, generation_id=1, member_id=member_id)
            for group_id, member_id in members
        ]
        cpu = one.server.cpu_seconds
        for request in (requests * BEATS)[:BEATS]:
            one.asker.accepted(heartbeat.API, BEAT, request)
        # A member beats every three seconds.
        beats[one.name] = (one.server.cpu_seconds - cpu) / BEATS * count / 3 * 1_000
    return [
        *_rows(f"{count:,} groups of one member: memory", "MB", memory, {}),
        *_rows(f"{count:,} groups of one member: processor time of their heartbeats, per second", "ms", beats, {}),
    ]


# -- KIP-848 -------------------------------------------------------------------------------------------------------


def _consumer_rebalances(ours: _Subject, peers: Sequence[_Subject]) -> list[Row]:
    rows = []
    for members in MEMBERS:
        count = ours.bench.samples(members, members // 10)
        found = {one.name: _consumer_rebalance(one, count) for one in (ours, *peers)}
        rows += _rows(
            f"{count:,} members join a KIP-848 group, until each has its partitions",
            "ms",
            found,
            {"kfake": 2.0, "kafka": 1.0},
        )
    return rows


def _consumer_rebalance(subject: _Subject, count: int) -> float:
    """Members join one after the other, then beat until each partition has its member. Returns the milliseconds."""
    group_id, topic_id = f"consumer-{count}", subject.topic_id()
    owned: dict[str, Sequence[int]] = {f"m{at}": () for at in range(count)}
    epochs = dict.fromkeys(owned, 0)
    began = time.perf_counter()
    give_up_at = began + GIVE_UP_SECONDS
    while not (all(epochs.values()) and sum(map(len, owned.values())) == PARTITIONS and len(set(epochs.values())) == 1):
        if time.perf_counter() > give_up_at:
            raise Refused(f"{subject.name}: {count} members do not become stable")
        for member_id, partitions in owned.items():
            joins = not epochs[member_id]
            has = [consumer_group_heartbeat.TopicPartitions(topic_id=topic_id, partitions=partitions)]
            request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
                group_id=group_id,
                member_id=member_id,
                member_epoch=epochs[member_id],
                rebalance_timeout_ms=SESSION_MS if joins else -1,
                subscribed_topic_names=[TOPIC] if joins else None,
                topic_partitions=has if partitions else [],
            )
            found, _ = subject.asker.accepted(consumer_group_heartbeat.API, CONSUMER_BEAT, request)
            epochs[member_id] = found.member_epoch
            if found.assignment is not None:
                owned[member_id] = [one for topic in found.assignment.topic_partitions for one in topic.partitions]
    return (time.perf_counter() - began) * 1_000


# -- offsets and transactions --------------------------------------------------------------------------------------


def _commits(ours: _Subject, peers: Sequence[_Subject]) -> list[Row]:
    count, found = ours.bench.samples(COMMITS, 100), {}
    for one in (ours, *peers):
        took = []
        for offset in range(count):
            partition = offset_commit.OffsetCommitRequestPartition(committed_offset=offset)
            topics = [offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
            request = offset_commit.OffsetCommitRequest(group_id="commits", topics=topics)
            answer, took_ms = one.asker.ask(offset_commit.API, COMMIT, request)
            if answer.topics[0].partitions[0].error_code:
                raise Refused(f"OffsetCommit: error {answer.topics[0].partitions[0].error_code}")
            took.append(took_ms)
        found[one.name] = percentile(took, 50)
    return _rows("OffsetCommit of one partition: p50", "ms", found, {"kfake": 2.0})


def _transactions(ours: _Subject, peers: Sequence[_Subject]) -> list[Row]:
    count = ours.bench.samples(TRANSACTIONS, 50)
    found = {one.name: percentile(_transactions_of(one, count), 50) for one in (ours, *peers)}
    marks = {"kfake": 2.0, "kafka": 0.2}
    return _rows("a transaction of 10 records (AddPartitionsToTxn, Produce, EndTxn): p50", "ms", found, marks)


def _transactions_of(subject: _Subject, count: int) -> list[float]:
    ask, name = subject.asker, "bench"
    begins = init_producer_id.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=SESSION_MS)
    begun = _until_accepted(lambda: ask.ask(init_producer_id.API, INITIALIZE, begins)[0], lambda one: one.error_code)
    producer_id, epoch = begun.producer_id, begun.producer_epoch
    added = add_partitions_to_txn.AddPartitionsToTxnRequestAddPartitionsToTxnTopic(name=TOPIC, partitions=[0])
    adds = add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[added],
    )
    ends = end_txn.EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=True)
    took = []
    for number in range(count):
        records = batch(
            10,
            value=bytes(100),
            timestamp_ms=int(time.time() * 1_000),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=10 * number,
            attributes=TRANSACTIONAL,
        )
        data = [produce.PartitionProduceData(index=0, records=records)]
        topic = produce.TopicProduceData(name=TOPIC, partition_data=data)
        writes = produce.ProduceRequest(transactional_id=name, acks=-1, timeout_ms=5_000, topic_data=[topic])
        began = time.perf_counter()
        _until_accepted(lambda: ask.ask(add_partitions_to_txn.API, ADD, adds)[0], _code_of_added)
        written, _ = ask.ask(produce.API, PRODUCE, writes)
        if written.responses[0].partition_responses[0].error_code:
            raise Refused(f"Produce: error {written.responses[0].partition_responses[0].error_code}")
        ask.accepted(end_txn.API, END, ends)
        took.append((time.perf_counter() - began) * 1_000)
    return took


def _code_of_added(one: Any) -> int:
    code: int = one.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    return code


def _until_accepted(ask: Callable[[], Any], code_of: Callable[[Any], int]) -> Any:
    """Ask again while a former transaction is being ended, as clients do."""
    give_up_at = time.monotonic() + GIVE_UP_SECONDS
    while code_of(found := ask()):
        if time.monotonic() > give_up_at:
            raise Refused(f"error {code_of(found)}")
        time.sleep(0.001)
    return found


MEASURED = (_first_member, _classic_rebalances, _consumer_rebalances, _many_groups, _commits, _transactions)


def _rows(what: str, unit: str, found: dict[str, float], marks: dict[str, float]) -> list[Row]:
    return rows_of("groups", what, unit, found, marks)


def rows_of(group: str, what: str, unit: str, found: dict[str, float], marks: dict[str, float]) -> list[Row]:
    """Klamm beside each peer that was measured; `marks` has the largest ratio by peer."""
    klamm = found.pop("klamm")
    rows = []
    for peer, theirs in found.items():
        kind = "kafka" if "kafka" in peer.lower() else peer
        mark = marks.get(kind)
        rows.append(
            Row(
                group=group,
                what=what,
                unit=unit,
                klamm=klamm,
                peer=peer,
                theirs=theirs,
                mark=f"<= {mark:g} × {peer}" if mark else None,
                reached=klamm <= mark * theirs if mark else None,
            )
        )
    return rows
