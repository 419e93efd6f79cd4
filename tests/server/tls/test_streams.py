"""The bytes of TLS connections: whatever pieces they arrive in, and however they end."""

import ssl
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as some
from trio.testing import lockstep_stream_pair, memory_stream_pair

from klamm.server.tls.context import new_context
from klamm.server.tls.session import RECORD_BYTES, RECORDS_AT_ONCE, TlsSession
from klamm.server.tls.stores import decode_pem
from klamm.server.tls.stream import TlsStream

CERTS = Path(__file__).parents[2] / "golden" / "security" / "certs"
SERVER = new_context(decode_pem((CERTS / "server.pem").read_text()), None, (), "none", ("TLSv1.2", "TLSv1.3"))
VERSIONS = ("TLSv1_2", "TLSv1_3")


def client_context(version: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=CERTS / "ca.crt")
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    return context


CLIENTS = {version: client_context(version) for version in VERSIONS}


class Pair:
    """Both sides of a connection, after the handshake."""

    def __init__(self, version: str = "TLSv1_3") -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = CLIENTS[version].wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.server = TlsSession(SERVER)
        is_done = False
        while not is_done:
            with suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            if wire := self.outgoing.read():
                self.server.feed(wire)
            is_done = self.server.shake()
            self.incoming.write(self.server.take_outgoing())
        if version == "TLSv1_2":
            self.client.do_handshake()

    def sealed(self, data: bytes) -> bytes:
        """One write of the client, as bytes of the wire."""
        self.client.write(data)
        return self.outgoing.read()

    def decrypted(self, max_bytes: int = 2**20) -> Iterator[bytes]:
        """All that can be decrypted now."""
        while piece := self.server.decrypt(max_bytes):
            yield piece


VERSION = some.sampled_from(VERSIONS)
WRITES = some.lists(some.binary(min_size=1, max_size=300), min_size=1, max_size=8)


@given(VERSION, WRITES, some.lists(some.integers(0, 3000), max_size=12), some.integers(1, 700))
def test_the_wire_may_be_cut_anywhere_and_bytes_asked_for_in_any_sizes(
    version: str, writes: list[bytes], cuts: list[int], max_bytes: int
) -> None:
    pair = Pair(version)
    wire = b"".join(pair.sealed(data) for data in writes)
    edges = sorted({0, len(wire), *(cut for cut in cuts if cut < len(wire))})
    received = []
    for start, end in pairwise(edges):
        pair.server.feed(wire[start:end])
        received += list(pair.decrypted(max_bytes))
    assert b"".join(received) == b"".join(writes)
    assert max(map(len, received)) <= max_bytes


@given(VERSION, some.lists(some.integers(1, 3 * RECORD_BYTES), min_size=1, max_size=4))
def test_all_that_is_sent_is_encrypted_in_one_go(version: str, sizes: list[int]) -> None:
    pair = Pair(version)
    for size in sizes:
        pair.server.encrypt(memoryview(bytes(size)))
    pair.incoming.write(pair.server.take_outgoing())
    left = sum(sizes)
    while left:
        left -= len(pair.client.read(left))
    with pytest.raises(ssl.SSLWantReadError):
        pair.client.read(1)


def test_records_that_arrive_together_are_decrypted_together_up_to_a_bound() -> None:
    pair = Pair()
    pair.server.feed(b"".join(pair.sealed(b"x") for _ in range(RECORDS_AT_ONCE + 1)))
    assert list(map(len, pair.decrypted())) == [RECORDS_AT_ONCE, 1]
    pair.server.feed(pair.sealed(bytes(4 * RECORD_BYTES)))
    assert list(map(len, pair.decrypted())) == [4 * RECORD_BYTES]
    pair.server.feed(pair.sealed(bytes(100)))
    assert list(map(len, pair.decrypted(60))) == [60, 40]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_came_before_a_forged_record_is_received_and_nothing_after_it(version: str) -> None:
    pair = Pair(version)
    before, forged, after = pair.sealed(b"before"), bytearray(pair.sealed(b"forged")), pair.sealed(b"after")
    forged[-1] ^= 1
    pair.server.feed(before + bytes(forged) + after)
    assert pair.server.decrypt(100) == b"before"
    for _ in range(2):
        with pytest.raises(ssl.SSLError):
            pair.server.decrypt(100)
    assert pair.server.take_outgoing(), "OpenSSL has an alert for the client"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_end_comes_after_the_last_bytes_and_stays(version: str) -> None:
    pair = Pair(version)
    last = pair.sealed(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        pair.client.unwrap()
    pair.server.feed(last + pair.outgoing.read())
    assert [pair.server.decrypt(100) for _ in range(3)] == [b"last", b"", b""]


def test_a_transport_that_ends_without_notice_ends_the_client_s_side_too() -> None:
    pair = Pair()
    pair.server.feed(pair.sealed(b"last"))
    pair.server.feed(b"")
    assert pair.server.decrypt(100) == b"last"
    with pytest.raises(ssl.SSLEOFError):
        pair.server.decrypt(100)


async def shaken(ours: trio.abc.Stream, theirs: trio.abc.Stream) -> tuple[TlsStream, "trio.SSLStream[trio.abc.Stream]"]:
    server = TlsStream(ours, SERVER)
    client = trio.SSLStream(theirs, CLIENTS["TLSv1_3"], server_hostname="localhost")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.do_handshake)
        nursery.start_soon(client.do_handshake)
    return server, client


