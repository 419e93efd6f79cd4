"""TLS and SASL: handshakes of TLS 1.3 per second, CreateTopics over SASL_SSL, records over TLS beside plaintext, and a
thousand clients that log in at once. Klamm and Apache Kafka have the same key and the same users.
"""

import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.processes import ServerProcess
from bench.raw_client import Refused, api_versions_frame, create_topics_frame, receive_exactly, refuse_errors
from bench.rows import Row, percentile
from bench.secure_servers import PASSWORD, USER, Secured, secure_kafka, secure_klamm
from bench.workbench import Workbench
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.messages.security import sasl_authenticate, sasl_handshake

HANDSHAKES, FEWEST_HANDSHAKES = 1_000, 50
CREATES, FEWEST_CREATES = 1_000, 100
CLIENTS, FEWEST_CLIENTS = 1_000, 100
RECORDS, FEWEST_RECORDS = 300_000, 20_000
RECORD_BYTES: Final = 1_000
ROUNDS: Final = 3
NS_PER_MS: Final = 1e6
MEGABYTE: Final = 1_000_000
TIMEOUT_SECONDS: Final = 60.0
MARK_HANDSHAKES = ">= 0.5 × Kafka"
MARK_CREATES = "<= 1 × Kafka"
MARK_TLS = ">= 0.5 × its plaintext"


