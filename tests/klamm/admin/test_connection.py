"""The admin client and its connections against peers that answer slowly, wrongly, in old versions, or not at all."""

from functools import partial

import pytest
import trio
import trio.testing

import klamm
from klamm.admin.connections import MAX_LEARNED_TRIED
from klamm.admin.types import Broker
from klamm.protocol.messages.topics import create_topics, metadata
from klamm.protocol.messages.topics.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.klamm.admin.peer import Asked, Peer, served

CREATE_TOPICS, METADATA = create_topics.API.key, metadata.API.key


@pytest.fixture
def clock() -> trio.testing.MockClock:
    """The clock jumps when nothing has happened for 50 ms: that is enough for the loopback, and no test waits for a
    deadline."""
    return trio.testing.MockClock(autojump_threshold=0.05)


async def echo_topics(asked: Asked) -> MetadataResponse:
    """Metadata in which all requested topics exist and have no partitions."""
    assert isinstance(asked.body, MetadataRequest)
    return MetadataResponse(topics=[MetadataResponseTopic(name=topic.name) for topic in asked.body.topics or ()])


async def names_seen(admin: klamm.AdminClient, *topic_names: str) -> list[str | None]:
    return [topic.topic_name for topic in (await admin.metadata(topic_names)).topics]


@pytest.fixture
async def echo(nursery: trio.Nursery) -> Peer:
    return await Peer(echo_topics, served(METADATA)).start(nursery)


@pytest.mark.parametrize("newest", [0, 3, 9, 12, 13])
async def test_a_call_uses_the_newest_version_that_both_sides_know(nursery: trio.Nursery, newest: int) -> None:
    peer = await Peer(echo_topics, {METADATA: range(newest + 1)}).start(nursery)
    async with klamm.AdminClient(peer.address) as admin:
        await admin.metadata(["a"], allow_auto_topic_creation=True)
    assert [requested.version for requested in peer.asked] == [newest]


async def test_versions_of_the_future_are_left_alone(nursery: trio.Nursery) -> None:
    peer = await Peer(echo_topics, {METADATA: range(5, 99)}).start(nursery)
    async with klamm.AdminClient(peer.address) as admin:
        assert await names_seen(admin, "a") == ["a"]
    assert peer.asked[0].version == metadata.API.latest_stable


@pytest.mark.parametrize("versions", [{}, {CREATE_TOPICS: range(2)}, {CREATE_TOPICS: range(90, 95)}])
async def test_without_a_common_version_a_call_is_not_supported(
    nursery: trio.Nursery, versions: dict[int, range]
) -> None:
    peer = await Peer(echo_topics, versions).start(nursery)
    async with klamm.AdminClient(peer.address) as admin:
        with pytest.raises(klamm.NotSupportedByBroker, match="CreateTopics"):
            await admin.create_topics(["a"])
    assert peer.asked == []


async def test_what_an_old_version_cannot_say_is_not_supported_and_not_sent(nursery: trio.Nursery) -> None:
    """Before version 4 of Metadata a request always created its topics."""
    peer = await Peer(echo_topics, {METADATA: range(4)}).start(nursery)
    async with klamm.AdminClient(peer.address) as admin:
        with pytest.raises(klamm.NotSupportedByBroker, match="allow_auto_topic_creation"):
            await admin.metadata(["a"])
        assert peer.asked == []
        await admin.metadata(["a"], allow_auto_topic_creation=True)
    assert peer.connections == 1


@pytest.mark.parametrize("newest", range(4))
async def test_a_broker_that_refuses_our_api_versions_is_asked_in_its_own(nursery: trio.Nursery, newest: int) -> None:
    peer = await Peer(echo_topics, served(METADATA), api_versions_at_most=newest).start(nursery)
    async with klamm.AdminClient(peer.address) as admin:
        assert await names_seen(admin, "a") == ["a"]


