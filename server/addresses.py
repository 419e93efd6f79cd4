"""Parses addresses: `127.0.0.1:9092`, `[::1]:9092`, `localhost:0`, and with the name of a listener, as in Kafka's
`listeners`, `PLAINTEXT://127.0.0.1:9092`.

This module opens no socket and resolves no name. Kafka writes an IPv6 host in brackets if a port follows.
"""

import re
import socket

from klamm.quick_dataclasses import dataclass

MAX_PORT = 65_535
EVERYWHERE = "0.0.0.0"
MAX_NAME_CHARACTERS = 255
_LISTENER_NAME = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_IPV4_IN_IPV6 = bytes(10) + b"\xff\xff"


@dataclass(frozen=True, slots=True)
class Address:
    """A host, without brackets, and a port. Port 0 means any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_wildcard(self) -> bool:
        """Whether the host means every interface. Clients cannot connect to such an address."""
        return self.host == "0.0.0.0" or (_is_ipv6(self.host) and not any(socket.inet_pton(socket.AF_INET6, self.host)))

    @property
    def reachable_host(self) -> str:
        """The host that clients on this machine connect to: the host itself, or the loopback address for a wildcard.

        The loopback address is numeric because `localhost` may resolve to the other family (IPv4 or IPv6).
        """
        if not self.is_wildcard:
            return self.host
        return "::1" if ":" in self.host else "127.0.0.1"


@dataclass(frozen=True, slots=True)
class NamedAddress:
    """An entry of Kafka's `listeners` or `advertised.listeners`."""

    name: str
    """The listener's name in capitals, because Kafka ignores case in listener names."""
    address: Address
    has_host: bool = True
    """False if the entry has no host, as in `PLAINTEXT://:9092`. Such a listener listens on every interface."""

    def __str__(self) -> str:
        return f"{self.name}://{self.address}" if self.has_host else f"{self.name}://:{self.address.port}"


def decode_listener(text: str) -> NamedAddress:
    """Parse NAME://HOST:PORT. Raises ValueError, whose text is a clause that says what is wrong."""
    name, separator, place = text.partition("://")
    if not separator:
        raise ValueError(f"{text!r}: NAME://HOST:PORT is expected")
    if not _LISTENER_NAME.fullmatch(name) or len(name) > MAX_NAME_CHARACTERS:
        raise ValueError(f"{name!r} is no name of a listener: letters, digits and _.- are expected")
    has_host = not place.startswith(":") or place.startswith("::")
    address = decode_address(place if has_host else f"{EVERYWHERE}{place}")
    return NamedAddress(name.upper(), address, has_host)


def decode_address(text: str) -> Address:
    """Parse HOST:PORT. Raises ValueError, whose text is a clause that says what is wrong."""
    scheme, separator, _ = text.partition("://")
    if separator:
        raise ValueError(f"{text!r}: HOST:PORT is expected, without {scheme + separator!r}")
    host, colon, port = text.rpartition(":")
    if not colon:
        raise ValueError(f"{text!r} has no port: HOST:PORT is expected")
    if not port.isascii() or not port.isdigit() or int(port) > MAX_PORT:
        raise ValueError(f"{port!r} is no port between 0 and {MAX_PORT}")
    return Address(_host(host, "[::1]:9092"), int(port))


def decode_listen(text: str) -> Address:
    """Parse an address to listen on, HOST:PORT, or a PORT of 127.0.0.1. Raises ValueError."""
    return decode_address(f"127.0.0.1:{text}" if text.isascii() and text.isdigit() else text)


def decode_host(text: str) -> str:
    """Parse a host name or a numeric address and remove its brackets. Raises ValueError if `text` is neither."""
    return _host(text, "[::1]")


def decode_advertised(text: str) -> Address:
    """Parse an advertised address, HOST or HOST:PORT. Without a port, the port is 0. Raises ValueError."""
    if "]:" not in text and text.count(":") != 1:
        return Address(decode_host(text), 0)
    address = decode_address(text)
    if not address.port:
        raise ValueError(f"{text!r}: clients cannot connect to port 0")
    return address


def host_as_java_prints_it(host: str) -> str:
    """A numeric address as Kafka's ACLs write it: IPv6 with all eight groups, `0:0:0:0:0:0:0:1`."""
    address, percent, scope = host.partition("%")
    if not _is_ipv6(address):
        return host
    packed = socket.inet_pton(socket.AF_INET6, address)
    if packed.startswith(_IPV4_IN_IPV6):
        return ".".join(map(str, packed[len(_IPV4_IN_IPV6) :]))
    groups = (packed[at : at + 2].hex().lstrip("0") or "0" for at in range(0, len(packed), 2))
    return ":".join(groups) + percent + scope


def _host(text: str, example: str) -> str:
    host = text
    if text.startswith("[") and text.endswith("]"):
        host = text[1:-1]
        if ":" not in host:
            raise ValueError(f"{text!r}: only IPv6 addresses have brackets")
    elif ":" in text:
        raise ValueError(f"{text!r}: an IPv6 address needs brackets, as in {example}")
    if ":" in host:
        if not _is_ipv6(host):
            raise ValueError(f"{host!r} is no IPv6 address")
    elif not _is_host_name(host):
        raise ValueError(f"{host!r} is no host")
    return host


def _is_ipv6(host: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET6, host)
    except (OSError, ValueError):  # ValueError: a null character
        return False
    return True


def _is_host_name(host: str) -> bool:
    # Lengths as in RFC 1035; the underscore because container networks use it in names.
    labels = host.removesuffix(".").split(".")
    return len(host) <= 253 and all(
        0 < len(label) <= 63 and label.isascii() and label.replace("-", "").replace("_", "").isalnum()
        for label in labels
    )
