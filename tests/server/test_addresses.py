"""HOST:PORT in the forms that people write."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from klamm.server.addresses import (
    Address,
    NamedAddress,
    decode_address,
    decode_advertised,
    decode_host,
    decode_listener,
    host_as_java_prints_it,
)


@pytest.mark.parametrize(("text", "host", "port"), [
    ("127.0.0.1:9092", "127.0.0.1", 9092),
    ("localhost:0", "localhost", 0),
    ("[::1]:9092", "::1", 9092),
    ("[::]:65535", "::", 65535),
    ("kafka_1.internal:1", "kafka_1.internal", 1),
    ("kafka.internal.:1", "kafka.internal.", 1),
    (f"{'x' * 63}.{'y' * 63}.{'z' * 63}.{'w' * 61}:1", f"{'x' * 63}.{'y' * 63}.{'z' * 63}.{'w' * 61}", 1),
])  # fmt: skip
def test_an_address_is_read_and_written_back(text: str, host: str, port: int) -> None:
    assert decode_address(text) == Address(host, port)
    assert str(decode_address(text)) == text


@pytest.mark.parametrize(("text", "said"), [
    ("", "no port"),
    ("localhost", "no port"),
    ("localhost:", "no port between"),
    (":9092", "no host"),
    ("localhost:65536", "no port between"),
    ("localhost:-1", "no port between"),
    ("localhost:9092 ", "no port between"),
    ("localhost:٣", "no port between"),
    ("::1:9092", r"needs brackets, as in \[::1\]:9092$"),
    ("[::1:9092", "needs brackets"),
    ("::1]:9092", r"needs brackets, as in"),
    (f"{'x' * 63}.{'y' * 63}.{'z' * 63}.{'w' * 62}:9092", "no host"),
    ("[::g]:9092", "no IPv6 address"),
    ("[localhost]:9092", "only IPv6"),
    ("a b:9092", "no host"),
    ("-:9092", "no host"),
    ("a..b:9092", "no host"),
    (f"{'x' * 64}:9092", "no host"),
    ("a\0b:9092", "no host"),
])  # fmt: skip
def test_what_is_no_address_is_refused_with_a_reason(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decode_address(text)


@pytest.mark.parametrize(("text", "host"), [("::1", None), ("[::1]", "::1"), ("example.org", "example.org")])
def test_a_host_stands_alone_too(text: str, host: str | None) -> None:
    if host is None:
        with pytest.raises(ValueError, match=r"brackets, as in \[::1\]$"):
            decode_host(text)
    else:
        assert decode_host(text) == host


@pytest.mark.parametrize(("host", "wildcard"), [
    ("0.0.0.0", True), ("::", True), ("0:0:0:0:0:0:0:0", True), ("::1", False), ("127.0.0.1", False), ("here", False)
])  # fmt: skip
def test_a_wildcard_is_known_in_each_spelling(host: str, wildcard: bool) -> None:
    assert Address(host, 1).is_wildcard == wildcard


@pytest.mark.parametrize(("host", "reachable"), [
    ("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("0::0", "::1"), ("::1", "::1"), ("10.0.0.1", "10.0.0.1"), ("here", "here")
])  # fmt: skip
def test_a_wildcard_is_reached_on_the_loopback_of_its_family(host: str, reachable: str) -> None:
    assert Address(host, 1).reachable_host == reachable


@pytest.mark.parametrize(("host", "printed"), [
    ("127.0.0.1", "127.0.0.1"),
    ("::1", "0:0:0:0:0:0:0:1"),
    ("2001:db8::ff00:42:8329", "2001:db8:0:0:0:ff00:42:8329"),
    ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    ("::ffff:10.0.0.1", "10.0.0.1"),
    ("", ""),
    ("a unix socket", "a unix socket"),
])  # fmt: skip
def test_an_address_is_printed_as_acls_name_it(host: str, printed: str) -> None:
    """As java.net.InetAddress.getHostAddress does."""
    assert host_as_java_prints_it(host) == printed


HOSTS = some.one_of(
    some.ip_addresses().map(str), some.from_regex(r"[a-z0-9][a-z0-9_-]{0,20}(\.[a-z]{1,5})?", fullmatch=True)
)
NAMES = some.from_regex(r"[A-Za-z0-9_.-]{1,30}", fullmatch=True)
PORTS = some.integers(0, 65535)


@given(NAMES, HOSTS, PORTS, some.booleans())
def test_a_listener_is_read_and_written_back(name: str, host: str, port: int, has_host: bool) -> None:
    wanted = NamedAddress(name.upper(), Address(host if has_host else "0.0.0.0", port), has_host)
    assert decode_listener(str(wanted)) == wanted
    assert decode_listener(str(wanted).lower()).name == wanted.name


@given(some.one_of(some.text(), some.from_regex(r".{0,5}://?\[?.{0,9}\]?:.{0,6}", fullmatch=True)))
def test_what_is_no_listener_is_refused_with_one_line(text: str) -> None:
    try:
        found = decode_listener(text)
    except ValueError as error:
        reason = str(error)
    else:
        reason = ""
        assert decode_listener(str(found)) == found
    assert "\n" not in reason


@pytest.mark.parametrize(("text", "said"), [
    ("127.0.0.1:9092", "NAME://HOST:PORT is expected"),
    ("://127.0.0.1:9092", "'' is no name of a listener"),
    ("A B://127.0.0.1:9092", "'A B' is no name of a listener"),
    ("A://127.0.0.1", "has no port"),
    ("A://", "has no port"),
    ("A://::1:9092", "needs brackets"),
    (f"{'A' * 256}://h:1", "is no name of a listener"),
])  # fmt: skip
def test_what_is_no_listener_is_told_why(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decode_listener(text)


@pytest.mark.parametrize(("text", "advertised"), [
    ("kafka.internal", Address("kafka.internal", 0)),
    ("kafka.internal:9092", Address("kafka.internal", 9092)),
    ("[::1]", Address("::1", 0)),
    ("[::1]:9092", Address("::1", 9092)),
])  # fmt: skip
def test_clients_are_told_a_host_with_or_without_a_port(text: str, advertised: Address) -> None:
    assert decode_advertised(text) == advertised


@pytest.mark.parametrize(("text", "said"), [
    ("kafka.internal:0", "clients cannot connect to port 0"),
    ("[::1]:0", "clients cannot connect to port 0"),
    ("kafka.internal:", "no port between"),
    ("::1", r"needs brackets, as in \[::1\]$"),
])  # fmt: skip
def test_clients_are_told_nothing_that_they_cannot_connect_to(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decode_advertised(text)
