"""Hostile requests of share groups: a member of another group is served among them, what they can pile up is bounded,
and nothing is left when they have gone. Requests are counted, not seconds."""

from contextlib import suppress
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from klamm.broker.share_partitions import leaders, sessions
from klamm.controller.core import Answer, Call, Controller
from klamm.controller.long_decision import LongDecision
from klamm.controller.settings import Settings
from klamm.protocol.api import Api
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.errors import ErrorCode, ProtocolError
from klamm.protocol.messages.configs import incremental_alter_configs as configs
from klamm.protocol.messages.data import produce
from klamm.protocol.messages.groups import find_coordinator
from klamm.protocol.messages.shares import share_acknowledge, share_fetch, share_group_heartbeat
from klamm.protocol.messages.topics import create_topics
from klamm.protocol.uuid import Uuid
from klamm.server.limits import ServerLimits
from tests.broker.data.batches import batch
from tests.server.harness import Peer, RunningServer, create_topic, open_test_server, settled
from tests.server.hostile_groups import error_codes
from tests.server.hostile_shares import TOPIC, HostileShares

SEEDS = range(2)
CONNECTIONS = 4
REQUESTS = 160
AT_ONCE = 16
PROBES = 12
MAX_MEMBERS = 5
TURN_REQUESTS = 4
ROUNDS = 9
"""In which the three requests of a probe are answered; in each, every other connection gets `TURN_REQUESTS`."""
DEADLINE_SECONDS = 300.0
CONFIGS = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.max.size": str(MAX_MEMBERS),
    "group.share.assignment.interval.ms": "0",
}


class Counting(Controller):
    """Counts the requests of hostile clients."""

    hostile = 0

    def begin(self, call: Call, *, others_wait: bool = False) -> Answer | LongDecision:
        self.hostile += call.client_id == "hostile"
        return super().begin(call, others_wait=others_wait)


class Good:
    """A member of a share group that consumes one record after the other."""

    def __init__(self, peer: Peer, topic_id: Uuid) -> None:
        self.peer, self.topic_id = peer, topic_id
        self.epoch = 0
        self.next_offset = 0

    async def join(self) -> None:
        find = find_coordinator.FindCoordinatorRequest(coordinator_keys=["good"])
        for _ in range(2):
            await self.peer.ask(find_coordinator.API, 6, find)
        change = configs.AlterableConfig(name="share.auto.offset.reset", value="earliest")
        resource = configs.AlterConfigsResource(resource_type=32, resource_name="good", configs=[change])
        altered = configs.IncrementalAlterConfigsRequest(resources=[resource])
        assert error_codes(await self.peer.ask(configs.API, 1, altered)) == [0]
        beat = share_group_heartbeat.ShareGroupHeartbeatRequest(
            group_id="good", member_id="a", subscribed_topic_names=[TOPIC]
        )
        assert (await self.peer.ask(share_group_heartbeat.API, 1, beat)).error_code == 0

    async def probe(self) -> None:
        """Write a record, acquire it and accept it."""
        data = produce.PartitionProduceData(index=0, records=batch(1))
        topic = produce.TopicProduceData(name=TOPIC, topic_id=self.topic_id, partition_data=[data])
        written = await self.peer.ask(produce.API, 13, produce.ProduceRequest(acks=1, topic_data=[topic]))
        assert error_codes(written) == [0]
        places = [share_fetch.FetchPartition(partition_index=0)]
        request = share_fetch.ShareFetchRequest(
            group_id="good",
            member_id="a",
            share_session_epoch=self.epoch,
            max_records=1,
            batch_size=1,
            max_wait_ms=10_000,
            min_bytes=1,
            topics=[] if self.epoch else [share_fetch.FetchTopic(topic_id=self.topic_id, partitions=places)],
        )
        fetched = await self.peer.ask(share_fetch.API, 2, request)
        assert fetched.error_code == 0
        (acquired,) = fetched.responses[0].partitions[0].acquired_records
        assert acquired.first_offset == self.next_offset, "nothing is skipped, and nothing comes twice"
        accepted = await self.peer.ask(share_acknowledge.API, 2, self._accept(acquired))
        assert [one.error_code for one in accepted.responses[0].partitions] == [0]
        self.epoch += 2
        self.next_offset = acquired.last_offset + 1

    def _accept(self, acquired: Any) -> share_acknowledge.ShareAcknowledgeRequest:
        one = share_acknowledge.AcknowledgementBatch(
            first_offset=acquired.first_offset, last_offset=acquired.last_offset, acknowledge_types=[1]
        )
        places = [share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=[one])]
        return share_acknowledge.ShareAcknowledgeRequest(
            group_id="good",
            member_id="a",
            share_session_epoch=self.epoch + 1,
            topics=[share_acknowledge.AcknowledgeTopic(topic_id=self.topic_id, partitions=places)],
        )


