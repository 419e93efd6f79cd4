"""The public keys of OAUTHBEARER from a JWKS file or from an address, kept fresh without a delay for any client.

A file is read again when it has changed. What an address answers is fetched in a thread, at the start, at regular
times, and soon after a token named a key that is not there; a login never waits for it. Until a fetch succeeds the
former keys count.
"""

import http.client
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult

import trio

from klamm.protocol.bounded_file import UnreadableFile, read_bounded
from klamm.protocol.printable import printable
from klamm.server.event_log import EventLog
from klamm.server.keys_unavailable import KeysUnavailable
from klamm.server.sasl.signed_tokens import JwksError, PublicKey, decode_jwks

MAX_BYTES: Final = 1024 * 1024
FETCH_SECONDS: Final = 10.0
"""How long one fetch may take, connecting included."""
MIN_EXPEDITED_SECONDS: Final = 1.0
"""Between two fetches that unknown keys cause, whatever tokens clients send."""
_CHUNK_BYTES: Final = 65_536


class FileKeys:
    """The keys in a file."""

    def __init__(self, path: Path) -> None:
        """Raises JwksError."""
        self._path = path
        self._read_at: tuple[int, int] | None = None
        self._keys: Sequence[PublicKey] = ()
        self._read()

    def keys_for(self, key_id: str | None) -> Sequence[PublicKey]:
        """The keys that may have this id. A file that has changed and cannot be read leaves the former keys."""
        try:
            status = self._path.stat()
            if (status.st_mtime_ns, status.st_size) != self._read_at:
                self._read()
        except (OSError, JwksError):
            pass
        return self._keys

    def _read(self) -> None:
        try:
            status = self._path.stat()  # before the content, so that a change meanwhile is seen by the next login
            data = read_bounded(self._path, MAX_BYTES)
        except (UnreadableFile, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise JwksError(f"{printable(str(self._path))}: {reason}") from None
        self._keys = decode_jwks(data)
        self._read_at = status.st_mtime_ns, status.st_size


@dataclass(frozen=True, slots=True, kw_only=True)
class JwksAddress:
    """Where keys are fetched, and when."""

    url: SplitResult
    tls: ssl.SSLContext | None
    """Whom the server trusts there; None: the address has http."""
    setting: str
    """The listener and the setting, for error texts."""
    refresh_ms: int
    backoff_ms: int
    backoff_max_ms: int


class AddressKeys:
    """The keys at an address."""

    def __init__(self, address: JwksAddress) -> None:
        self.address = address
        self._keys: Sequence[PublicKey] = ()
        self._wanted = trio.Event()

    def keys_for(self, key_id: str | None) -> Sequence[PublicKey]:
        """The keys that may have this id, as they were fetched. An unknown one causes another fetch, soon."""
        if key_id is not None and all(key.key_id != key_id for key in self._keys):
            self._wanted.set()
        return self._keys

    async def fetch_first(self) -> None:
        """Fetch the keys. Raises KeysUnavailable."""
        try:
            await self._fetch()
        except JwksError as error:
            raise KeysUnavailable(f"{self.address.setting}: {error}") from None

    async def keep_fresh(self, events: EventLog) -> None:
        """Fetch the keys again, for ever."""
        backoff_seconds = 0.0
        while True:
            if backoff_seconds:
                await trio.sleep(backoff_seconds)
            else:
                await trio.sleep(MIN_EXPEDITED_SECONDS)
                with trio.move_on_after(self.address.refresh_ms / 1000):
                    await self._wanted.wait()
            self._wanted = trio.Event()
            try:
                await self._fetch()
                backoff_seconds = 0.0
            except JwksError as error:
                events.warning_rarely("keys of tokens cannot be fetched", reason=f"{self.address.setting}: {error}")
                first, most = self.address.backoff_ms / 1000, self.address.backoff_max_ms / 1000
                backoff_seconds = min(max(2 * backoff_seconds, first), most)

    async def _fetch(self) -> None:
        # The thread is left alone if the server stops meanwhile.
        self._keys = await trio.to_thread.run_sync(_fetched, self.address, abandon_on_cancel=True)


def _fetched(address: JwksAddress) -> list[PublicKey]:
    """The keys at an address. Raises JwksError."""
    shown = printable(address.url.geturl())
    connection = _connection(address)
    try:
        return decode_jwks(_body(connection, address.url))
    except JwksError as error:
        raise JwksError(f"{shown}: {error}") from None
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", None) or (error.reason or "malformed").lower().replace("_", " ")
        raise JwksError(f"{shown}: TLS failed: {reason}") from None
    except TimeoutError:
        raise JwksError(f"{shown}: no answer within {FETCH_SECONDS:g} s") from None
    except (OSError, UnicodeError, ValueError) as error:
        raise JwksError(f"{shown}: {getattr(error, 'strerror', None) or error}") from None
    except http.client.HTTPException:
        raise JwksError(f"{shown}: the answer is not HTTP") from None
    finally:
        connection.close()


def _connection(address: JwksAddress) -> http.client.HTTPConnection:
    host, port = address.url.hostname or "", address.url.port
    if address.tls is None:
        return http.client.HTTPConnection(host, port, timeout=FETCH_SECONDS)
    return http.client.HTTPSConnection(host, port, timeout=FETCH_SECONDS, context=address.tls)


def _body(connection: http.client.HTTPConnection, url: SplitResult) -> bytes:
    """The body of the answer. A server that sends it slowly gets no more time than one that does not."""
    ends_at = time.monotonic() + FETCH_SECONDS
    connection.request("GET", (url.path or "/") + (f"?{url.query}" if url.query else ""))
    with connection.getresponse() as response:
        if response.status != http.client.OK:
            raise JwksError(f"the answer has status {response.status}")
        body = bytearray()
        while chunk := response.read1(_CHUNK_BYTES):
            body += chunk
            if len(body) > MAX_BYTES:
                raise JwksError(f"the answer is larger than {MAX_BYTES} bytes")
            if time.monotonic() > ends_at:
                raise TimeoutError
        return bytes(body)
