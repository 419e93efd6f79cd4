"""Following a quorum over sockets: Klamm's own controller, and controllers that answer what the test sets."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from klamm.admin.connection import open_connection
from klamm.controller.log.errors import LogError
from klamm.controller.log.snapshot_files import SnapshotContent, encode_snapshot
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.cluster import describe_cluster
from klamm.protocol.messages.data import fetch
from klamm.protocol.messages.data.fetch import EpochEndOffset, FetchResponse, LeaderIdAndEpoch, NodeEndpoint
from klamm.protocol.messages.raft import fetch_snapshot
from klamm.protocol.messages.topics import create_topics
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import METADATA_TOPIC_ID
from klamm.server.addresses import Address
from klamm.twin.followed_log import FollowedLog
from klamm.twin.follower import Follower
from klamm.twin.leader import NotFollowable
from tests.klamm.admin.peer import Asked, Peer, served
from tests.klamm.twin.test_followed_log import CLUSTER_ID, TIMESTAMP_MS, batch, log_of, stored
from tests.server.harness import create_topic, open_test_server

Partition = fetch.PartitionData
Script = Callable[[Any], Partition | int]
"""What a controller answers to a Fetch's partition: the partition's data, or an error of the whole answer."""
LEADER = LeaderIdAndEpoch(leader_id=1, leader_epoch=2)


async def connect(address: Address) -> Any:
    return await open_connection(address, "test", 10_000_000)


class Copy:
    """A copy in a directory, with the lines that the follower said."""

    def __init__(self, data_dir: Path) -> None:
        self.log = FollowedLog(data_dir)
        self.lines: list[str] = []

    async def follow(self, *peers: Peer | Address, cluster_id: str | None = None) -> None:
        places = [Address("127.0.0.1", int(p.address.split(":")[-1])) if isinstance(p, Peer) else p for p in peers]
        follower = Follower(self.log, places, connect, self.lines.append, cluster_id)
        with trio.fail_after(20):
            await follower.follow(until_caught_up=True)


@pytest.fixture
def copy(tmp_path: Path) -> Any:
    made = Copy(tmp_path / "copy")
    yield made
    made.log.close()


def partition_of(asked: Asked) -> Any:
    return asked.body.topics[0].partitions[0]  # type: ignore[attr-defined]


@asynccontextmanager
async def controller(
    script: Script, *, cluster_id: str | None = CLUSTER_ID, endpoints: tuple[NodeEndpoint, ...] = (), newest: int = 18
) -> AsyncIterator[Peer]:
    """A controller that answers Fetch as `script` says. Without a cluster id it does not serve DescribeCluster."""

    async def answer(asked: Asked) -> Any:
        if asked.api.key == describe_cluster.API.key:
            return describe_cluster.DescribeClusterResponse(cluster_id=cluster_id or "", endpoint_type=2)
        if asked.api.key == fetch_snapshot.API.key:
            return peer.snapshot(asked)  # type: ignore[attr-defined]
        found = script(partition_of(asked))
        if isinstance(found, int):
            return FetchResponse(error_code=found)
        topic = fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[found])
        return FetchResponse(responses=[topic], node_endpoints=endpoints if asked.version >= 16 else ())

    keys = [fetch.API.key, fetch_snapshot.API.key] + ([describe_cluster.API.key] if cluster_id else [])
    versions = {**served(*keys), fetch.API.key: range(4, newest + 1)}
    async with trio.open_nursery() as nursery:
        peer = await Peer(answer, versions).start(nursery)
        yield peer
        nursery.cancel_scope.cancel()


def having(batches: list[bytes], **more: Any) -> Script:
    """The log of a leader in epoch 2; everything is agreed on."""

    def answer(asked: Any) -> Partition:
        if asked.current_leader_epoch != LEADER.leader_epoch:
            return Partition(error_code=ErrorCode.FENCED_LEADER_EPOCH, current_leader=LEADER)
        records = b"".join(batches[asked.fetch_offset :])
        return Partition(records=records, high_watermark=len(batches), current_leader=LEADER, **more)

    return answer


async def test_the_copy_has_the_bytes_that_klamm_has_and_grows_with_them(copy: Copy) -> None:
    async with open_test_server() as running:
        peer = await running.connect()
        await peer.ask(create_topics.API, 7, create_topic("first"))
        await copy.follow(Address("127.0.0.1", running.controller_port))
        assert copy.log.end_offset == running.log.end_offset
        await peer.ask(create_topics.API, 7, create_topic("second", 3))
        await copy.follow(Address("127.0.0.1", running.controller_port))
        assert copy.log.end_offset == running.log.end_offset
        assert stored(copy.log) == running.log.log_bytes()
        identity = copy.log.identity
        assert identity is not None
        assert identity.cluster_id == running.log.cluster_id


async def test_each_fetch_tells_how_far_the_copy_is(copy: Copy) -> None:
    batches = log_of([1, 1, 2])
    async with controller(having(batches)) as peer:
        await copy.follow(peer)
        await copy.follow(peer)
    asked: list[tuple[Any, Any]] = [(one.body, partition_of(one)) for one in peer.asked if one.api.key == fetch.API.key]
    said = [(p.current_leader_epoch, p.fetch_offset, p.last_fetched_epoch, p.high_watermark) for _, p in asked]
    assert said == [
        *[(0, 0, 0, 0), (2, 0, 0, 0)],  # the first is refused, and says the epoch
        *[(1, 2, 1, 2), (2, 2, 1, 2)],  # the last batch of the copy, to compare it
        (2, 3, 2, 3),  # Apache Kafka answers INVALID_REQUEST if the first epoch is below the second
    ]
    identity = copy.log.identity
    assert identity is not None
    assert {(b.replica_state.replica_id, b.cluster_id, b.max_wait_ms) for b, _ in asked} == {
        (identity.replica_id, CLUSTER_ID, 500)
    }
    assert stored(copy.log) == b"".join(batches)
    assert copy.lines[0].startswith("following controller 1 at 127.0.0.1:")
    assert copy.lines[0].endswith("in epoch 2 from offset 0 on")


@pytest.mark.parametrize("version", [12, 13, 14, 15, 17])
async def test_older_controllers_are_asked_in_their_versions(copy: Copy, version: int) -> None:
    async with controller(having(log_of([1])), cluster_id=None, newest=version) as peer:
        await copy.follow(peer, cluster_id=CLUSTER_ID)
    (body, *_) = [one.body for one in peer.asked]
    identity = copy.log.identity
    assert identity is not None
    replica_id = body.replica_id if version < 15 else body.replica_state.replica_id  # type: ignore[attr-defined]
    topic = body.topics[0]  # type: ignore[attr-defined]
    assert replica_id == identity.replica_id
    assert (topic.topic == "__cluster_metadata") == (version == 12)
    assert (topic.topic_id == METADATA_TOPIC_ID) == (version > 12)


async def test_a_controller_that_says_no_cluster_id_needs_one_to_be_given(copy: Copy) -> None:
    async with controller(having([]), cluster_id=None) as peer:
        with pytest.raises(NotFollowable, match="give --cluster-id"):
            await copy.follow(peer)


async def test_a_broker_of_the_time_of_zookeeper_cannot_be_followed(copy: Copy) -> None:
    async with controller(having([]), newest=11) as peer:
        with pytest.raises(NotFollowable, match="serves Fetch up to version 11"):
            await copy.follow(peer)


@pytest.mark.parametrize("given", ["BAAAAAAAAAAAAAAAAAAAAQ", None])
async def test_another_cluster_is_refused_before_anything_is_written(copy: Copy, given: str | None) -> None:
    copy.log.name(CLUSTER_ID)
    async with controller(having(log_of([1])), cluster_id="BAAAAAAAAAAAAAAAAAAAAQ") as peer:
        with pytest.raises((NotFollowable, LogError), match="BAAAAAAAAAAAAAAAAAAAAQ"):
            await copy.follow(peer, cluster_id=None if given else CLUSTER_ID)
    assert copy.log.end_offset == 0


async def test_a_controller_that_denies_the_cluster_id_ends_it(copy: Copy) -> None:
    async with controller(lambda _: int(ErrorCode.INCONSISTENT_CLUSTER_ID)) as peer:
        with pytest.raises(NotFollowable, match=f"is not of cluster {CLUSTER_ID}"):
            await copy.follow(peer)


async def test_the_leader_is_found_where_an_answer_says_it_is(copy: Copy) -> None:
    batches = log_of([1, 2])
    async with controller(having(batches)) as leading:
        port = int(leading.address.split(":")[-1])
        moved = Partition(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=LEADER)
        endpoints = (NodeEndpoint(node_id=1, host="127.0.0.1", port=port),)
        async with controller(lambda _: moved, endpoints=endpoints) as follower:
            await copy.follow(follower)
    assert stored(copy.log) == b"".join(batches)
    assert copy.lines[0] == "controller 1 leads; going there"


async def test_without_an_address_the_next_controller_is_tried(copy: Copy) -> None:
    without_leader = Partition(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=LeaderIdAndEpoch())
    async with controller(having(log_of([1, 2]))) as leading, controller(lambda _: without_leader, newest=15) as other:
        await copy.follow(other, leading)
    assert copy.log.end_offset == 2
    assert copy.lines[0].endswith("trying the next controller")


async def test_a_lost_connection_is_made_again(copy: Copy) -> None:
    batches = log_of([1, 1])
    async with controller(having(batches)) as peer:
        answer = peer.answer
        closed: list[bool] = []

        async def closes_once(asked: Asked) -> Any:
            if not closed:
                closed.append(True)
                return None
            return await answer(asked)

        peer.answer = closes_once
        await copy.follow(peer)
    assert copy.log.end_offset == 2
    assert copy.lines[0].endswith("closed the connection; trying again")


async def test_other_records_are_replaced_by_those_of_the_leader(copy: Copy) -> None:
    """Epoch 1 had records that were never agreed on; a new leader has others in their place."""
    copy.log.name(CLUSTER_ID)
    copy.log.append(b"".join(log_of([1, 1, 1])))
    batches = log_of([1, 2, 2])

    def answer(asked: Any) -> Partition:
        if asked.last_fetched_epoch == 1 and asked.fetch_offset > 1:
            end = EpochEndOffset(epoch=1, end_offset=1)
            return Partition(diverging_epoch=end, current_leader=LEADER, high_watermark=-1)
        return having(batches)(asked)  # type: ignore[return-value]

    async with controller(answer) as peer:
        await copy.follow(peer)
    assert stored(copy.log) == b"".join(batches)
    assert "the leader has other records from offset 1 on: the copy was cut back to it" in copy.lines


async def test_a_leader_that_lost_agreed_records_changes_nothing(copy: Copy) -> None:
    copy.log.name(CLUSTER_ID)
    copy.log.append(b"".join(log_of([1, 1, 1])))
    copy.log.note_high_watermark(3)
    end = EpochEndOffset(epoch=1, end_offset=1)
    async with controller(lambda _: Partition(diverging_epoch=end, current_leader=LEADER)) as peer:
        with pytest.raises(LogError, match="the cluster has lost records"):
            await copy.follow(peer)
    assert copy.log.end_offset == 3


@pytest.mark.parametrize("known", ["with other records", "with other epochs"])
async def test_a_new_cluster_of_the_same_id_changes_nothing(copy: Copy, known: str) -> None:
    """Its log is as long as the copy, and has its epochs, so that no answer to a Fetch behind the copy tells that."""
    copy.log.name(CLUSTER_ID)
    copy.log.append(batch(0, count=2) + batch(2, 2))
    copy.log.note_high_watermark(3)
    other = batch(2, 2, count=2)

    def answer(asked: Any) -> Partition:
        if asked.fetch_offset == 2 and known == "with other records":
            return having([b"", b"", other])(asked)  # type: ignore[return-value]
        if asked.fetch_offset == 2:
            end = EpochEndOffset(epoch=1, end_offset=1)
            return Partition(diverging_epoch=end, current_leader=LEADER, high_watermark=-1)
        return having([b"", b"", b"", batch(3, 2)])(asked)  # type: ignore[return-value]

    async with controller(answer) as peer:
        with pytest.raises(LogError, match=r"the cluster has lost records, or .* is a copy of another one"):
            await copy.follow(peer)
    assert stored(copy.log) == batch(0, count=2) + batch(2, 2)


async def test_a_leader_with_a_snapshot_in_place_of_the_last_batch_is_followed(copy: Copy) -> None:
    batches = log_of([1, 2, 2, 2])
    copy.log.name(CLUSTER_ID)
    copy.log.append(b"".join(batches[:3]))
    copy.log.note_high_watermark(3)

    def answer(asked: Any) -> Partition:
        if asked.fetch_offset < 3:
            snapshot = fetch.SnapshotId(end_offset=3, epoch=2)
            return Partition(snapshot_id=snapshot, current_leader=LEADER, high_watermark=-1)
        return having(batches)(asked)  # type: ignore[return-value]

    async with controller(answer) as peer:
        await copy.follow(peer)
    assert stored(copy.log) == b"".join(batches)


async def test_corrupt_records_are_asked_for_again(copy: Copy) -> None:
    batches, answers = log_of([1, 2]), []

    def answer(asked: Any) -> Partition:
        found = having(batches)(asked)
        assert isinstance(found, Partition)
        answers.append(found)
        if len(answers) == 2:  # the first says the epoch
            changed = bytearray(found.records or b"")
            changed[-1] ^= 1
            found.records = bytes(changed)
        return found

    async with controller(answer) as peer:
        await copy.follow(peer)
    assert stored(copy.log) == b"".join(batches)
    assert any("; trying again" in line for line in copy.lines)


def _snapshot_bytes() -> bytes:
    content = SnapshotContent([[TopicRecord(name="t")]], TIMESTAMP_MS, TIMESTAMP_MS)
    return b"".join(raw for raw, _ in encode_snapshot(2, content))


@pytest.mark.parametrize("part_bytes", [1 << 20, 50])
async def test_a_snapshot_is_fetched_in_parts_and_the_log_goes_on_behind_it(copy: Copy, part_bytes: int) -> None:
    whole, behind = _snapshot_bytes(), batch(7, 2)

    def answer(asked: Any) -> Partition:
        if asked.current_leader_epoch != LEADER.leader_epoch:
            return Partition(error_code=ErrorCode.FENCED_LEADER_EPOCH, current_leader=LEADER)
        if asked.fetch_offset < 7:
            wanted = fetch.SnapshotId(end_offset=7, epoch=2)
            return Partition(snapshot_id=wanted, current_leader=LEADER, high_watermark=8)
        return Partition(records=behind if asked.fetch_offset == 7 else b"", high_watermark=8, current_leader=LEADER)

    def part(asked: Asked) -> Any:
        wanted = partition_of(asked)
        found = fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
            snapshot_id=wanted.snapshot_id,
            size=len(whole),
            position=wanted.position,
            unaligned_records=whole[wanted.position : wanted.position + part_bytes],
        )
        topic = fetch_snapshot.FetchSnapshotResponseTopicSnapshot(name="__cluster_metadata", partitions=[found])
        return fetch_snapshot.FetchSnapshotResponse(topics=[topic])

    async with controller(answer) as peer:
        peer.snapshot = part  # type: ignore[attr-defined]
        await copy.follow(peer)
    (checkpoint,) = copy.log.folder.glob("*.checkpoint")
    assert (checkpoint.name, checkpoint.read_bytes()) == ("00000000000000000007-0000000002.checkpoint", whole)
    assert (copy.log.start_offset, copy.log.end_offset, stored(copy.log)) == (7, 8, behind)