async def attack(running: RunningServer, hostile: HostileShares, codes: set[int]) -> None:
    """Many requests at once on each connection; some of them close it."""
    for _ in range(REQUESTS // AT_ONCE):
        peer = running.connect_in_memory()
        asked = []
        for number in range(AT_ONCE):
            api, version, request = hostile.request()
            with suppress(ProtocolError):  # what this version cannot say
                frame = encode_frame(encode_request(api, version, number, "hostile", request))
                asked.append((api, version, frame))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, peer, asked, codes)
            with suppress(trio.ClosedResourceError, trio.BrokenResourceError):
                await peer.send(b"".join(frame for _, _, frame in asked))
        if hostile.leaves():
            await peer.aclose()


async def read(peer: Peer, asked: list[tuple[Api[Any, Any], int, bytes]], codes: set[int]) -> None:
    with suppress(trio.ClosedResourceError, trio.BrokenResourceError):
        for api, version, _ in asked:
            answer = await peer.receive(DEADLINE_SECONDS)
            if answer is None:
                return
            codes.update(error_codes(decode_response(api, version, answer)[1]))


def check_bounds(running: RunningServer) -> None:
    """What hostile clients hold at any time."""
    shares = running.server.brokers.shares
    assert len(shares.leaders.sessions(1)) <= CONNECTIONS * REQUESTS
    assert len(shares.leaders) <= leaders.MAX_SHARE_PARTITIONS
    assert len(shares.leaders.locks) <= leaders.MAX_IN_FLIGHT
    assert shares.leaders.sessions(1).partition_count <= sessions.MAX_PARTITIONS


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_member_of_another_group_is_served_among_them(seed: int, autojump_clock: MockClock) -> None:
    codes: set[int] = set()
    settings = Settings(seed=1, profile="kafka", static_configs=CONFIGS)
    limits = ServerLimits(turn_requests=TURN_REQUESTS)
    async with open_test_server(settings=settings, controller_class=Counting, limits=limits) as running:
        peer = running.connect_in_memory()
        made = await peer.ask(create_topics.API, 7, create_topic(TOPIC, 2))
        good = Good(peer, made.topics[0].topic_id)
        await good.join()
        await good.probe()
        controller: Any = running.controller
        longest = 0
        with trio.fail_after(DEADLINE_SECONDS):
            async with trio.open_nursery() as nursery:
                for number in range(CONNECTIONS):
                    hostile = HostileShares(seed * CONNECTIONS + number, good.topic_id)
                    nursery.start_soon(attack, running, hostile, codes)
                await settled(lambda: controller.hostile > 0)
                for _ in range(PROBES):
                    before = controller.hostile
                    await good.probe()
                    longest = max(longest, controller.hostile - before)
                    check_bounds(running)
            await good.probe()
            for each in running.peers[1:]:
                await each.aclose()
            await settled(lambda: len(running.server.brokers.shares.leaders.sessions(1)) == 1)
            await trio.sleep(120)
        assert 0 < longest <= CONNECTIONS * TURN_REQUESTS * ROUNDS < controller.hostile
        assert codes <= frozenset(ErrorCode)
        assert len(codes) > 8, "the requests reach share partitions and coordinators"
        shares = running.server.brokers.shares
        assert (len(shares.leaders), len(shares.leaders.locks), len(shares.leaders.left)) == (1, 0, 0)
        await good.probe()