async def test_requests_of_several_tasks_travel_together_and_get_their_own_answers(nursery: trio.Nursery) -> None:
    all_sent = trio.Event()

    async def answer(asked: Asked) -> MetadataResponse:
        await all_sent.wait()
        return await echo_topics(asked)

    peer = await Peer(answer, served(METADATA)).start(nursery)
    seen: dict[str, list[str | None]] = {}
    async with klamm.AdminClient(peer.address) as admin, trio.open_nursery() as tasks:

        async def ask(name: str) -> None:
            seen[name] = await names_seen(admin, name)

        for number in range(20):
            tasks.start_soon(ask, f"topic-{number}")
        await trio.testing.wait_all_tasks_blocked()
        assert seen == {}
        all_sent.set()
    assert seen == {f"topic-{number}": [f"topic-{number}"] for number in range(20)}
    assert peer.connections == 1


async def test_an_answer_that_nobody_waits_for_any_more_is_dropped(nursery: trio.Nursery) -> None:
    released = trio.Event()

    async def answer(asked: Asked) -> MetadataResponse:
        await released.wait()
        return await echo_topics(asked)

    peer = await Peer(answer, served(METADATA)).start(nursery)
    async with klamm.AdminClient(peer.address) as admin:
        async with trio.open_nursery() as tasks:
            tasks.start_soon(admin.metadata, ["slow"])
            tasks.start_soon(admin.metadata, ["slower"])
            await trio.testing.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        released.set()
        assert await names_seen(admin, "next") == ["next"]
    assert peer.connections == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff\xff\xff\xff",
        (8).to_bytes(4, "big") + (7).to_bytes(4, "big") + bytes(4),
        (2).to_bytes(4, "big") + bytes(2),
        (9).to_bytes(4, "big") + (1).to_bytes(4, "big") + b"\xff" * 5,
        (100).to_bytes(4, "big") + bytes(10),
    ],
    ids=["no Kafka", "negative size", "answer to another request", "no correlation id", "no such body", "cut short"],
)
async def test_a_wrong_answer_ends_the_connection_and_the_next_call_makes_a_new_one(
    nursery: trio.Nursery, clock: trio.testing.MockClock, sent: bytes
) -> None:
    good = False

    async def answer(asked: Asked) -> MetadataResponse | bytes:
        return await echo_topics(asked) if good else sent

    peer = await Peer(answer, served(METADATA)).start(nursery)
    async with klamm.AdminClient(peer.address) as admin:
        with pytest.raises(klamm.ClusterUnreachable) as raised:
            await admin.metadata(["a"])
        assert str(raised.value).startswith(peer.address)
        good = True
        # A frame that never ends is no error of the connection: the next caller waits behind it, as with Kafka.
        if sent.endswith(bytes(10)):
            await admin.aclose()
        assert await names_seen(admin, "b") == ["b"]
    assert peer.connections == 2


async def test_a_longer_answer_than_allowed_is_not_read(nursery: trio.Nursery) -> None:
    async def answer(asked: Asked) -> bytes:
        return (2_000).to_bytes(4, "big")

    peer = await Peer(answer, served(METADATA)).start(nursery)
    async with klamm.AdminClient(peer.address, max_frame_bytes=1_000) as admin:
        with pytest.raises(klamm.ClusterUnreachable, match="2000"):
            await admin.metadata([])


