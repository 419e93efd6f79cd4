"""TLS of the control interface: the key and certificate of a file, or throw-away ones. Errors are SettingsError."""

import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from klamm.cluster.throw_away_tls import CA_FILE, ThrowAwayTls, new_throw_away_tls
from klamm.controller.settings import SettingsError
from klamm.protocol.bounded_file import UnreadableFile, read_bounded
from klamm.protocol.printable import printable
from klamm.server.tls.context import VERSIONS, new_context
from klamm.server.tls.stores import MAX_STORE_BYTES, KeyMaterial, StoreError, decode_pem

AUTO: Final = "auto"


@dataclass(frozen=True)
class ControlTls:
    """What the interface needs for handshakes."""

    context: ssl.SSLContext
    throw_away: ThrowAwayTls | None = None
    """What was made for --control-tls auto."""

    @contextmanager
    def ca_file(self) -> Iterator[Path | None]:
        """The certificate that clients trust, in a file until the end of the block; None: the user has it."""
        if self.throw_away is None:
            yield None
            return
        with self.throw_away.files() as directory:
            yield directory / CA_FILE


def control_tls(given: Path | Literal["auto"], hosts: Iterable[str]) -> ControlTls:
    """The settings of `--control-tls`; `hosts` are those that a throw-away certificate has. Raises SettingsError."""
    if isinstance(given, Path):
        return ControlTls(_context(_read(given), f"{printable(str(given))}: "))
    made = new_throw_away_tls(hosts, ())
    return ControlTls(_context(decode_pem(f"{made.key}{made.chain}"), ""), made)


def _read(path: Path) -> KeyMaterial:
    shown = f"control-tls: {printable(str(path))}"
    try:
        found = decode_pem(read_bounded(path, MAX_STORE_BYTES).decode("latin-1"))
    except (UnreadableFile, StoreError) as error:
        raise SettingsError(f"{shown}: {error}") from None
    for what, there in (("private key", found.key), ("certificate", found.chain)):
        if not there:
            raise SettingsError(f"{shown}: there is no {what} in PEM")
    return found


def _context(own: KeyMaterial, shown: str) -> ssl.SSLContext:
    try:
        return new_context(own, None, (), "none", tuple(VERSIONS))
    except StoreError as error:
        raise SettingsError(f"control-tls: {shown}{error}") from None
