"""The fixtures of aiokafka's tests for a cluster that runs already, in place of those of its conftest.py.

aiokafka's own fixtures start a container of Docker with a broker for each test session. This plugin of pytest takes the
cluster of `KLAMM_SUITES_SERVERS` (HOST:PORT,…). It runs in the Python of aiokafka, so it imports nothing of Klamm.
Kerberos, SASL and TLS belong to that container: tests of them are skipped or not selected.
"""

import asyncio
import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of aiokafka's conftest.py: some tests ask for its value."""
    parser.addoption("--docker-image", default="none:4.3.0")


@pytest.fixture
def ssl_folder() -> Path:
    """Certificates, which the container would make."""
    pytest.skip("the certificates come from aiokafka's container")


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """The event loop of the tests of a class."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    if not loop.is_closed():
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="class")
def setup_test_class_serverless(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
    """What classes without a broker need."""
    request.cls.loop = loop


@pytest.fixture(scope="class")
def setup_test_class(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
    """What classes with a broker need: its address and its version."""
    servers = os.environ["KLAMM_SUITES_SERVERS"].split(",")
    host, _, port = servers[0].rpartition(":")
    found: dict[str, Any] = {
        "loop": loop,
        "kafka_host": host,
        "kafka_port": int(port),
        "kafka_ssl_port": None,
        "hosts": [servers[0]],
        "kafka_version": "4.3.0",
    }
    for name, value in found.items():
        setattr(request.cls, name, value)