async def test_a_server_that_answers_http_is_named(nursery: trio.Nursery) -> None:
    async def refuse(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    (listener,) = await nursery.start(partial(trio.serve_tcp, refuse, 0, host="127.0.0.1"))
    address = f"127.0.0.1:{listener.socket.getsockname()[1]}"
    with pytest.raises(klamm.ClusterUnreachable) as raised:
        await klamm.AdminClient.connect(address)
    assert str(raised.value) == f"{address} does not speak Kafka's protocol: it answers HTTP"


async def test_a_connection_that_was_closed_while_idle_is_replaced_unnoticed(nursery: trio.Nursery) -> None:
    async def answer(asked: Asked) -> MetadataResponse | None:
        return await echo_topics(asked)

    async with trio.open_nursery() as first_life:
        peer = await Peer(answer, served(METADATA)).start(first_life)
        admin = await klamm.AdminClient.connect(peer.address)
        assert await names_seen(admin, "a") == ["a"]
        first_life.cancel_scope.cancel()
    port = int(peer.address.rsplit(":", 1)[1])
    await nursery.start(trio.serve_tcp, peer._serve, port)
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert await names_seen(admin, "b") == ["b"]
    await admin.aclose()
    assert peer.connections == 2


async def test_a_broker_that_hangs_up_instead_of_answering_makes_the_cluster_unreachable(
    nursery: trio.Nursery,
) -> None:
    async def answer(asked: Asked) -> None:
        return None

    peer = await Peer(answer, served(METADATA)).start(nursery)
    async with klamm.AdminClient(peer.address) as admin:
        with pytest.raises(klamm.ClusterUnreachable, match="closed the connection"):
            await admin.metadata([])


async def test_a_broker_that_does_not_answer_in_time_makes_the_cluster_unreachable(
    nursery: trio.Nursery, clock: trio.testing.MockClock
) -> None:
    async def answer(asked: Asked) -> None:
        await trio.sleep_forever()

    peer = await Peer(answer, served(METADATA)).start(nursery)
    async with klamm.AdminClient(peer.address, request_timeout_seconds=30) as admin:
        began = trio.current_time()
        with pytest.raises(klamm.ClusterUnreachable, match="no answer within 30 s"):
            await admin.metadata([])
        assert trio.current_time() - began == pytest.approx(30, abs=1)


async def test_a_deadline_of_the_caller_stays_the_caller_s(
    nursery: trio.Nursery, clock: trio.testing.MockClock
) -> None:
    async def answer(asked: Asked) -> None:
        await trio.sleep_forever()

    peer = await Peer(answer, served(METADATA)).start(nursery)
    async with klamm.AdminClient(peer.address) as admin:
        with pytest.raises(trio.TooSlowError), trio.fail_after(5):
            await admin.metadata([])


async def test_the_first_server_that_answers_is_used(echo: Peer) -> None:
    async with klamm.AdminClient(f"127.0.0.1:1,{echo.address}") as admin:
        assert await names_seen(admin, "a") == ["a"]


async def test_when_no_server_answers_each_is_named_with_its_reason() -> None:
    with pytest.raises(klamm.ClusterUnreachable) as raised:
        await klamm.AdminClient.connect("127.0.0.1:1,[::1]:1")
    assert "127.0.0.1:1: Connection refused" in str(raised.value)
    assert "[::1]:1: " in str(raised.value)


async def test_brokers_that_were_learned_of_are_tried_after_those_named_but_not_all(echo: Peer) -> None:
    client = klamm.AdminClient("127.0.0.1:1")
    client._learn_brokers([Broker(broker_id, f"127.0.1.{broker_id}", 1) for broker_id in range(1, 100)])
    with pytest.raises(klamm.ClusterUnreachable) as raised:
        await client.metadata([])
    assert str(raised.value).count("cannot connect to") == 1 + MAX_LEARNED_TRIED
    host, _, port = echo.address.rpartition(":")
    client._learn_brokers([Broker(1, "127.0.0.1", 1), Broker(2, host.strip("[]"), int(port))])
    assert await names_seen(client, "a") == ["a"]
    await client.aclose()


@pytest.mark.parametrize("servers", ["", "localhost", "localhost:70000", "a:1,,b:2", "::1:9092"])
def test_what_is_no_list_of_servers_is_refused_at_once(servers: str) -> None:
    with pytest.raises(ValueError, match=r"port|host|IPv6"):
        klamm.AdminClient(servers)
