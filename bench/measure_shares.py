"""Share groups (KIP-932): a million records consumed by ten members, the time of one ShareFetch and one
ShareAcknowledge, and the memory for a million records in flight. Beside kfake; beside Apache Kafka, if asked for.

One process asks each server over blocking sockets, with a connection for each member, so that the client's cost is the
same for all. Each server has one broker. Records are counted by what the answers say was acquired.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from bench.measure_groups import GIVE_UP_SECONDS, MIB, RETRY_SECONDS, Asker, rows_of
from bench.processes import ServerProcess
from bench.raw_client import RawClient, Refused, create_topics_frame, refuse_errors, request_frame
from bench.rows import Row, percentile
from bench.workbench import Workbench
from klamm.protocol.codec.requests import decode_response
from klamm.protocol.messages.configs import incremental_alter_configs as configs
from klamm.protocol.messages.data import produce
from klamm.protocol.messages.groups import find_coordinator
from klamm.protocol.messages.shares import share_acknowledge, share_fetch, share_group_heartbeat
from klamm.protocol.messages.topics import metadata
from klamm.protocol.uuid import Uuid
from tests.broker.data.batches import batch

RECORDS: Final = 1_000_000
MEMBERS: Final = 10
FLIGHT_PARTITIONS: Final = 500
"""Each has as many records in flight as a share partition may have by default, 2,000."""
BATCH_RECORDS, RECORD_BYTES = 1_000, 100
LOCKED_RECORDS: Final = 2_000
SINGLE: Final = 1_000
"""Requests whose time is taken one by one, each about ten records."""
SINGLE_RECORDS: Final = 10
GROUP_TYPE: Final = 32
HEARTBEAT, ALTER, FIND, PRODUCE, METADATA, SHARE_FETCH, SHARE_ACKNOWLEDGE = 1, 1, 4, 9, 12, 1, 1
ACCEPT: Final = 1
FIRST_EPOCH: Final = 0


def measure_shares(bench: Workbench) -> list[Row]:
    """All servers, one after the other: a million records are much memory."""
    makers: list[Any] = [lambda _stack: bench.klamm(brokers=1), lambda _stack: bench.kfake(brokers=1)]
    if bench.kafka_class_path:
        makers.append(lambda stack: bench.kafka(stack.enter_context(bench.folder())))
    found: dict[str, dict[str, float]] = {}
    count = bench.samples(RECORDS)
    for maker in makers:
        with ExitStack() as stack:
            subject = _Subject(bench, stack.enter_context(maker(stack)))
            rate = subject.consume(count)
            fetched, acknowledged = subject.ask_one_by_one(bench.samples(SINGLE, 100))
            memory = subject.hold(bench.samples(FLIGHT_PARTITIONS, 50))
            for name, value in (("rate", rate), ("fetch", fetched), ("acknowledge", acknowledged), ("memory", memory)):
                found.setdefault(name, {})[subject.name] = value
    return _rows(bench, count, found)


def _rows(bench: Workbench, count: int, found: dict[str, dict[str, float]]) -> list[Row]:
    held = bench.samples(FLIGHT_PARTITIONS, 50) * LOCKED_RECORDS
    rows = rows_of("shares", f"{count:,} records consumed by {MEMBERS} members", "s", found["rate"], {"kafka": 1.0})
    about = f"of {SINGLE_RECORDS} records: p50"
    rows += rows_of("shares", f"ShareFetch {about}", "ms", found["fetch"], {"kafka": 1.0})
    rows += rows_of("shares", f"ShareAcknowledge {about}", "ms", found["acknowledge"], {"kafka": 1.0})
    return rows + rows_of("shares", f"{held:,} records in flight: memory", "MB", found["memory"], {})


class _Member:
    """A member with a session on a connection of its own."""

    def __init__(self, client: RawClient, group_id: str, member_id: str, topic_id: Uuid, partitions: Sequence[int]):
        self.client = client
        self._group_id, self._member_id, self._topic_id = group_id, member_id, topic_id
        self._partitions = partitions
        self._epoch = FIRST_EPOCH
        self.acquired: list[tuple[int, int, int]] = []
        """Partition, first and last offset of what is not acknowledged."""

    def begin(self) -> None:
        """The next request begins a session."""
        self._epoch = FIRST_EPOCH

    def fetch_frame(self, max_records: int, *, accepts: bool) -> bytes:
        """A ShareFetch, which accepts what was acquired before."""
        acks: dict[int, list[Any]] = {}
        for partition, first, last in self.acquired if accepts else ():
            one = share_fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[ACCEPT])
            acks.setdefault(partition, []).append(one)
        named = self._partitions if self._epoch == FIRST_EPOCH else sorted(acks)
        listed = [
            share_fetch.FetchPartition(partition_index=at, acknowledgement_batches=acks.get(at, ())) for at in named
        ]
        request = share_fetch.ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=64 * MIB,
            max_records=max_records,
            batch_size=max_records,
            topics=[share_fetch.FetchTopic(topic_id=self._topic_id, partitions=listed)] if listed else [],
        )
        self._epoch += 1
        if accepts:
            self.acquired.clear()
        return request_frame(share_fetch.API, SHARE_FETCH, request)

    def take(self, payload: bytes) -> int:
        """The answer to a fetch. Returns the number of records."""
        found = decode_response(share_fetch.API, SHARE_FETCH, payload)[1]
        if found.error_code:
            raise Refused(f"ShareFetch: error {found.error_code}")
        count = 0
        for partition in (one for topic in found.responses for one in topic.partitions):
            if partition.error_code or partition.acknowledge_error_code:
                raise Refused(f"ShareFetch: errors {partition.error_code}, {partition.acknowledge_error_code}")
            for each in partition.acquired_records:
                self.acquired.append((partition.partition_index, each.first_offset, each.last_offset))
                count += each.last_offset - each.first_offset + 1
        return count

    def acknowledge_frame(self) -> bytes:
        """A ShareAcknowledge that accepts what was acquired."""
        acks: dict[int, list[Any]] = {}
        for partition, first, last in self.acquired:
            one = share_acknowledge.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=[ACCEPT]
            )
            acks.setdefault(partition, []).append(one)
        listed = [
            share_acknowledge.AcknowledgePartition(partition_index=at, acknowledgement_batches=batches)
            for at, batches in acks.items()
        ]
        request = share_acknowledge.ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            topics=[share_acknowledge.AcknowledgeTopic(topic_id=self._topic_id, partitions=listed)],
        )
        self._epoch += 1
        self.acquired.clear()
        return request_frame(share_acknowledge.API, SHARE_ACKNOWLEDGE, request)


class _Subject:
    """One server."""

    def __init__(self, bench: Workbench, server: ServerProcess) -> None:
        self.bench = bench
        self.name = server.name
        self._server = server
        self._client = RawClient(server.addresses[0])
        self._asker = Asker(self._client)

    def consume(self, count: int) -> float:
        """The seconds in which ten members consume all records; each fetch accepts what the one before had."""
        topic_id = self._topic("consumed", MEMBERS)
        with self._members("consumers", "consumed", MEMBERS, topic_id, MEMBERS) as members:
            self._write("consumed", MEMBERS, count // MEMBERS)
            began, left = time.perf_counter(), count
            while left:
                self._check_time(began)
                for member in members:
                    member.client.send(member.fetch_frame(LOCKED_RECORDS, accepts=True))
                left -= sum(member.take(member.client.receive()) for member in members)
            for member in members:
                member.client.exchange(member.acknowledge_frame())
            return time.perf_counter() - began

    def ask_one_by_one(self, count: int) -> tuple[float, float]:
        """The milliseconds of ShareFetch and of ShareAcknowledge, p50."""
        topic_id = self._topic("single", 1)
        fetched, acknowledged = [], []
        with self._members("singles", "single", 1, topic_id, 1) as (member,):
            self._write("single", 1, count * SINGLE_RECORDS, records=SINGLE_RECORDS)
            for _ in range(count):
                exchange = member.client.exchange(member.fetch_frame(SINGLE_RECORDS, accepts=False))
                if member.take(exchange.payload):
                    fetched.append(exchange.last_byte_ns / 1e6)
                    exchange = member.client.exchange(member.acknowledge_frame())
                    acknowledged.append(exchange.last_byte_ns / 1e6)
        return percentile(fetched, 50), percentile(acknowledged, 50)

    def hold(self, partitions: int) -> float:
        """The megabytes by which memory grows while one member acquires 2,000 records of each partition."""
        topic_id = self._topic("held", partitions)
        with self._members("holders", "held", 1, topic_id, partitions) as (member,):
            self._write("held", partitions, LOCKED_RECORDS)
            before, began, left = self._server.resident_bytes, time.perf_counter(), partitions * LOCKED_RECORDS
            while left:
                self._check_time(began)
                left -= member.take(member.client.exchange(member.fetch_frame(LOCKED_RECORDS, accepts=False)).payload)
            return (self._server.resident_bytes - before) / MIB

    # -- what comes before -----------------------------------------------------------------------------------------

    def _check_time(self, began: float) -> None:
        if time.perf_counter() > began + GIVE_UP_SECONDS:
            raise Refused(f"{self.name} takes too long")

    def _topic(self, name: str, partitions: int) -> Uuid:
        refuse_errors(self._client.exchange(create_topics_frame(name, partitions, 1)).payload)
        request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name)])
        began = time.perf_counter()
        while (found := self._asker.ask(metadata.API, METADATA, request)[0].topics[0]).error_code:
            self._check_time(began)
            time.sleep(RETRY_SECONDS)
        topic_id: Uuid = found.topic_id
        return topic_id

    def _write(self, topic: str, partitions: int, count: int, records: int = BATCH_RECORDS) -> None:
        """So many records in each partition."""
        data = batch(records, value=bytes(RECORD_BYTES), timestamp_ms=int(time.time() * 1_000))
        for partition in range(partitions):
            one = produce.PartitionProduceData(index=partition, records=data)
            topics = [produce.TopicProduceData(name=topic, partition_data=[one])]
            request = produce.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)
            for _ in range(count // records):
                written, _ = self._asker.ask(produce.API, PRODUCE, request)
                if written.responses[0].partition_responses[0].error_code:
                    raise Refused(f"Produce: error {written.responses[0].partition_responses[0].error_code}")

    @contextmanager
    def _members(
        self, group_id: str, topic: str, count: int, topic_id: Uuid, partitions: int
    ) -> Iterator[list[_Member]]:
        """Members that have joined, with the partitions divided among them, and sessions that have begun."""
        self._find_coordinator(group_id)
        self._begin_at_start(group_id)
        for number in range(count):
            self._join(group_id, f"m{number}", topic)
        with ExitStack() as stack:
            members = [
                _Member(
                    stack.enter_context(RawClient(self._server.addresses[0])),
                    group_id,
                    f"m{number}",
                    topic_id,
                    range(number, partitions, count),
                )
                for number in range(count)
            ]
            for member in members:
                self._begin(member)
            yield members

    def _begin(self, member: _Member) -> None:
        """Fetch until the share partitions are loaded; nothing is written yet. Each attempt begins a session."""
        give_up_at = time.monotonic() + GIVE_UP_SECONDS
        while True:
            member.begin()
            try:
                member.take(member.client.exchange(member.fetch_frame(1, accepts=False)).payload)
            except Refused:
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(RETRY_SECONDS)
            else:
                return

    def _find_coordinator(self, group_id: str) -> None:
        request = find_coordinator.FindCoordinatorRequest(coordinator_keys=[group_id])
        give_up_at = time.monotonic() + GIVE_UP_SECONDS
        while self._asker.ask(find_coordinator.API, FIND, request)[0].coordinators[0].error_code:
            if time.monotonic() > give_up_at:
                raise Refused(f"{self.name} has no coordinator")
            time.sleep(RETRY_SECONDS)

    def _begin_at_start(self, group_id: str) -> None:
        change = configs.AlterableConfig(name="share.auto.offset.reset", value="earliest")
        resource = configs.AlterConfigsResource(resource_type=GROUP_TYPE, resource_name=group_id, configs=[change])
        found, _ = self._asker.ask(configs.API, ALTER, configs.IncrementalAlterConfigsRequest(resources=[resource]))
        if found.responses[0].error_code:
            raise Refused(f"configs of the group: {found.responses[0].error_message}")

    def _join(self, group_id: str, member_id: str, topic: str) -> None:
        epoch, give_up_at = FIRST_EPOCH, time.monotonic() + GIVE_UP_SECONDS
        while True:
            request = share_group_heartbeat.ShareGroupHeartbeatRequest(
                group_id=group_id,
                member_id=member_id,
                member_epoch=epoch,
                subscribed_topic_names=[topic] if epoch == FIRST_EPOCH else None,
            )
            found, _ = self._asker.ask(share_group_heartbeat.API, HEARTBEAT, request)
            epoch = found.member_epoch or epoch
            if not found.error_code and found.assignment is not None and found.assignment.topic_partitions:
                return
            if time.monotonic() > give_up_at:
                raise Refused(f"{self.name}: a member gets no partitions, error {found.error_code}")
            time.sleep(RETRY_SECONDS)
