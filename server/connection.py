"""One connection: reads bytes, cuts them into frames, handles the requests and sends the answers in order.

Frames are handled when they arrive, without waiting for the disk, so that pipelined requests share a group commit. The
task that reads also sends the answers that are durable already. A second task sends answers that have to wait for the
disk, and ends when none is left. The connection is not read while too many answers wait. Works on any trio stream.

The first of several pipelined requests is handled at once. The others take turns with those of all other connections,
so that a client with one request at a time waits for one turn of another connection at most.
"""

import math
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import trio

from klamm.controller.client import Client
from klamm.controller.outcome import NoReply
from klamm.protocol.codec.frames import SIZE_BYTES, FrameBuffer
from klamm.protocol.errors import NotServed, ProtocolError
from klamm.server.admission import Admission
from klamm.server.entrance import ConnectionRefused, Guard, Handshake
from klamm.server.event_log import EventLog
from klamm.server.faults.counting import RuleState
from klamm.server.faulty_requests import FaultEnds
from klamm.server.flusher import Flusher
from klamm.server.limits import ServerLimits
from klamm.server.linger import linger
from klamm.server.mute import Mute
from klamm.server.purgatory import ServerStops
from klamm.server.reply import Reply
from klamm.server.request_path import RequestPath
from klamm.server.silence import stay_silent
from klamm.server.unauthenticated import UnauthenticatedConnections

FAREWELL_SECONDS = 0.1
"""How long the end of a TLS connection may take: the client gets TLS's own notice that nothing follows."""


