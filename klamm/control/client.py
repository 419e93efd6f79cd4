"""The client of the control interface for Python programs without an event loop; it imports the standard library only.

A call returns when the server answered, which for changes is when the metadata shows them. Proxies are not asked.
"""

import http.client
import json
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self
from urllib.parse import quote, urlsplit

from klamm.control.clock_verbs import ClockVerbs
from klamm.control.fault_verbs import FaultVerbs
from klamm.control.recorded import MAX_RECORD_BYTES, IsolationLevel, Record
from klamm.control.request_verbs import RequestVerbs
from klamm.control.scenario_verbs import ScenarioVerbs
from klamm.control.steering_verbs import SteeringVerbs
from klamm.control.tokens import CA_VARIABLE, TOKEN_VARIABLE, checked_token

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 330.0
"""The server answers after 300 s at the latest, with the reason."""
RESTART_SECONDS = 60.0
"""So long the interface may be closed while a twin restarts."""
POLL_SECONDS = 0.02
STOPPING = 503

__tracebackhide__ = True
"""pytest shows the line of the test that called, not the frames of this module."""


class ControlError(Exception):
    """The control interface did not carry out the request. The text is one clause."""


class ControlUnreachable(ControlError):
    """No control interface answers at this address."""


class ControlRefused(ControlError):
    """The server refused the request: `status` is the HTTP status, such as 404 for a broker that does not exist."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledBroker:
    """A simulated broker, as the control interface describes it (docs/control.md)."""

    id: int
    rack: str | None
    host: str
    port: int
    listeners: Mapping[str, str]
    """HOST:PORT of each listener, by name."""
    state: Literal["up", "down"]
    fenced: bool
    in_controlled_shutdown: bool
    broker_epoch: int
    replicas: int

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """Made of an object in an answer; members that a newer server adds are ignored."""
        return cls(**{field.name: members[field.name] for field in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenSnapshot:
    """A snapshot of the metadata log. It has `records` records, and replaces all records of the log below
    `end_offset`."""

    end_offset: int
    records: int

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        return cls(end_offset=members["end_offset"], records=members["records"])


class ControlClient(FaultVerbs, RequestVerbs, ClockVerbs, SteeringVerbs, ScenarioVerbs):
    """Controls a cluster from outside: `klamm.ControlClient("http://127.0.0.1:9090").stop_broker(2)`.

    `token` is the control token. An address that is not loopback needs it. None: the value of the variable
    KLAMM_CONTROL_TOKEN. `ca_file` has the trusted certificates for https, as PEM. None: the file in the variable
    KLAMM_CONTROL_CA, or the certificates of the operating system. Raises ValueError for an invalid URL, token or file.
    All methods raise `ControlRefused` and `ControlUnreachable`."""

    def __init__(self, url: str, token: str | None = None, *, ca_file: str | os.PathLike[str] | None = None) -> None:
        has_tls, self._host, self._port = _host_and_port(url)
        self._tls = _trusting(ca_file or os.environ.get(CA_VARIABLE)) if has_tls else None
        token = token or os.environ.get(TOKEN_VARIABLE)
        self._headers = {} if not token else {"Authorization": f"Bearer {checked_token(token, 'control token')}"}
        self.url = url

    def __repr__(self) -> str:
        return f"klamm.ControlClient({self.url!r})"

    def brokers(self) -> tuple[ControlledBroker, ...]:
        """All simulated brokers, by id."""
        return tuple(map(ControlledBroker.from_json, self.ask("GET", "/brokers")))

    def stop_broker(self, broker_id: int, mode: Literal["shutdown", "crash"] = "shutdown") -> None:
        """Stop a broker. After a shutdown, it is fenced. After a crash, it is fenced when its session expires."""
        self.ask("POST", f"/brokers/{_checked(broker_id)}/stop", {"mode": mode})

    def kill_broker(self, broker_id: int) -> None:
        """Crash a broker: the same as `stop_broker` with the mode "crash"."""
        self.ask("POST", f"/brokers/{_checked(broker_id)}/kill")

    def start_broker(self, broker_id: int) -> None:
        """Start a stopped broker. After a crash, this waits until its former session has expired."""
        self.ask("POST", f"/brokers/{_checked(broker_id)}/start")

    def add_broker(self, rack: str | None = None) -> int:
        """Start one more broker, in `rack` or in the next rack in turn. Returns its id."""
        added: int = self.ask("POST", "/brokers", {"rack": rack})["id"]
        return added

    def remove_broker(self, broker_id: int) -> None:
        """Shut a broker down, if it is up, and unregister it."""
        self.ask("DELETE", f"/brokers/{_checked(broker_id)}")

    def snapshot(self) -> TakenSnapshot:
        """Write a snapshot of the metadata log. Returns when it is durable."""
        return TakenSnapshot.from_json(self.ask("POST", "/snapshot"))

    def restart_twin(self) -> str:
        """Discard the changes in a twin (`--twin DIR --follow`), and begin again with the present metadata of its
        source. Returns the bootstrap servers when the twin has restarted."""
        servers: str = await_restart(self, self.ask("POST", "/twin/restart"))["bootstrap_servers"]
        return servers

    def create_topic(
        self,
        name: str,
        num_partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str | float] | None = None,
    ) -> None:
        """Create a topic. Returns when the metadata has it. None means the broker's default."""
        counts = {"num_partitions": num_partitions, "replication_factor": replication_factor}
        self.ask("POST", "/topics", {"name": name, **counts, "configs": None if configs is None else dict(configs)})

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Returns when the metadata no longer has it."""
        self.ask("DELETE", topic_path(name))

    def records(
        self,
        topic: str,
        partition: int | None = None,
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
        max_bytes: int = MAX_RECORD_BYTES,
    ) -> tuple[Record, ...]:
        """All records of a topic or of one partition, uncompressed, in the order of partitions and offsets.

        `read_uncommitted` returns all records in the leaders' logs. This includes records that are not replicated yet,
        and records of aborted transactions. `read_committed` returns the records that a consumer with this isolation
        level gets. Raises `ControlError` if keys, values and headers together have more than `max_bytes`."""
        path = records_path(topic)
        asked: dict[str, object] = {"partition": partition, "isolation_level": isolation_level}
        found: list[Record] = []
        size_bytes, at = 0, {"from_partition": 0, "from_offset": 0}
        while True:
            page = self.ask("POST", path, asked | at)
            for members in page["records"]:
                found.append(record := Record.from_json(members))
                size_bytes += record.size_bytes
            if size_bytes > max_bytes:
                raise ControlError(f"the records of {topic!r} have more than max_bytes ({max_bytes})")
            if page["next_partition"] is None:
                return tuple(found)
            at = {"from_partition": page["next_partition"], "from_offset": page["next_offset"]}

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        """The JSON of the response to a request."""
        status, answered = self._exchange(method, path, b"" if body is None else json.dumps(body).encode())
        try:
            content = json.loads(answered)
            if status < 400:
                return content
            reason = str(content["error"])
        except (ValueError, TypeError, KeyError):
            raise ControlUnreachable(f"the server at {self.url} is not a control interface (status {status})") from None
        raise ControlRefused(status, reason)

    def _new_connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=CONNECT_SECONDS)
        return http.client.HTTPSConnection(self._host, self._port, timeout=CONNECT_SECONDS, context=self._tls)

    def _exchange(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        connection = self._new_connection()
        try:
            connection.connect()
            connection.sock.settimeout(ANSWER_SECONDS)
            headers = self._headers | ({"Content-Type": "application/json"} if body else {})
            connection.request(method, path, body or None, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except TimeoutError:
            raise ControlUnreachable(f"{self.url} does not answer") from None
        except http.client.HTTPException as error:
            hint = " (an address with TLS begins with https)" if self._tls is None else ""
            raise ControlUnreachable(f"{self.url} ended the connection without an answer{hint}") from error
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", None) or (error.reason or "malformed").lower().replace("_", " ")
            raise ControlUnreachable(f"TLS with {self.url} failed: {reason}") from error
        except (OSError, UnicodeError) as error:
            raise ControlUnreachable(
                f"{self.url} cannot be reached: {getattr(error, 'strerror', None) or error}"
            ) from error
        finally:
            connection.close()


def _trusting(ca_file: str | os.PathLike[str] | None) -> "ssl.SSLContext":
    """A context that trusts these certificates. Raises ValueError."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise ValueError(f"certificates {ca_file}: there is none in PEM") from None
    except OSError as error:
        raise ValueError(f"certificates {ca_file}: {error.strerror or error}") from None


