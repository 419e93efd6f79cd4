"""`klamm broker-properties`. tools/toolchain_checks/real_brokers.py starts real brokers with what it prints."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.__main__ import main
from klamm.broker_properties import broker_properties_text
from klamm.console.options import UsageError

REQUIRED = ("--id", "1", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--log-dir", "/tmp/b1")
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(
    lambda text: text.isprintable() and text == text.strip() and not text.startswith("-")
)


def properties(text: str) -> dict[str, str]:
    """The text as java.util.Properties reads it, without the continuation lines that it does not have."""
    lines = [line for line in text.encode("latin-1").decode("latin-1").split("\n") if line and not line.startswith("#")]
    read = dict(line.split("=", 1) for line in lines)
    assert len(read) == len(lines)
    return {name: _unescaped(value.lstrip(" ")) for name, value in read.items()}


def _unescaped(value: str) -> str:
    units = re.sub(
        r"\\(?:u(....)|(.))", lambda found: chr(int(found[1], 16)) if found[1] else found[2], value, flags=re.DOTALL
    )
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def test_a_broker_with_defaults() -> None:
    text = broker_properties_text(REQUIRED)
    assert properties(text) == {
        "process.roles": "broker",
        "node.id": "1",
        "controller.quorum.voters": "3000@127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:9092",
        "log.dirs": "/tmp/b1",
    }
    assert "\n# bin/kafka-storage.sh format --cluster-id AAAAAAAAAAAAAAAAAAAAAQ --config server.properties\n" in text


def test_every_option_is_in_the_text() -> None:
    more = ("--rack", "a", "--controller", "[::1]:19093", "--listen", "[::1]:9192", "--advertise", "kafka-1.test:9292")
    found = properties(broker_properties_text((*REQUIRED, *more)))
    assert found["broker.rack"] == "a"
    assert found["controller.quorum.voters"] == "3000@[::1]:19093"
    assert found["listeners"] == "PLAINTEXT://[::1]:9192"
    assert found["advertised.listeners"] == "PLAINTEXT://kafka-1.test:9292"


@pytest.mark.parametrize(
    ("more", "listeners", "advertised"),
    [
        (("--listen", "9192"), "127.0.0.1:9192", "127.0.0.1:9192"),
        (("--listen", "0.0.0.0:9192", "--advertise", "10.0.0.1"), "0.0.0.0:9192", "10.0.0.1:9192"),
        (("--advertise", "10.0.0.1:1"), "127.0.0.1:9092", "10.0.0.1:1"),
    ],
)
def test_the_advertised_address_is_that_of_the_listener_unless_another_is_given(
    more: tuple[str, ...], listeners: str, advertised: str
) -> None:
    found = properties(broker_properties_text((*REQUIRED, *more)))
    assert found["listeners"] == f"PLAINTEXT://{listeners}"
    assert found["advertised.listeners"] == f"PLAINTEXT://{advertised}"


@given(rack=NAMES, log_dir=NAMES.filter(lambda text: "," not in text))
def test_kafka_reads_what_was_given(rack: str, log_dir: str) -> None:
    text = broker_properties_text((*REQUIRED[:-1], log_dir, "--rack", rack))
    assert text.isascii()
    assert properties(text)["broker.rack"] == rack
    assert properties(text)["log.dirs"] == log_dir


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (REQUIRED[2:], "--id"),
        (REQUIRED[:2] + REQUIRED[4:], "--cluster-id"),
        (REQUIRED[:4], "--log-dir"),
        (("--id", "3000", *REQUIRED[2:]), "3000 is the id of Klamm's controller"),
        (("--id", "-1", *REQUIRED[2:]), "a whole number from 0 to 2147483647 is expected"),
        (("--id", "2147483648", *REQUIRED[2:]), "a whole number from 0 to 2147483647 is expected"),
        ((*REQUIRED, "--id", "2"), "is given twice"),
        ((*REQUIRED[:3], "a b", *REQUIRED[4:]), "are expected as a cluster id"),
        ((*REQUIRED[:-1], "/a,/b"), "a path without commas"),
        ((*REQUIRED[:-1], " /a"), "a path without commas"),
        ((*REQUIRED[:-1], "/a\n"), "a path without commas"),
        ((*REQUIRED[:-1], "/a\tb"), "a path without commas"),
        ((*REQUIRED[:-1], ""), "a path without commas"),
        ((*REQUIRED, "--rack", " a"), "blanks around it"),
        ((*REQUIRED, "--controller", "localhost:0"), "a port other than 0 is needed"),
        ((*REQUIRED, "--controller", "localhost"), "has no port"),
        ((*REQUIRED, "--controller", "0.0.0.0:9093"), "brokers cannot connect to 0.0.0.0:9093"),
        ((*REQUIRED, "--listen", "0"), "a port other than 0 is needed"),
        ((*REQUIRED, "--listen", "0.0.0.0:9092"), "--advertise HOST is needed, too"),
        ((*REQUIRED, "--listen", "[::]:9092"), "--advertise HOST is needed, too"),
        ((*REQUIRED, "--advertise", "0.0.0.0:9092"), "clients cannot connect to 0.0.0.0:9092"),
        ((*REQUIRED, "--advertise", "a b"), "is no host"),
    ],
)
def test_what_no_broker_can_start_with_is_refused(arguments: tuple[str, ...], reason: str) -> None:
    with pytest.raises(UsageError, match=re.escape(reason)):
        broker_properties_text(arguments)


def test_the_largest_id_is_accepted() -> None:
    text = broker_properties_text(("--id", "2147483647", *REQUIRED[2:]))
    assert properties(text)["node.id"] == "2147483647"


def test_the_command_prints_the_text_or_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["broker-properties", *REQUIRED]) == 0
    assert capfd.readouterr().out == broker_properties_text(REQUIRED)
    assert main(["broker-properties", "--id", "x"]) == 2
    shown = capfd.readouterr()
    assert not shown.out
    assert re.fullmatch(r"klamm broker-properties: .*'x'.*\n", shown.err)
