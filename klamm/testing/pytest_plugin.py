"""The pytest plugin: `klamm_cluster` and `klamm_session_cluster`, a server for each test or for all (docs/testing.md).

Every suite beside which Klamm is installed loads this module: it imports pytest, and the rest of Klamm only when a
test is marked or asks for a cluster. A cluster is a process, so that suites may be synchronous or have any event loop.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from klamm.cluster.server_process import ServerProcess
    from klamm.cluster.words import Words

MARKER = "klamm"
TEST_CLUSTER, SESSION_CLUSTER = "klamm_cluster", "klamm_session_cluster"
_INI = {  # by the name of the marker's option: its type to pytest, its words on --help
    "brokers": ("string", "how many brokers klamm clusters have (3)"),
    "racks": ("string", "racks that their brokers take in turn, such as a,b,c (none)"),
    "seed": ("string", "the same seed and requests give the same answers (random)"),
    "profile": ("string", "whose word counts where the KIPs and Apache Kafka differ: kip or kafka (kip)"),
    "configs": ("linelist", "broker configs, KEY=VALUE, one per line"),
    "broker_configs": ("linelist", "configs of single brokers, ID:KEY=VALUE, one per line"),
    "config": ("string", "a server.properties (none)"),
    "listen": ("string", "HOST:PORT of the first broker (free ports of 127.0.0.1)"),
    "listeners": ("linelist", "listeners of the first broker, NAME://HOST:PORT, one per line"),
    "advertise": ("string", "HOST[:PORT] that clients are told to connect to"),
    "controller_listener": ("string", "HOST:PORT of the controller's own listener (none)"),
    "kip_578_versions": ("bool", "serve the versions that KIP-578 raises (false)"),
    "replication_rate": ("string", "messages that each follower fetches in a second, of each partition"),
    "data_bytes_per_partition": ("string", "bytes of record batches that are kept of each partition"),
    "data_bytes": ("string", "bytes of record batches that are kept of all partitions"),
    "cluster_id": ("string", "the id of new clusters (made up)"),
    "data_dir": ("string", "a folder for the metadata log (memory)"),
    "snapshot_records": ("string", "after how many records the metadata log gets a snapshot"),
    "request_log": ("string", "a file that gets a JSON line for each request (none)"),
    "start_ms": ("string", "the time at the start, in ms since 1970 (now)"),
    "arguments": ("args", "what else follows `klamm serve`"),
}
_RUNNING = pytest.StashKey["list[tuple[str, ServerProcess]]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Ini options are the defaults of both fixtures."""
    for name, (kind, text) in _INI.items():
        default: object = {"string": "", "bool": False}.get(kind, [])
        parser.addini(f"klamm_{name}", text, kind, default=default)  # type: ignore[arg-type]


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(brokers=3, racks=(), listeners=(), configs=..., arguments=(), …): as klamm.Cluster has them, "
        f"how the {TEST_CLUSTER} of the test is started; the closest marker counts most",
    )
    config.stash[_RUNNING] = []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuses wrong markers before anything is started, also where the test asks for no cluster."""
    if item.get_closest_marker(MARKER) is None:
        return
    _marked(item)
    used: list[str] = getattr(item, "fixturenames", [])
    if SESSION_CLUSTER in used and TEST_CLUSTER not in used:
        reason = f"{SESSION_CLUSTER} is one for all tests, and its options are in the ini file"
        pytest.fail(f"@pytest.mark.{MARKER}: {reason}; {TEST_CLUSTER} has those of the marker", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failing test is shown with what the clusters that run wrote to stderr."""
    report = yield
    if report.failed:
        for name, server in item.config.stash[_RUNNING]:
            text = server.stderr_text()
            if text:
                report.sections.append((f"Captured {name} stderr", text))
    return report


@pytest.fixture
def klamm_cluster(request: pytest.FixtureRequest) -> "Iterator[ServerProcess]":
    """A cluster for this test alone: a klamm.ServerProcess with control=True; @pytest.mark.klamm(…) has its options."""
    yield from _serve(request.config, TEST_CLUSTER, _ini(request.config) | _marked(request.node))


@pytest.fixture(scope="session")
def klamm_session_cluster(request: pytest.FixtureRequest) -> "Iterator[ServerProcess]":
    """A cluster for all tests of the session (of each worker, with pytest-xdist): a klamm.ServerProcess, too."""
    yield from _serve(request.config, SESSION_CLUSTER, _ini(request.config))


def _ini(config: pytest.Config) -> "Words":
    from klamm.testing.marker_options import words_from_ini

    return words_from_ini({name: config.getini(f"klamm_{name}") for name in _INI})


def _marked(item: Any) -> "Words":
    """What the test's markers ask for, the closest last."""
    from klamm.testing.marker_options import words_from_marker

    words: Words = {}
    for marker in reversed(list(item.iter_markers(MARKER))):
        try:
            words |= words_from_marker(marker.args, marker.kwargs)
        except ValueError as refused:
            raise pytest.fail.Exception(f"@pytest.mark.{MARKER}: {refused}", pytrace=False) from None
    return words


def _serve(config: pytest.Config, name: str, words: "Words") -> "Iterator[ServerProcess]":
    from klamm.cluster.server_process import ServerFailed, ServerProcess

    running = config.stash[_RUNNING]
    try:
        with ServerProcess(*(word for some in words.values() for word in some), control=True) as server:
            running.append((name, server))
            try:
                yield server
            finally:
                running.remove((name, server))
    except (ServerFailed, OSError) as failure:
        # Mostly the server has said in one line why: that is what the summary shows.
        reason, _, told = str(failure).partition("\n")
        text = f"{reason}: {told}" if told and "\n" not in told else str(failure)
        raise pytest.fail.Exception(f"{name}: {text}", pytrace=False) from None