def await_restart(client: ControlClient, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Wait for the restart of an answer to `POST /twin/restart`. Returns the twin as it is then. Raises
    ControlError."""
    deadline = time.monotonic() + RESTART_SECONDS
    while True:
        try:
            found: Mapping[str, Any] = client.ask("GET", "/twin")
            if found["restarts"] >= asked["restarts"]:
                return found
        except ControlUnreachable:  # it is closed while the twin restarts
            if time.monotonic() > deadline:
                raise
        except ControlRefused as refused:
            if refused.status != STOPPING or time.monotonic() > deadline:
                raise
        time.sleep(POLL_SECONDS)


def topic_path(topic: str) -> str:
    """The path of a topic."""
    return f"/topics/{quote(topic, safe='')}"


def records_path(topic: str) -> str:
    """The path of a topic's records."""
    return f"{topic_path(topic)}/records"


def _checked(broker_id: object) -> int:
    """The id, if it is an integer; in Python a bool is one, too, but here it is an error."""
    if not isinstance(broker_id, int) or isinstance(broker_id, bool):
        raise ControlError(f"broker id {repr(broker_id)[:40]}: a whole number is expected")
    return broker_id


def _host_and_port(url: str) -> tuple[bool, str, int]:
    """Whether the URL has https, its host and its port. Raises ValueError."""
    expected = f"{url[:80]!r} is no URL of a control interface: http://HOST:PORT or https://HOST:PORT is expected"
    if "://" not in url and url.isprintable():
        from klamm.protocol.near_names import suggestion  # imported when an address is refused

        expected += suggestion("http://" + url[:80])
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(expected) from None
    extra = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    if parts.scheme not in ("http", "https") or not host or not port or extra or not url.isprintable() or " " in url:
        raise ValueError(expected)
    return parts.scheme == "https", host, port