class Wire:
    """A blocking connection, with TLS and a login if they are asked for."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext | None, *, logs_in: bool = False) -> None:
        plain = socket.create_connection(address, timeout=TIMEOUT_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = plain if context is None else context.wrap_socket(plain, server_hostname="localhost")
        if logs_in:
            self._log_in()

    def close(self) -> None:
        self._socket.close()

    def exchange(self, frame: bytes) -> bytes:
        """Send one request, and return the answer without its size."""
        self._socket.sendall(frame)
        return receive_exactly(self._socket, int.from_bytes(receive_exactly(self._socket, 4), "big"))

    def _log_in(self) -> None:
        for api, version, request in (
            (sasl_handshake.API, 1, sasl_handshake.API.request(mechanism="PLAIN")),
            (sasl_authenticate.API, 2, sasl_authenticate.API.request(auth_bytes=f"\0{USER}\0{PASSWORD}".encode())),
        ):
            answer = self.exchange(encode_frame(encode_request(api, version, 1, "klamm-bench", request)))
            if decode_response(api, version, answer)[1].error_code:
                raise Refused("the login was refused")


def measure_security(bench: Workbench) -> list[Row]:
    """Klamm, and Apache Kafka if it is measured, one after the other in each round."""
    with contextlib.ExitStack() as stack:
        makers: list[Callable[[Workbench, Path], tuple[Secured, ServerProcess]]] = [secure_klamm]
        if bench.kafka_class_path is not None:
            makers.append(secure_kafka)
        servers = []
        for make in makers:
            secured, process = make(bench, stack.enter_context(bench.folder()))
            stack.enter_context(process)
            servers.append((secured, process))
        return list(_measured(bench, servers))


Servers = Sequence[tuple[Secured, ServerProcess]]


def _measured(bench: Workbench, servers: Servers) -> Iterator[Row]:
    count = bench.samples(HANDSHAKES, FEWEST_HANDSHAKES)
    rates = [[_handshakes(secured, count // ROUNDS) for secured, _ in servers] for _ in range(ROUNDS)]
    yield from _beside("TLS 1.3 handshakes of one client, with one ApiVersions on each connection", "/s", rates,
                       count, higher=True, mark=MARK_HANDSHAKES, least=0.5)  # fmt: skip
    creates = bench.samples(CREATES, FEWEST_CREATES)
    times = [_creates(secured, creates) for secured, _ in servers]
    ours, theirs = times[0], times[1] if len(times) > 1 else None
    for percent in (50, 99):
        is_mark = percent == 50 and theirs is not None
        p_ours = percentile(ours, percent)
        p_theirs = percentile(theirs, percent) if theirs is not None else None
        yield Row(
            group="security",
            what=f"CreateTopics of one topic over SASL_SSL: p{percent}",
            unit="ms",
            klamm=p_ours,
            peer=None if p_theirs is None else "Kafka",
            theirs=p_theirs,
            samples=len(ours),
            mark=MARK_CREATES if is_mark else None,
            reached=p_ours <= p_theirs if is_mark and p_theirs is not None else None,
        )
    yield from _logins(bench, servers)
    yield from _records(bench, servers)


def _beside(
    what: str,
    unit: str,
    rounds: Sequence[Sequence[float]],
    samples: int,
    *,
    higher: bool,
    mark: str | None = None,
    least: float = 0.0,
) -> Iterator[Row]:
    """A row of the medians of rounds, each with a figure of every server."""
    ours, *others = [sorted(figures)[len(figures) // 2] for figures in zip(*rounds, strict=True)]
    theirs = others[0] if others else None
    yield Row(
        group="security",
        what=what,
        unit=unit,
        klamm=ours,
        peer=None if theirs is None else "Kafka",
        theirs=theirs,
        higher_is_better=higher,
        samples=samples,
        mark=None if theirs is None else mark,
        reached=None if mark is None or theirs is None else ours >= least * theirs,
    )


def _handshakes(secured: Secured, count: int) -> float:
    """Connections per second. Without an answer a client of TLS 1.3 would not know that the server is done."""
    context, frame = secured.context(), api_versions_frame()
    began = 0.0
    for number in range(count + 10):
        if number == 10:  # after warm-ups
            began = time.perf_counter()
        wire = Wire(secured.addresses["SSL"], context)
        wire.exchange(frame)
        wire.close()
    return count / (time.perf_counter() - began)


def _creates(secured: Secured, count: int) -> list[float]:
    wire = Wire(secured.addresses["SASL_SSL"], secured.context(), logs_in=True)
    times = []
    for number in range(count + count // 10):
        frame = create_topics_frame(f"secure-{number}", 1, 1)
        began = time.perf_counter_ns()
        answer = wire.exchange(frame)
        times.append((time.perf_counter_ns() - began) / NS_PER_MS)
        refuse_errors(answer)
    wire.close()
    return times[count // 10 :]


def _logins(bench: Workbench, servers: Servers) -> Iterator[Row]:
    count = bench.samples(CLIENTS, FEWEST_CLIENTS)
    for name in ("SASL_PLAINTEXT", "SASL_SSL"):
        seconds, grown = [], []
        for secured, process in servers:
            before = process.resident_bytes
            context = secured.context() if name == "SASL_SSL" else None
            began = time.perf_counter()
            with contextlib.ExitStack() as stack:
                for _ in range(count):
                    wire = Wire(secured.addresses[name], context, logs_in=True)
                    stack.callback(wire.close)
                seconds.append(time.perf_counter() - began)
                grown.append((process.resident_bytes - before) / count / 1024)
        yield from _beside(
            f"{count:,} clients authenticate with PLAIN over {name}", "s", [seconds], count, higher=False
        )
        yield from _beside(f"memory of each of these connections over {name}", "KiB", [grown], count, higher=False)


def _records(bench: Workbench, servers: Servers) -> Iterator[Row]:
    """Records of 1 kB by confluent-kafka, over TLS and without."""
    count = bench.samples(RECORDS, FEWEST_RECORDS)
    rates = {}
    for name in ("PLAINTEXT", "SSL"):
        rounds = [[_produced(secured, name, count, number) for secured, _ in servers] for number in range(ROUNDS)]
        what = f"records of 1 kB produced over {name}, acks=1, confluent-kafka"
        (row,) = _beside(what, "MB/s", rounds, count, higher=True)
        rates[name] = row.klamm
        yield row
    yield Row(
        group="security",
        what="records of 1 kB produced over SSL",
        unit="MB/s",
        klamm=rates["SSL"],
        peer="Klamm, PLAINTEXT",
        theirs=rates["PLAINTEXT"],
        higher_is_better=True,
        samples=count,
        mark=MARK_TLS,
        reached=rates["SSL"] >= 0.5 * rates["PLAINTEXT"],
    )


def _produced(secured: Secured, name: str, count: int, number: int) -> float:
    from confluent_kafka import Producer

    host, port = secured.addresses[name]
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": f"{host}:{port}",
        "security.protocol": name,
        "acks": 1,
        "linger.ms": 5,
        "batch.size": MEGABYTE,
        "queue.buffering.max.messages": 10_000_000,
        "queue.buffering.max.kbytes": 1_048_576,
    }
    if name == "SSL":
        settings["ssl.ca.location"] = str(secured.ca)
    producer = Producer(settings)
    value, topic, failed = bytes(RECORD_BYTES), f"records-{name}-{number}", []

    def note(error: object, _message: object) -> None:
        if error is not None:
            failed.append(error)

    producer.produce(topic, value, on_delivery=note)
    producer.flush(TIMEOUT_SECONDS)
    began = time.perf_counter()
    for _ in range(count):
        producer.produce(topic, value, on_delivery=note)
    left = producer.flush(TIMEOUT_SECONDS)
    seconds = time.perf_counter() - began
    if failed or left:
        raise Refused(f"{len(failed) + left} records were not acknowledged: {failed[:1]}")
    return count * RECORD_BYTES / MEGABYTE / seconds
