"""A blocking socket that sends ready-made frames and times the answers: the client costs as little as Python allows.

Frames come from `klamm.protocol.codec`; no client library is between the clock and the server. Answers are kept as
bytes and decoded when the clock has stopped, to be sure that what was timed was no refusal.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from types import TracebackType
from typing import Self

from klamm.protocol.api import Api
from klamm.protocol.codec.frames import SIZE_BYTES, encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.fields import Message
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.topics import create_topics, delete_topics, metadata

CLIENT_ID = "klamm-bench"
TIMEOUT_SECONDS = 120.0
CREATE_TOPICS_VERSION = 7
DELETE_TOPICS_VERSION = 6
METADATA_VERSION = 12
API_VERSIONS_VERSION = 3
SERVER_TIMEOUT_MS = 60_000
FIRST_BUFFER_BYTES = 64 * 1024


class Refused(Exception):
    """Raised when a server did not do what was to be timed."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer. Times count from just before the request was sent."""

    first_byte_ns: int
    last_byte_ns: int
    payload: bytes


def receive_exactly(connected: socket.socket, size: int) -> bytes:
    """The next `size` bytes. Raises Refused if the server closes the connection before."""
    found = bytearray()
    while len(found) < size:
        chunk = connected.recv(size - len(found))
        if not chunk:
            raise Refused("the server closed the connection")
        found += chunk
    return bytes(found)


class RawClient:
    """One connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._view = memoryview(bytearray(FIRST_BUFFER_BYTES))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """The descriptor of the socket, for selectors."""
        return self._socket.fileno()

    def send(self, frame: bytes) -> None:
        """Send a request whose answer is read later, by `receive`."""
        self._socket.sendall(frame)

    def receive(self) -> bytes:
        """The next answer without its size."""
        size = int.from_bytes(receive_exactly(self._socket, SIZE_BYTES), "big")
        return receive_exactly(self._socket, size)

    def exchange(self, frame: bytes) -> Exchange:
        """Send one request and read its answer."""
        receive = self._socket.recv_into
        started = perf_counter_ns()
        self._socket.sendall(frame)
        received = receive(self._view)
        first = perf_counter_ns()
        while 0 < received < SIZE_BYTES:
            received += receive(self._view[received:])
        size = SIZE_BYTES + int.from_bytes(self._view[:SIZE_BYTES], "big")
        if size > len(self._view):
            # Once: the buffer is reused for the next answer.
            larger = memoryview(bytearray(size))
            larger[:received] = self._view[:received]
            self._view = larger
        while received < size:
            count = receive(self._view[received:size])
            if not count:
                raise Refused("the server closed the connection")
            received += count
        last = perf_counter_ns()
        return Exchange(first - started, last - started, bytes(self._view[SIZE_BYTES:size]))


def create_topics_frame(topic_name: str, partitions: int, replication_factor: int) -> bytes:
    """CreateTopics for one topic."""
    topic = create_topics.CreatableTopic(
        name=topic_name, num_partitions=partitions, replication_factor=replication_factor
    )
    return request_frame(create_topics.API, CREATE_TOPICS_VERSION, create_topics.CreateTopicsRequest(topics=[topic]))


def many_topics_frame(topic_names: Sequence[str], partitions: int, replication_factor: int) -> bytes:
    """CreateTopics for many topics of one shape."""
    topics = [
        create_topics.CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor)
        for name in topic_names
    ]
    return request_frame(create_topics.API, CREATE_TOPICS_VERSION, create_topics.CreateTopicsRequest(topics=topics))


def delete_topics_frame(topic_name: str) -> bytes:
    topics = [delete_topics.DeleteTopicState(name=topic_name)]
    request = delete_topics.DeleteTopicsRequest(topics=topics, timeout_ms=SERVER_TIMEOUT_MS)
    return request_frame(delete_topics.API, DELETE_TOPICS_VERSION, request)


def metadata_frame(*, all_topics: bool) -> bytes:
    request = metadata.MetadataRequest(topics=None if all_topics else (), allow_auto_topic_creation=False)
    return request_frame(metadata.API, METADATA_VERSION, request)


def topic_metadata_frame(topic_name: str) -> bytes:
    """Metadata of one topic."""
    topics = [metadata.MetadataRequestTopic(name=topic_name)]
    request = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    return request_frame(metadata.API, METADATA_VERSION, request)


def api_versions_frame() -> bytes:
    request = api_versions.ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version="1")
    return request_frame(api_versions.API, API_VERSIONS_VERSION, request)


def refuse_errors(payload: bytes) -> None:
    """Raise `Refused` unless every topic of a CreateTopics answer was created."""
    _, response = decode_response(create_topics.API, CREATE_TOPICS_VERSION, payload)
    for topic in response.topics:
        if topic.error_code:
            raise Refused(f"CreateTopics {topic.name}: error {topic.error_code}, {topic.error_message}")


def refuse_unless_all_refused(payload: bytes, error_code: int) -> None:
    """Raise `Refused` unless every topic of a CreateTopics answer got this error."""
    _, response = decode_response(create_topics.API, CREATE_TOPICS_VERSION, payload)
    for topic in response.topics:
        if topic.error_code != error_code:
            raise Refused(f"CreateTopics {topic.name}: error {topic.error_code} where {error_code} is right")


def refuse_failed_deletion(payload: bytes) -> None:
    _, response = decode_response(delete_topics.API, DELETE_TOPICS_VERSION, payload)
    for topic in response.responses:
        if topic.error_code:
            raise Refused(f"DeleteTopics {topic.name}: error {topic.error_code}")


def count_partitions(payload: bytes) -> int:
    """The number of partitions in a Metadata answer. Raises `Refused` if it has an error for a topic."""
    _, response = decode_response(metadata.API, METADATA_VERSION, payload)
    if any(topic.error_code for topic in response.topics):
        raise Refused("Metadata refuses topics")
    return sum(len(topic.partitions) for topic in response.topics)


def find_controller(address: tuple[str, int]) -> tuple[str, int]:
    """The broker that the cluster calls its controller: kfake creates topics only there."""
    with RawClient(address) as client:
        answer = client.exchange(metadata_frame(all_topics=False)).payload
    _, response = decode_response(metadata.API, METADATA_VERSION, answer)
    for broker in response.brokers:
        if broker.node_id == response.controller_id:
            return broker.host, broker.port
    raise Refused(f"the controller {response.controller_id} is none of the brokers")


def request_frame(api: Api[Message, Message], version: int, body: Message) -> bytes:
    """Any request, ready to be sent."""
    # One correlation id for all, because there is one request in flight at a time.
    return encode_frame(encode_request(api, version, 1, CLIENT_ID, body))
