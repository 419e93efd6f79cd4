"""Completes the answers that the core leaves to the server: bytes of the metadata log, and forwarded requests.

Observers of the metadata log (real brokers, twins) wait here for new records. Only what is durable is read. Records are
read in a thread, so that no other client waits for a disk. Most fetches find no new ones, which takes no thread.
"""

import socket
from collections.abc import Callable
from typing import Final, TypeAlias

import trio

from klamm.controller.client import Client
from klamm.controller.metadata_log_reader import MetadataLogReader, NeedsThread
from klamm.controller.observers import ObserverFetch
from klamm.controller.server_answer import Forwarded, LogAnswer, LogPart, ServerAnswer
from klamm.protocol.codec.messages import decode_message
from klamm.protocol.errors import ErrorCode, NotServed, ProtocolError, UnsupportedVersion
from klamm.protocol.messages.brokers.envelope import EnvelopeResponse
from klamm.protocol.records.data import DEFAULT_PRINCIPAL_DATA, DefaultPrincipalData
from klamm.server.addresses import host_as_java_prints_it
from klamm.server.bulk_turns import BulkTurns
from klamm.server.event_log import EventLog
from klamm.server.flusher import Flusher
from klamm.server.purgatory import ServerStops
from klamm.server.reply import Finishing, Reply

FORWARDABLE: Final = frozenset({19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81})
"""The keys of the APIs that Kafka declares forwardable (the column `forwardable` of its API table)."""
_KEY_BYTES: Final = 2
_VERSION_BYTES: Final = 2
READERS: Final = 4
"""The most reads of the log at a time. More threads would only wait for each other and for Python's lock."""
Decide: TypeAlias = Callable[[bytes, Client], Reply | Finishing | None]
"""Decides a frame of a client, as `RequestPath.answer`."""


class _Refused(Exception):
    """An embedded request is not decided."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class ServerAnswers:
    """Completes each `ServerAnswer`. `close` ends those that wait."""

    def __init__(
        self,
        log: MetadataLogReader,
        flusher: Flusher,
        events: EventLog,
        decide: Decide,
        observe: Callable[[ObserverFetch], None],
        turns: BulkTurns,
        *,
        threads: bool,
    ) -> None:
        """`observe` is called with each fetch of an observer. `turns` are those of large responses. `threads`:
        whether the log is read in threads. A test's clock would jump meanwhile."""
        self._log = log
        self._log_on_event_loop = log.on_event_loop()
        self._flusher = flusher
        self._events = events
        self._decide = decide
        self._observe = observe
        self._turns = turns
        self._readers = trio.Semaphore(READERS)
        self._threads = threads
        self._waiting: set[trio.CancelScope] = set()
        self._is_closed = False

    def close(self) -> None:
        """End every wait, now and later, with ServerStops."""
        self._is_closed = True
        for scope in self._waiting:
            scope.cancel()

    async def complete(self, answer: ServerAnswer, client: Client, hold: Callable[[int], None]) -> None:
        """Set the response of the answer; `client` is its requester. `hold` is called with the bytes that it takes.
        Raises ServerStops, LogError, and NoReply as the request path does."""
        if isinstance(answer, LogAnswer):
            await self._read(answer)
        else:
            assert isinstance(answer, Forwarded)
            try:
                answer.response = await self._forward(answer, client, hold)
            except _Refused as refused:
                answer.response = EnvelopeResponse(error_code=refused.code)

    async def _read(self, answer: LogAnswer) -> None:
        found = await self._read_once(answer)
        if not found.is_final and answer.wait_ms:
            await self._wait(answer.wait_ms, found)
            if self._log.end_offset > found.end_offset:
                found = await self._read_once(answer)
            else:
                self._note(found)
        if found.warning:
            self._events.warning_rarely("an observer is ahead of the metadata log", reason=found.warning)
        answer.response = found.response

    async def _read_once(self, answer: LogAnswer) -> LogPart:
        try:
            found = answer.read(self._log_on_event_loop)
        except NeedsThread:
            found = await self._read_records(answer)
        self._note(found)
        return found

    def _note(self, found: LogPart) -> None:
        if found.fetched is not None:
            self._observe(found.fetched)

    async def _read_records(self, answer: LogAnswer) -> LogPart:
        async with self._readers:
            await self._turns.few_wait()
            return await trio.to_thread.run_sync(answer.read, self._log) if self._threads else answer.read(self._log)

    async def _wait(self, wait_ms: int, found: LogPart) -> None:
        """Wait until the log is longer than what was found. An observer that is ahead of the log always waits for the
        whole time, so that it does not ask again at once."""
        with trio.move_on_after(wait_ms / 1000) as scope:
            self._waiting.add(scope)
            try:
                if self._is_closed:
                    scope.cancel()
                if found.warning:
                    await trio.sleep_forever()
                await self._flusher.wait_for_more(found.end_offset)
            finally:
                self._waiting.discard(scope)
        if self._is_closed:
            raise ServerStops

    async def _forward(self, answer: Forwarded, forwarder: Client, hold: Callable[[int], None]) -> EnvelopeResponse:
        principal = _principal(answer.principal)  # as in Kafka, before the address
        client = Client(
            forwarder.listener,
            None,
            _host(answer.client_address),
            principal,
            forwarder.software_name,
            forwarder.software_version,
            forwarder.listener_name,
            # The broker has refused clients that may not ask about tokens, before it forwarded the request.
            may_use_tokens=True,
            is_forwarded=True,
        )
        if int.from_bytes(answer.frame[:_KEY_BYTES], "big") not in FORWARDABLE:
            raise _Refused(ErrorCode.INVALID_REQUEST)
        try:
            found = self._decide(answer.frame, client)
            if found is not None and not isinstance(found, Reply):
                found = await found.finish(hold)
        except (NotServed, UnsupportedVersion):
            raise _Refused(ErrorCode.UNSUPPORTED_VERSION) from None
        except ProtocolError:
            raise _Refused(ErrorCode.INVALID_REQUEST) from None
        assert found is not None, "every request that may be forwarded has an answer"
        return EnvelopeResponse(response_data=bytes(found.payload))


def _principal(data: bytes | None) -> str:
    """The principal in the form of ACLs, such as `User:alice`. Source: Kafka's DefaultKafkaPrincipalBuilder."""
    version = int.from_bytes(data[:_VERSION_BYTES], "big") if data else -1
    if data is None or len(data) < _VERSION_BYTES or version not in DEFAULT_PRINCIPAL_DATA.versions:
        raise _Refused(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    try:
        found = decode_message(DefaultPrincipalData, version, flexible=True, data=data[_VERSION_BYTES:])
    except ProtocolError:
        raise _Refused(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE) from None
    return f"{found.type}:{found.name}"


def _host(address: bytes) -> str:
    family = {4: socket.AF_INET, 16: socket.AF_INET6}.get(len(address))
    if family is None:
        raise _Refused(ErrorCode.INVALID_REQUEST)
    return host_as_java_prints_it(socket.inet_ntop(family, address))
