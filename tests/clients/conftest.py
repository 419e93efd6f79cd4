"""One `klamm serve` for all tests with real clients: they use topics of their own, so that they need not be alone."""

import logging
import uuid
from collections.abc import Iterator

import pytest

from klamm.cluster.server_process import ServerProcess

RACKS = {1: "a", 2: "b", 3: "c"}
NUM_PARTITIONS = 3
DEFAULT_REPLICATION_FACTOR = 2


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    """Three brokers in three racks. That it ends with exit code 0 and leaves no process is asserted at its end."""
    arguments = ("--brokers", str(len(RACKS)), "--racks", ",".join(RACKS.values()), "--seed", "7")
    defaults = (
        *("--set", f"num.partitions={NUM_PARTITIONS}"),
        *("--set", f"default.replication.factor={DEFAULT_REPLICATION_FACTOR}"),
    )
    with ServerProcess(*arguments, *defaults, warm=True) as process:
        yield process


@pytest.fixture
def topic_name() -> str:
    return f"topic-{uuid.uuid4().hex}"


@pytest.fixture
def without_refusals_in_log(caplog: pytest.LogCaptureFixture) -> None:
    """What kafka-python logs of a refused connection holds its unclosed socket, and pytest holds what is logged."""
    caplog.set_level(logging.CRITICAL, "kafka")
