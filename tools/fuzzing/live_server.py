"""The server process under test, and the checks after every session: a well-behaved client gets right answers, the
server's log reports no bug, and its memory is bounded.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from klamm.cluster.server_process import ServerProcess
from klamm.protocol import Api, Message, Uuid, decode_response, encode_frame, encode_request
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.topics import create_topics, metadata
from tools.fuzzing.broken import Broken
from tools.fuzzing.sessions import Addresses, Session, Talk, play
from tools.fuzzing.values import TOPICS

KNOWN: Final = "known-topic"
"""The topic of the well-behaved client; sessions do not name it."""
PARTITIONS: Final = 3
MAX_GROWTH_BYTES: Final = 512 << 20
"""The growth of the server that is allowed in its life: things that clients were granted, and memory that the allocator
keeps."""
LOOK_AT_MEMORY_EVERY: Final = 20
NEWCOMER_EVERY: Final = 10
_SERVED: Final = (
    "--brokers", "3", "--racks", "a,b,c", "--seed", "1", "--log-format", "json", "--controller-listener", "127.0.0.1:0",
    "--data-memory-bytes", str(64 << 20), "--data-file-bytes", str(1 << 30),
)  # fmt: skip


class LiveServer:
    """A server with the topics that sessions name, and the well-behaved client's connection to it. Raises ServerFailed
    if it does not start, or if it does not end properly without having been found broken before."""

    def __init__(self) -> None:
        self._process = ServerProcess(*_SERVED)
        self._lines = self._sessions = 0
        self._is_broken = False
        self.topic_ids: tuple[Uuid, ...] = ()
        self.addresses: Addresses = {}

    def __enter__(self) -> Self:
        self._process.__enter__()
        self.addresses = {
            "broker": _address(self._process.bootstrap_servers),
            "controller": _address(self._process.controller_bootstrap_servers),
        }
        self._good = Talk("broker", self.addresses["broker"])
        for name in (KNOWN, *TOPICS):
            topic = create_topics.CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=2)
            self._ask(create_topics.API, 7, create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
        ids = {topic.name: topic.topic_id for topic in self._describe(TOPICS)}
        self.topic_ids = tuple(ids[name] for name in TOPICS)
        self._start_bytes = self.memory_bytes()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._good.close()
        if self._is_broken and error is None:  # A broken server need not end properly.
            kind, error = Broken, Broken("broken before")
        self._process.__exit__(kind, error, traceback)

    def play(self, session: Session) -> None:
        """Play a session, then check the server. Raises Broken if anything is wrong."""
        try:
            self._play(session)
        except Broken:
            self._is_broken = True
            raise

    def _play(self, session: Session) -> None:
        try:
            play(session, self.addresses)
        except Broken:
            self.check_log()  # has the more precise error
            raise
        except OSError as error:
            raise Broken("the server does not accept", str(error)) from error
        self.check()

    def check(self) -> None:
        """Raises Broken if the server does not work as before."""
        self._sessions += 1
        self.check_log()
        try:
            found = [(topic.name, len(topic.partitions)) for topic in self._describe([KNOWN])]
            if found != [(KNOWN, PARTITIONS)]:
                raise Broken("the good client is answered wrongly", str(found))
            if self._sessions % NEWCOMER_EVERY == 0:
                newcomer = Talk("broker", self.addresses["broker"])
                newcomer.send(_frame(api_versions.API, 0, 1, api_versions.ApiVersionsRequest()))
                newcomer.finish()
        except OSError as error:  # Also a timeout.
            raise Broken("the good client is not answered", f"{error}; {self._process.stderr_text()[-500:]}") from error
        if self._sessions % LOOK_AT_MEMORY_EVERY == 0 and self.memory_bytes() - self._start_bytes > MAX_GROWTH_BYTES:
            raise Broken("the server grows", f"{self.memory_bytes()} bytes after {self._sessions} sessions")

    def check_log(self) -> None:
        """Raises Broken if an exception was logged since the last check."""
        lines = self._process.stderr_text().splitlines()
        new, self._lines = lines[self._lines :], len(lines)
        for line in new:
            try:
                event = json.loads(line)
            except ValueError:
                raise Broken("the server wrote what is no event", "\n".join(new)[-2000:]) from None
            if event["level"] == "error":
                raise Broken(event["event"], f"{event.get('request', '')}\n{event.get('exception', '')}")

    def memory_bytes(self) -> int:
        """The memory of the process; 0 where no file has it."""
        path = Path(f"/proc/{self._process.process_id}/statm")
        return int(path.read_text().split()[1]) * 4096 if path.exists() else 0

    def _describe(self, names: Sequence[str]) -> Sequence[metadata.MetadataResponseTopic]:
        requested = [metadata.MetadataRequestTopic(name=name) for name in names]
        response = self._ask(
            metadata.API, 12, metadata.MetadataRequest(topics=requested, allow_auto_topic_creation=False)
        )
        topics: Sequence[metadata.MetadataResponseTopic] = response.topics
        return topics

    def _ask(self, api: Api[Any, Any], version: int, request: Message) -> Any:
        self._good.send(_frame(api, version, 7, request))
        answer = self._good.receive()
        if answer is None:
            raise Broken("the good client's connection was closed", self._process.stderr_text()[-500:])
        return decode_response(api, version, answer)[1]


def _frame(api: Api[Any, Any], version: int, correlation_id: int, request: Message) -> bytes:
    return encode_frame(encode_request(api, version, correlation_id, "good", request))


def _address(servers: str) -> tuple[str, int]:
    host, _, port = servers.split(",", maxsplit=1)[0].rpartition(":")
    return host, int(port)
