"""`klamm serve --advertise HOST:PORT`: the end points that clients get when published ports have other numbers."""

import pytest

import klamm
from tests.klamm.serve.processes import FREE, first_line, refused, serving


def test_clients_are_told_the_ports_that_are_advertised() -> None:
    with serving(*FREE, "--brokers", "2", "--advertise", "kafka.example:29092", "--control", "127.0.0.1:0") as process:
        assert first_line(process) == "bootstrap.servers=kafka.example:29092,kafka.example:29093\n"
        control = klamm.ControlClient(first_line(process).strip().removeprefix("control="))
        control.add_broker()
        assert [(broker.host, broker.port) for broker in control.brokers()] == [
            ("kafka.example", port) for port in (29092, 29093, 29094)
        ]


def test_no_broker_is_advertised_on_a_port_that_is_none() -> None:
    assert refused("serve", *FREE, "--brokers", "3", "--advertise", "kafka:65534") == (
        2,
        "",
        "klamm serve: 3 brokers advertised from kafka:65534 on need ports beyond 65535\n",
    )
    with serving(*FREE, "--brokers", "1", "--advertise", "kafka:65535", "--control", "127.0.0.1:0") as process:
        first_line(process)
        control = klamm.ControlClient(first_line(process).strip().removeprefix("control="))
        with pytest.raises(klamm.ControlRefused, match="broker 2 would be advertised on a port beyond 65535"):
            control.add_broker()
        assert len(control.brokers()) == 1
