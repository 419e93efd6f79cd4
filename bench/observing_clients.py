"""Observers of a metadata log, as brokers are, in one process. Each has a connection and fetches the log again and
again from its beginning, with the next request as soon as an answer is there.

    python -m bench.observing_clients HOST PORT COUNT SECONDS

Prints the bytes that all of them received, and the seconds that it took.
"""

import resource
import selectors
import socket
import sys
import time
from typing import Final

from bench.raw_client import receive_exactly, request_frame
from klamm.protocol.codec.frames import SIZE_BYTES
from klamm.protocol.codec.requests import decode_response
from klamm.protocol.messages.data import fetch
from klamm.protocol.uuid import METADATA_TOPIC_ID

VERSION: Final = 17
FIRST_ID: Final = 100_000
"""Observers have ids from here on, which no node has."""
MAX_BYTES: Final = 1 << 20
RECEIVE_BYTES: Final = 1 << 18
FENCED_LEADER_EPOCH: Final = 74


class Observer:
    """One connection, and what it has received of the present answer."""

    def __init__(self, address: tuple[str, int], frame: bytes) -> None:
        self.socket = socket.create_connection(address, timeout=60)
        self.socket.setblocking(False)
        self._frame = frame
        self._size = b""
        self._missing = 0

    def ask(self) -> None:
        """Send the request, which fits into the socket's buffer."""
        self.socket.send(self._frame)

    def receive(self) -> int:
        """The number of bytes that have arrived. Behind the end of an answer, the next request is sent."""
        if not self._missing:
            self._size += self.socket.recv(SIZE_BYTES - len(self._size))
            if len(self._size) == SIZE_BYTES:
                self._missing, self._size = int.from_bytes(self._size, "big"), b""
            return 0
        count = len(self.socket.recv(min(RECEIVE_BYTES, self._missing)))
        if not count:
            raise ConnectionError("the server closed the connection")
        self._missing -= count
        if not self._missing:
            self.ask()
        return count


def fetch_frame(observer_id: int, epoch: int) -> bytes:
    """A Fetch of the metadata log from its beginning."""
    partition = fetch.FetchPartition(
        current_leader_epoch=epoch, fetch_offset=0, last_fetched_epoch=0, partition_max_bytes=MAX_BYTES
    )
    topic = fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])
    request = fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id=observer_id),
        max_wait_ms=500,
        max_bytes=MAX_BYTES,
        session_epoch=-1,
        topics=[topic],
    )
    return request_frame(fetch.API, VERSION, request)


def leader_epoch(address: tuple[str, int]) -> int:
    """The epoch of the metadata log's leader, which refuses a request with an older one."""
    with socket.create_connection(address, timeout=60) as connected:
        connected.sendall(fetch_frame(FIRST_ID, 0))
        size = int.from_bytes(receive_exactly(connected, SIZE_BYTES), "big")
        _, answer = decode_response(fetch.API, VERSION, receive_exactly(connected, size))
    partition = answer.responses[0].partitions[0]
    if partition.error_code != FENCED_LEADER_EPOCH:
        raise SystemExit(f"a Fetch with epoch 0 got error {partition.error_code}")
    epoch: int = partition.current_leader.leader_epoch
    return epoch


def main() -> None:
    host, port, count, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    epoch = leader_epoch((host, port))
    selector = selectors.DefaultSelector()
    for number in range(count):
        observer = Observer((host, port), fetch_frame(FIRST_ID + number, epoch))
        selector.register(observer.socket, selectors.EVENT_READ, observer)
        observer.ask()
    received, began = 0, time.monotonic()
    while time.monotonic() < began + seconds:
        for key, _ in selector.select(0.1):
            observer = key.data
            received += observer.receive()
    print(received, time.monotonic() - began, flush=True)


if __name__ == "__main__":
    main()