@given(some.lists(some.tuples(some.booleans(), some.binary(max_size=40_000)), max_size=6))
async def test_both_sides_send_at_the_same_time(sent: list[tuple[bool, bytes]]) -> None:
    """On a transport where each byte waits for its receiver, so that a side that only sends would wait for ever."""
    server, client = await shaken(*lockstep_stream_pair())
    received = {True: bytearray(), False: bytearray()}

    async def send(stream: trio.abc.Stream, is_server: bool) -> None:
        for by_server, data in sent:
            if by_server is is_server:
                await stream.send_all(data)

    async def receive(stream: trio.abc.Stream, is_server: bool) -> None:
        wanted = sum(len(data) for by_server, data in sent if by_server is not is_server)
        while len(received[is_server]) < wanted:
            received[is_server] += await stream.receive_some(50_000)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for stream, is_server in ((server, True), (client, False)):
                nursery.start_soon(send, stream, is_server)
                nursery.start_soon(receive, stream, is_server)
    for is_server in (True, False):
        assert received[is_server] == b"".join(data for by_server, data in sent if by_server is not is_server)
    await server._transport.aclose()


async def test_a_cancelled_receive_loses_no_bytes() -> None:
    server, client = await shaken(*memory_stream_pair())
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.receive_some)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    await client.send_all(b"kept" * 10_000)
    with trio.CancelScope() as scope:
        scope.cancel()
        await server.receive_some()
    assert scope.cancelled_caught
    received = b""
    while len(received) < 40_000:
        received += await server.receive_some(9_999)
    assert received == b"kept" * 10_000


async def test_what_openssl_has_to_say_is_sent_before_the_next_bytes_are_waited_for() -> None:
    """Such as the answer to a new key, for which Python's clients cannot ask."""
    server, client = await shaken(*memory_stream_pair())
    assert server._session is not None
    server._session.encrypt(b"said")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.receive_some)
        with trio.fail_after(10):
            assert await client.receive_some() == b"said"
        nursery.cancel_scope.cancel()


async def test_a_turn_of_the_scheduler_passes_with_each_receive_and_each_send() -> None:
    server, client = await shaken(*memory_stream_pair())
    await client.send_all(bytes(30))
    for _ in range(3):
        with trio.testing.assert_checkpoints():
            await server.receive_some(10)
    with trio.testing.assert_checkpoints():
        await server.send_all(b"")
    with trio.testing.assert_checkpoints():
        await server.send_all(b"x")


async def test_a_closed_stream_says_so_to_the_client_and_can_do_nothing_more() -> None:
    ours, theirs = memory_stream_pair()
    server, client = await shaken(ours, theirs)
    await server.send_all(b"last")
    with trio.fail_after(0.9):  # the server waits for a second
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.aclose)
            assert await client.receive_some() == b"last"
            assert await client.receive_some() == b"", "the notice of TLS, not an end of the transport"
            assert await theirs.receive_some() == b"", "the end of the transport"
            await client.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await ours.send_all(b"x")
    for call in (server.receive_some, server.wait_send_all_might_not_block, lambda: server.send_all(b"x")):
        with pytest.raises(trio.ClosedResourceError):
            await call()
    await server.aclose()


async def test_a_stream_is_broken_after_a_forged_record_and_before_its_handshake() -> None:
    ours, theirs = memory_stream_pair()
    server, _ = await shaken(ours, theirs)
    await theirs.send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
    with pytest.raises(trio.BrokenResourceError) as broken:
        await server.receive_some()
    assert isinstance(broken.value.__cause__, ssl.SSLError)
    for stream in (server, TlsStream(ours, SERVER)):
        for call in (stream.receive_some, stream.wait_send_all_might_not_block, lambda: stream.send_all(b"x")):  # noqa: B023
            with pytest.raises(trio.BrokenResourceError):
                await call()
    await theirs.aclose()
    await server.aclose()


async def test_a_stream_is_broken_after_a_cancelled_send() -> None:
    server, _ = await shaken(*lockstep_stream_pair())
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.send_all, b"x")
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    with pytest.raises(trio.BrokenResourceError):
        await server.send_all(b"y")


async def test_what_is_sent_at_the_same_time_leaves_in_the_order_of_its_encryption() -> None:
    """A receive has something to send, such as the answer to a new key, while the transport is busy with a send."""
    server, client = await shaken(*lockstep_stream_pair())
    assert server._session is not None
    sent, received = b"sent" * 1_000, b""
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.send_all, sent)
            await trio.testing.wait_all_tasks_blocked()
            server._session.encrypt(b"said")
            nursery.start_soon(server.receive_some)
            await trio.testing.wait_all_tasks_blocked()
            while len(received) < len(sent) + 4:
                received += await client.receive_some()
            nursery.cancel_scope.cancel()
    assert received == sent + b"said"


class WholeStream(trio.abc.Stream):
    """A transport that cannot be closed in one direction alone."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._stream.aclose()


async def test_a_stream_over_a_transport_without_half_closes_is_closed() -> None:
    ours, theirs = memory_stream_pair()
    server, client = await shaken(WholeStream(ours), theirs)
    await server.aclose()
    assert await client.receive_some() == b""
    with pytest.raises(trio.ClosedResourceError):
        await ours.send_all(b"x")


async def test_a_handshake_begins_with_what_the_transport_has_delivered() -> None:
    ours, theirs = memory_stream_pair()
    client = trio.SSLStream(theirs, CLIENTS["TLSv1_3"], server_hostname="localhost")
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.do_handshake)
            hello = await ours.receive_some()
            server = TlsStream(ours, SERVER, hello)
            await server.do_handshake()
        await client.send_all(b"said")
        assert await server.receive_some() == b"said"
