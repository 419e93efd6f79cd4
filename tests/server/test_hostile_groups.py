"""Requests about groups and transactions of any kind, over sockets: each is answered with a code of Kafka's or closed
upon, memory is bounded, and a member beside them is served at once.
"""

import time

import pytest
import trio

from klamm.broker.coordinator import budget
from klamm.controller.settings import Settings
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.errors import ErrorCode, ProtocolError
from klamm.protocol.messages.groups import find_coordinator, heartbeat, join_group, sync_group
from klamm.protocol.messages.groups.leave_group import API as LEAVE
from klamm.protocol.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.offsets import offset_commit, offset_fetch
from klamm.protocol.messages.topics import create_topics
from tests.server.harness import Peer, RunningServer, create_topic, open_test_server
from tests.server.hostile_groups import TOPIC, Hostile, error_codes

SEEDS = range(4)
REQUESTS = 60
CONNECTIONS = 4
PROBES = 20
DEADLINE_SECONDS = 120.0
SLOWEST_PROBE_SECONDS = 2.0
"""Of a probe of three requests on a busy machine; alone it takes 3 ms."""
CODES = frozenset(ErrorCode)
CONFIGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
LIVES = 100


async def member(running: RunningServer, group_id: str = "good") -> tuple[Peer, str, int]:
    """A member of a classic group that is stable."""
    peer = await running.connect()
    for key_type in (0, 1):
        request = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[group_id])
        await peer.ask(find_coordinator.API, 6, request)
        assert (await peer.ask(find_coordinator.API, 6, request)).coordinators[0].error_code == 0
    member_id = (await peer.ask(join_group.API, 9, _join(group_id, ""))).member_id
    joined = await peer.ask(join_group.API, 9, _join(group_id, member_id))
    assert joined.error_code == 0
    synced = await peer.ask(sync_group.API, 5, _sync(group_id, member_id, joined.generation_id))
    assert synced.error_code == 0
    return peer, member_id, joined.generation_id


def _join(group_id: str, member_id: str) -> join_group.JoinGroupRequest:
    return join_group.JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=1_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )


def _sync(group_id: str, member_id: str, generation_id: int) -> sync_group.SyncGroupRequest:
    return sync_group.SyncGroupRequest(
        group_id=group_id,
        generation_id=generation_id,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[sync_group.SyncGroupRequestAssignment(member_id=member_id, assignment=b"a")],
    )


async def probe(peer: Peer, member_id: str, generation_id: int, offset: int) -> float:
    """A heartbeat, a commit and what it committed; returns the seconds that took."""
    began = time.monotonic()
    beats = heartbeat.HeartbeatRequest(group_id="good", generation_id=generation_id, member_id=member_id)
    assert (await peer.ask(heartbeat.API, 4, beats)).error_code == 0
    one = offset_commit.OffsetCommitRequestPartition(committed_offset=offset)
    commit = offset_commit.OffsetCommitRequest(
        group_id="good",
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        topics=[offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=[one])],
    )
    assert error_codes(await peer.ask(offset_commit.API, 9, commit)) == [0]
    topics = [offset_fetch.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    group = offset_fetch.OffsetFetchRequestGroup(group_id="good", topics=topics)
    found = await peer.ask(offset_fetch.API, 9, offset_fetch.OffsetFetchRequest(groups=[group]))
    assert found.groups[0].topics[0].partitions[0].committed_offset == offset
    return time.monotonic() - began


async def attack(running: RunningServer, hostile: Hostile, codes: set[int]) -> None:
    """Requests one after the other. An answer that does not come at once is not waited for: the connection ends."""
    peer = await running.connect()
    for number in range(REQUESTS):
        api, version, request = hostile.request()
        try:
            frame = encode_frame(encode_request(api, version, number, "hostile", request))
        except ProtocolError:
            continue  # what this version cannot say
        answer = None
        with trio.move_on_after(0.1):
            await peer.send(frame)
            answer = await peer.receive()
        if answer is None:
            await peer.aclose()
            peer = await running.connect()
        else:
            codes.update(error_codes(decode_response(api, version, answer)[1]))


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_is_asked_has_an_answer_of_kafka_s_and_others_are_served(seed: int) -> None:
    codes: set[int] = set()
    async with open_test_server(settings=Settings(seed=1, profile="kafka", static_configs=CONFIGS)) as running:
        good, member_id, generation_id = await member(running)
        made = await good.ask(create_topics.API, 7, create_topic(TOPIC, 3))
        longest = 0.0
        with trio.fail_after(DEADLINE_SECONDS):
            async with trio.open_nursery() as nursery:
                for number in range(CONNECTIONS):
                    hostile = Hostile(seed * CONNECTIONS + number, made.topics[0].topic_id)
                    nursery.start_soon(attack, running, hostile, codes)
                for offset in range(PROBES):
                    longest = max(longest, await probe(good, member_id, generation_id, offset))
                    await trio.sleep(0.01)
            await probe(good, member_id, generation_id, PROBES)
        assert running.controller.image is not None
    assert longest < SLOWEST_PROBE_SECONDS
    assert codes <= CODES
    assert len(codes) > 8, "the requests reach the coordinators"


async def test_joins_and_leaves_without_end_leave_nothing_behind() -> None:
    async with open_test_server(settings=Settings(seed=1, profile="kafka", static_configs=CONFIGS)) as running:
        good, member_id, generation_id = await member(running)
        await good.ask(create_topics.API, 7, create_topic(TOPIC, 3))
        restless = await running.connect()
        longest = 0.0
        for number in range(LIVES):
            first = await restless.ask(join_group.API, 9, _join("restless", ""))
            joined = await restless.ask(join_group.API, 9, _join("restless", first.member_id))
            assert joined.error_code == 0
            leaves = LeaveGroupRequest(group_id="restless", members=[MemberIdentity(member_id=joined.member_id)])
            assert (await restless.ask(LEAVE, 5, leaves)).error_code == 0
            if number % 20 == 0:
                longest = max(longest, await probe(good, member_id, generation_id, number))
        assert longest < SLOWEST_PROBE_SECONDS
        live = running.server.brokers.coordinators.budget.live_bytes
        assert live < 2_000, "two groups, one of them empty"
        assert live < budget.MAX_LIVE_BYTES