class Connection:
    """A client's connection. `close` ends it at once, `drain` after its answers have been sent."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        client: Client,
        requests: RequestPath,
        flusher: Flusher,
        admission: Admission,
        limits: ServerLimits,
        events: EventLog,
        guard: Guard | None = None,
        unauthenticated: UnauthenticatedConnections | None = None,
        handshake: Handshake | None = None,
    ) -> None:
        """`handshake` comes first; None: frames do. `guard` examines each frame before the request path gets it; None:
        every client may send requests. `unauthenticated` counts the connection until its client is authenticated."""
        self.client = client
        self._guard = guard
        self._handshake = handshake
        self._unauthenticated = unauthenticated
        self.held_bytes = 0
        self.active_at = self.progressed_at = trio.current_time()
        self.sending_since: float | None = None
        self._stream = stream
        self._requests = requests
        self._flusher = flusher
        self._admission = admission
        self._limits = limits
        self._events = events
        self._buffer = FrameBuffer(guard.max_receive_bytes if guard else limits.socket_request_max_bytes)
        self._pending: deque[Reply] = deque()
        self._pending_bytes = 0
        self._waiting_bytes = 0
        self._room = trio.Event()
        self._turn_ends_at = 0.0
        self._turn_requests = 0
        self._handed_over = False  # whether the second task sends the pending answers
        self._draining = False
        self._is_cut_off = False  # whether a request got no answer, so that no later one may be answered
        self._is_receiving = False
        self._silent_by: RuleState | None = None  # the fault rule that keeps the connection open without answers
        self._receiving = trio.CancelScope()
        self._mute = Mute()
        self._scope = trio.CancelScope()

    @property
    def is_waiting(self) -> bool:
        """Whether answers have not been sent yet."""
        return bool(self._pending)

    def close(self) -> None:
        """End the connection at once; pending answers are lost."""
        self._scope.cancel()

    def drain(self) -> None:
        """Read no more requests, send the answers to those that were read, then end the connection."""
        self._draining = True
        if self._is_receiving:  # so that no answer is interrupted
            self._receiving.cancel()
        self._is_cut_off |= self._mute.end()

    async def serve(self) -> None:
        """Answer requests until the client leaves or breaks the protocol, or until `close` or `drain` is called."""
        try:
            if self._admission.admit(self):
                if self._unauthenticated is not None:
                    self._unauthenticated.add(self, trio.current_time())
                with self._scope:
                    async with trio.open_nursery() as nursery:
                        await self._serve(nursery)
        finally:
            self._note_known()
            self._admission.leave(self)
            await self._end()

    async def _serve(self, nursery: trio.Nursery) -> None:
        try:
            if self._handshake is not None and not await self._shake(self._handshake):
                return
            client_is_done = await self._read(nursery)
            answers_on_their_way = bool(self._pending)
            await self._send_rest()
            if self._silent_by is not None:
                self._receiving, self._is_receiving = trio.CancelScope(), not self._draining
                if self._is_receiving:
                    await stay_silent(self._stream, self._receiving, self._silent_by, self._limits.receive_bytes)
            elif answers_on_their_way and not client_is_done:
                await linger(self._stream, self._limits.receive_bytes, is_tls=self._handshake is not None)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has closed the connection and reads no more answers
        nursery.cancel_scope.cancel()

    async def _shake(self, handshake: Handshake) -> bool:
        """Do the handshake; False: it failed."""
        try:
            self._stream = await handshake.shake(self._stream, self.client)
        except ConnectionRefused:
            await linger(self._stream, self._limits.receive_bytes, is_tls=True)  # so that the client gets the alert
            return False
        if self._guard is None:
            self._note_known()
        return True

    async def _end(self) -> None:
        """Close the stream; one with TLS says so to the client, if that takes no time."""
        if self._handshake is not None:
            with trio.move_on_after(FAREWELL_SECONDS, shield=True), suppress(trio.BrokenResourceError):
                await self._stream.aclose()
        await trio.aclose_forcefully(self._stream)

    async def _read(self, nursery: trio.Nursery) -> bool:
        """Handle the requests that arrive. True if the client has ended its side of the connection."""
        try:
            chunk = None
            with self._receiving:
                while not self._draining:
                    self._is_receiving = True
                    chunk = await self._stream.receive_some(self._limits.receive_bytes)
                    self._is_receiving = False
                    if self._receiving.cancel_called:
                        break  # the chunk is handled below, outside of the cancelled scope
                    if not chunk:
                        return True
                    await self._handle(chunk, nursery)
                    chunk = None
            if chunk:
                await self._handle(chunk, nursery)
        except (NotServed, ConnectionRefused):
            pass  # the request path or the guard has named it
        except ProtocolError as error:
            self._events.warning_rarely("connection closed: this is no request", reason=str(error))
        except FaultEnds as fault:
            self._silent_by = fault.silent_by
        except NoReply as error:
            self._events.warning_rarely("connection closed: no answer can be given", reason=str(error))
        return False

    async def _handle(self, chunk: bytes | bytearray, nursery: trio.Nursery) -> None:
        now = self.active_at = trio.current_time()
        if not self.held_bytes:
            self.progressed_at = now
        self._buffer.feed(bytes(chunk))
        self._begin_turn()
        next_frame, guarded = self._buffer.next_frame, self._guard is not None
        try:
            while not self._is_cut_off and (frame := await self._next_frame() if guarded else next_frame()) is not None:
                await self._take_turn(nursery)
                self.progressed_at = now
                reply = await (self._guarded(frame, nursery) if guarded else self._answer(frame, nursery))
                if reply is not None:
                    self._pending.append(reply)
                    self._pending_bytes += len(reply.payload)
                    if reply.is_last:
                        self._is_cut_off = self._draining = True
                    await self._wait_for_room(nursery)
                if self.client.throttle_time_ms:
                    await self._stay_muted(nursery)
        finally:
            self._note_held_bytes()
        if self._pending:
            await self._send_or_hand_over(nursery)

    async def _next_frame(self) -> bytes | None:
        """The next whole frame. Raises ProtocolError for an impossible size, or ConnectionRefused."""
        try:
            return self._buffer.next_frame()
        except ProtocolError as error:
            if self._guard is not None and not self._guard.is_authenticated:
                await self._guard.refuse_size(str(error))
            raise

    async def _guarded(self, frame: bytes, nursery: trio.Nursery) -> Reply | None:
        """The reply to one frame, by the guard or by the request path."""
        assert self._guard is not None, "the caller knows it"
        try:
            reply = await self._guard.examine(frame)
        except ConnectionRefused as refused:
            self._is_cut_off = self._draining = True
            return refused.reply
        if reply is None:
            reply = await self._answer(frame, nursery)
            self._guard.note_reply(reply)
            return reply
        if self._guard.is_authenticated:
            self._buffer.max_frame_bytes = self._limits.socket_request_max_bytes
            self._note_known()
        return reply

    async def _wait_for_room(self, nursery: trio.Nursery) -> None:
        while self._is_full():
            await self._send_or_hand_over(nursery)
            if self._is_full():
                self._room = trio.Event()
                await self._room.wait()

    async def _stay_muted(self, nursery: trio.Nursery) -> None:
        """Handle no request for the throttle time of the latest one, as in Kafka. Its answer is sent at once."""
        self._note_held_bytes()
        await self._send_or_hand_over(nursery)
        if self._draining:  # `drain` was called while the answer was sent: it ends the throttle time before it began
            self._is_cut_off = True
        else:
            await self._mute.last(self.client)
        self.active_at = trio.current_time()

    async def _answer(self, frame: bytes, nursery: trio.Nursery) -> Reply | None:
        """The reply to one frame, once it is complete. None: the client expects none, or the server stops first."""
        reply = self._requests.answer(frame, self.client)
        if reply is None or isinstance(reply, Reply):
            return reply
        # As in Kafka, later requests of this connection wait for this one. Answers to earlier ones may leave.
        if self._pending and not self._handed_over:
            self._hand_over(nursery)

        def hold(decoded_bytes: int) -> None:
            self._waiting_bytes = len(frame) + decoded_bytes
            self._note_held_bytes()

        hold(0)
        try:
            return await reply.finish(hold)
        except ServerStops:  # the client would take the answer to a later request for this one's
            self._is_cut_off = self._draining = True
            return None
        finally:
            self._waiting_bytes = 0

    def _begin_turn(self) -> None:
        self._turn_requests = 0
        self._turn_ends_at = trio.current_time() + self._limits.turn_seconds

    async def _take_turn(self, nursery: trio.Nursery) -> None:
        """Return when the next request may be handled: at once, or after a turn of every other waiting connection."""
        if self._turn_requests == self._limits.turn_requests or (
            self._turn_requests and trio.current_time() >= self._turn_ends_at
        ):
            self._note_held_bytes()
            if self._pending:
                await self._send_or_hand_over(nursery)
            # A trio lock is fair: tasks get it in the order in which they began to wait, one per scheduler turn.
            async with self._admission.turns:
                self._begin_turn()
        self._turn_requests += 1

    def _is_full(self) -> bool:
        return (
            len(self._pending) >= self._limits.connection_pending_answers
            or self._pending_bytes >= self._limits.connection_pending_bytes
        )

    async def _send_or_hand_over(self, nursery: trio.Nursery) -> None:
        """Send the pending answers if all of them are durable; otherwise start the second task."""
        if self._handed_over or not self._pending:
            return
        if self._is_durable(self._pending[-1]):
            await self._send_pending()
        else:
            self._hand_over(nursery)

    def _hand_over(self, nursery: trio.Nursery) -> None:
        self._handed_over = True
        nursery.start_soon(self._send_when_durable)

    async def _send_when_durable(self) -> None:
        try:
            while self._pending:
                await self._flusher.wait_durable(self._pending[0].durable_at, self._pending[0].reservations)
                await self._send_pending()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.close()
        self._handed_over = False
        self._room.set()

    async def _send_rest(self) -> None:
        """Send the pending answers after the client's last request."""
        while self._handed_over:
            self._room = trio.Event()
            await self._room.wait()
        while self._pending:
            await self._flusher.wait_durable(self._pending[0].durable_at, self._pending[0].reservations)
            await self._send_pending()

    def _is_durable(self, reply: Reply) -> bool:
        return self._flusher.is_durable(reply.durable_at, reply.reservations)

    async def _send_pending(self) -> None:
        """Send the answers that are durable; small ones are sent together."""
        while self._pending and self._is_durable(self._pending[0]):
            count, size = 0, 0
            for reply in self._pending:
                size += SIZE_BYTES + len(reply.payload)
                if count and (size > self._limits.send_bytes or not self._is_durable(reply)):
                    break
                count += 1
            await self._send([self._pending[index] for index in range(count)])
            for _ in range(count):
                self._pending_bytes -= len(self._pending.popleft().payload)
            self._note_held_bytes()
            self._room.set()

    async def _send(self, replies: Sequence[Reply]) -> None:
        self._note_held_bytes()
        piece_bytes = self._limits.send_bytes
        if len(replies[-1].payload) <= piece_bytes:
            await self._send_piece(_framed(replies, piece_bytes))
        else:
            self.progressed_at = math.inf  # it waits for other connections, not for its client
            async with self._requests.turns.bulk.turn():
                self.progressed_at = trio.current_time()
                await self._send_piece(_framed(replies, piece_bytes))
                with memoryview(replies[-1].payload) as last:  # several replies together fit into the first piece
                    for start in range(piece_bytes, len(last), piece_bytes):
                        await self._send_piece(last[start : start + piece_bytes])
        self.sending_since = None

    async def _send_piece(self, piece: bytes | memoryview) -> None:
        self.sending_since = trio.current_time()
        await self._stream.send_all(piece)
        self.active_at = self.progressed_at = trio.current_time()

    def _note_known(self) -> None:
        """The client is authenticated, or the connection ends: it no longer counts as unauthenticated."""
        if self._unauthenticated is not None:
            self._unauthenticated.discard(self)
            self._unauthenticated = None

    def _note_held_bytes(self) -> None:
        held_bytes = self._buffer.buffered_bytes + self._pending_bytes + self._waiting_bytes
        if held_bytes != self.held_bytes:
            self._admission.hold(self, held_bytes)
            if self._unauthenticated is not None:
                self._unauthenticated.bound_bytes(self)


def _framed(replies: Sequence[Reply], piece_bytes: int) -> bytes:
    """The frames of the replies; of each payload, the first piece."""
    return b"".join(
        part
        for reply in replies
        for part in (reply.size_bytes.to_bytes(SIZE_BYTES, "big"), reply.payload[:piece_bytes])
    )
