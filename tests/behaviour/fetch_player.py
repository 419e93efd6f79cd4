"""Plays scenarios of Fetch (sessions, KIP-227; closest replica, KIP-392) against any cluster, over real sockets.

The same steps were sent to a real Kafka, whose answers are in tests/golden/fetch-sessions. A step is a mapping with
`do` and what it needs; topics have short names, which get the suffix of the run. Session ids are `S1`, `S2` and so on,
in the order in which they occur; topic ids never appear.

`python -m tests.behaviour.fetch_player KIND HOST:PORT,… < SCENARIOS` plays the scenarios of a kind, which are lines of
JSON, against a cluster, and writes them with its answers.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from klamm.broker.data.record_batches import decode_header
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data import delete_records, fetch, produce
from klamm.protocol.messages.topics import create_topics, delete_topics, metadata
from klamm.protocol.uuid import ZERO_UUID, Uuid
from tests.behaviour.player import Line
from tests.broker.data.batches import batch

Step = Mapping[str, Any]
PATIENCE_SECONDS: Final = 15.0
ASK_AGAIN_SECONDS: Final = 0.05
SINCE_ID: Final = 13
NEVER_MADE: Final = Uuid(bytes.fromhex("00112233445566778899aabbccddeeff"))
UNCHOSEN: Final = -1


class PlayFailed(Exception):
    """A step that only prepares something did not succeed."""


@dataclass
class FetchPlayer:
    """One pass through one scenario. `addresses` has HOST:PORT of each broker by id."""

    addresses: Mapping[int, str]
    suffix: str = ""
    lines: dict[tuple[str, int], Line] = field(default_factory=dict)
    sessions: dict[int, str] = field(default_factory=dict)
    ids: dict[str, Uuid] = field(default_factory=dict)
    former_ids: dict[Uuid, str] = field(default_factory=dict)
    waiting: dict[str, trio.Event] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)

    async def play(self, steps: Sequence[Step]) -> list[Any]:
        """What each step answers; None for those that only prepare."""
        try:
            async with trio.open_nursery() as nursery:
                return [await self._step(step, nursery) for step in steps]
        finally:
            for line in self.lines.values():
                await line.close()

    async def _step(self, step: Step, nursery: trio.Nursery) -> Any:
        do = step["do"]
        if do == "fetch":
            return await self._fetch(step)
        if do == "begin":
            nursery.start_soon(self._fetch_behind, step)
            await trio.sleep(0.1)
            return None
        if do == "end":
            await self.waiting[step["conn"]].wait()
            return self.answers.pop(step["conn"])
        await getattr(self, f"_{do}")(step)
        return None

    async def _line(self, name: str, at: int) -> Line:
        if (name, at) not in self.lines:
            self.lines[name, at] = await Line.open(self.addresses[at])
        return self.lines[name, at]

    async def _ask(self, api: Any, version: int, request: Any, at: int) -> Any:
        return await (await self._line("aside", at)).ask(api, version, request)

    # Preparations.

    async def _create(self, step: Step) -> None:
        name = step["topic"] + self.suffix
        assignments = [
            create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index, replicas in enumerate(step["replicas"])
        ]
        configs = [
            create_topics.CreatableTopicConfig(name=key, value=value)
            for key, value in {"retention.ms": "-1", **step.get("configs", {})}.items()
        ]
        topic = create_topics.CreatableTopic(
            name=name, num_partitions=UNCHOSEN, replication_factor=UNCHOSEN, assignments=assignments, configs=configs
        )
        request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        response = await self._ask(create_topics.API, 7, request, 1)
        if response.topics[0].error_code:
            raise PlayFailed(f"{name}: {response.topics[0]}")
        self.ids[step["topic"]] = response.topics[0].topic_id
        self.former_ids[response.topics[0].topic_id] = step["topic"]
        await self._until_known(name, len(step["replicas"]))

    async def _delete(self, step: Step) -> None:
        name = step["topic"] + self.suffix
        request = delete_topics.DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
        response = await self._ask(delete_topics.API, 5, request, 1)
        if response.responses[0].error_code:
            raise PlayFailed(f"{name}: {response.responses[0]}")
        await self._until_known(name, 0)

    async def _until_known(self, name: str, partitions: int) -> None:
        """Until every broker has the topic with led partitions, or, with 0 of them, has it no longer."""
        topic = metadata.MetadataRequestTopic(name=name)
        request = metadata.MetadataRequest(topics=[topic], allow_auto_topic_creation=False)
        with trio.fail_after(PATIENCE_SECONDS):
            for broker in self.addresses:
                while True:
                    (found,) = (await self._ask(metadata.API, 12, request, broker)).topics
                    led = [one for one in found.partitions if one.leader_id >= 0 and not one.error_code]
                    if len(led) == partitions and bool(found.error_code) is not bool(partitions):
                        break
                    await trio.sleep(ASK_AGAIN_SECONDS)
        await trio.sleep(0.2)

    async def _produce(self, step: Step) -> None:
        name, index = step["topic"] + self.suffix, step["p"]
        data = produce.PartitionProduceData(
            index=index, records=batch(step["count"], value=b"v" * step.get("bytes", 1))
        )
        topic = produce.TopicProduceData(name=name, partition_data=[data])
        request = produce.ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
        with trio.fail_after(PATIENCE_SECONDS):
            while True:
                response = await self._ask(produce.API, 9, request, step.get("at", 1))
                code = response.responses[0].partition_responses[0].error_code
                if not code:
                    return
                if code not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    raise PlayFailed(f"{name}: {code}")
                await trio.sleep(ASK_AGAIN_SECONDS)

    async def _delete_records(self, step: Step) -> None:
        partition = delete_records.DeleteRecordsPartition(partition_index=step["p"], offset=step["offset"])
        topic = delete_records.DeleteRecordsTopic(name=step["topic"] + self.suffix, partitions=[partition])
        request = delete_records.DeleteRecordsRequest(topics=[topic], timeout_ms=10_000)
        response = await self._ask(delete_records.API, 2, request, step.get("at", 1))
        if response.topics[0].partitions[0].error_code:
            raise PlayFailed(str(response))

    async def _sleep(self, step: Step) -> None:
        await trio.sleep(step["ms"] / 1000)

    # Fetch.

    async def _fetch_behind(self, step: Step) -> None:
        self.waiting[step["conn"]] = trio.Event()
        self.answers[step["conn"]] = await self._fetch(step)
        self.waiting[step["conn"]].set()

    async def _fetch(self, step: Step) -> Any:
        version = step["version"]
        began = trio.current_time()
        line = await self._line(step.get("conn", "main"), step.get("at", 1))
        response = await line.ask(fetch.API, version, self._request(step, version))
        if response is None:
            return "closed"
        waited = step.get("max_wait", 0) and trio.current_time() - began >= step["max_wait"] * 0.9 / 1000
        answer: dict[str, Any] = {"waited": True} if waited else {}
        if response.error_code:
            answer["error"] = int(response.error_code)
        if response.session_id:
            new = f"S{len(self.sessions) + 1}"
            answer["session"] = self.sessions.setdefault(response.session_id, new)
        answer["topics"] = [self._shown_topic(topic) for topic in response.responses]
        if response.node_endpoints:
            answer["nodes"] = sorted(node.node_id for node in response.node_endpoints)
        return answer

    def _request(self, step: Step, version: int) -> fetch.FetchRequest:
        session = step.get("session", 0)
        by_name = {name: session_id for session_id, name in self.sessions.items()}
        replica = step.get("replica", -1)
        return fetch.FetchRequest(
            replica_id=replica if version < 15 else -1,
            replica_state=fetch.ReplicaState(replica_id=replica if version >= 15 else -1),
            max_wait_ms=step.get("max_wait", 0),
            min_bytes=step.get("min_bytes", 1),
            max_bytes=step.get("max_bytes", 1 << 20),
            isolation_level=step.get("isolation", 0),
            session_id=by_name[session] if isinstance(session, str) else session,
            session_epoch=step.get("epoch", -1),
            topics=[self._topic(name, partitions, version) for name, partitions in step.get("topics", ())],
            forgotten_topics_data=[self._forgotten(name, of, version) for name, of in step.get("forget", ())],
            rack_id=step.get("rack", ""),
        )

    def _topic(self, name: str, partitions: Sequence[Mapping[str, int]], version: int) -> fetch.FetchTopic:
        return fetch.FetchTopic(
            topic=name + self.suffix if version < SINCE_ID else "",
            topic_id=self._id_of(name) if version >= SINCE_ID else ZERO_UUID,
            partitions=[
                fetch.FetchPartition(
                    partition=one["p"],
                    current_leader_epoch=one.get("epoch", -1),
                    fetch_offset=one.get("offset", 0),
                    last_fetched_epoch=one.get("last", -1) if version >= 12 else -1,
                    partition_max_bytes=one.get("max", 1 << 20),
                )
                for one in partitions
            ],
        )

    def _forgotten(self, name: str, partitions: Sequence[int], version: int) -> fetch.ForgottenTopic:
        return fetch.ForgottenTopic(
            topic=name + self.suffix if version < SINCE_ID else "",
            topic_id=self._id_of(name) if version >= SINCE_ID else ZERO_UUID,
            partitions=partitions,
        )

    def _id_of(self, name: str) -> Uuid:
        return self.ids.get(name, NEVER_MADE)

    def _shown_topic(self, topic: fetch.FetchableTopicResponse) -> list[Any]:
        known = {**self.former_ids, NEVER_MADE: "?"}
        name = topic.topic.removesuffix(self.suffix) if topic.topic else known.get(topic.topic_id, "no id")
        return [name, [_shown(partition) for partition in topic.partitions]]


def _batches(records: bytes) -> list[bytes]:
    """The whole batches; a real Kafka may send a part of one more."""
    found = []
    while len(records) >= 12 and (end := 12 + int.from_bytes(records[8:12])) <= len(records):
        found.append(records[:end])
        records = records[end:]
    return found


def _shown(partition: fetch.PartitionData) -> dict[str, Any]:
    """A partition's answer: always its index and its offsets, the rest if it is not the default."""
    shown: dict[str, Any] = {
        "p": partition.partition_index,
        "hw": partition.high_watermark,
        "lso": partition.last_stable_offset,
        "start": partition.log_start_offset,
    }
    if partition.error_code:
        shown["error"] = int(partition.error_code)
    if partition.records:
        headers = [decode_header(bytes(one)) for one in _batches(bytes(partition.records))]
        shown["records"] = [[one.base_offset, one.last_offset_delta + 1] for one in headers]
    elif partition.records is None:
        shown["records"] = None
    if partition.preferred_read_replica >= 0:
        shown["preferred"] = partition.preferred_read_replica
    if partition.diverging_epoch.epoch >= 0 or partition.diverging_epoch.end_offset >= 0:
        shown["diverging"] = [partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset]
    if partition.current_leader.leader_id >= 0 or partition.current_leader.leader_epoch >= 0:
        shown["leader"] = [partition.current_leader.leader_id, partition.current_leader.leader_epoch]
    if partition.aborted_transactions is not None:
        shown["aborted"] = len(partition.aborted_transactions)
    return shown


async def record(kind: str, bootstrap_servers: str) -> None:
    """Write each scenario of stdin with the answers of a cluster."""
    addresses = dict(enumerate(bootstrap_servers.split(","), 1))
    for number, line in enumerate(sys.stdin):
        scenario = json.loads(line)
        if scenario["kind"] == kind:
            player = FetchPlayer(addresses, f"-{scenario['scenario']}-{trio.current_time():.0f}-{number}")
            answered = {**scenario, "answers": await player.play(scenario["steps"])}
            sys.stdout.write(json.dumps(answered, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    trio.run(record, sys.argv[1], sys.argv[2])
