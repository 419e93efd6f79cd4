"""The pytest plugin: the fixtures `klamm_cluster` (one per test) and `klamm_session_cluster` (docs/testing.md).

pytest loads this module in every environment that has Klamm. It imports the rest of Klamm only when a test has the
marker or uses a fixture. A cluster is a process, so that tests can be synchronous or use any event loop.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from klamm.cluster.server_process import ServerProcess
    from klamm.cluster.words import Words

MARKER = "klamm"
TEST_CLUSTER, SESSION_CLUSTER = "klamm_cluster", "klamm_session_cluster"
_INI = {  # by the name of the marker's option: the ini option's type in pytest, and its help text
    "brokers": ("string", "number of brokers of klamm clusters (3)"),
    "broker_ids": ("string", "ids of the brokers, such as 0,1,2 (from 1 on)"),
    "racks": ("string", "racks, assigned to the brokers in turn, such as a,b,c (none)"),
    "seed": ("string", "the same seed and requests give the same answers (random)"),
    "profile": ("string", "which behaviour to follow where the KIPs and Apache Kafka differ: kip or kafka (kip)"),
    "configs": ("linelist", "broker configs, KEY=VALUE, one per line"),
    "broker_configs": ("linelist", "configs of single brokers, ID:KEY=VALUE, one per line"),
    "config": ("string", "path of a server.properties file (none)"),
    "listen": ("string", "HOST:PORT of the first broker (free ports of 127.0.0.1)"),
    "listeners": ("linelist", "listeners of the first broker, NAME://HOST:PORT, one per line"),
    "advertise": ("string", "HOST[:PORT] that clients get instead of the listen address"),
    "controller_listener": ("string", "HOST:PORT of the controller's own listener (none)"),
    "kafka_version": ("string", "release of Apache Kafka as which the brokers act, such as 2.8 (4.3)"),
    "max_version": ("string", "newest versions that are served, such as Metadata=9,Fetch=11 (all)"),
    "metadata_version": ("string", "metadata.version of new logs: a level, or a name such as 3.3-IV3 (the release's)"),
    "kip_578_versions": ("bool", "serve the API versions that KIP-578 adds (false)"),
    "real_topics": ("string", "pattern of topics that are on real brokers beside simulated ones (*)"),
    "dynamic_quorum": ("bool", "kraft.version 1: the metadata log has the voter (false)"),
    "client_telemetry": ("bool", "ask clients for their metrics, and keep them (false)"),
    "log_dirs": ("string", "number of log directories of each broker (those of the config log.dirs)"),
    "replication_rate": ("string", "messages per second that each follower fetches of each partition"),
    "data_memory_bytes": ("string", "most memory for record batches, in bytes (256 MiB)"),
    "data_file_bytes": ("string", "most bytes of record batches in files (16 GiB)"),
    "cluster_id": ("string", "the id of new clusters (generated)"),
    "data_dir": ("string", "directory of the metadata log (memory)"),
    "twin": ("string", "data directory, or file of a metadata log, that clusters begin as (none)"),
    "snapshot_records": ("string", "number of records of the metadata log between snapshots"),
    "keep_history": ("bool", "snapshots delete nothing from the metadata log (false)"),
    "request_log": ("string", "file with one JSON line for each request (none)"),
    "request_topic": ("string", "topic that has the lines of the request log as records (none)"),
    "start_ms": ("string", "the cluster's time at its start, in ms since 1970 (now)"),
    "faults": ("string", "file with fault rules that apply from the start (none)"),
    "clock": ("string", "manual: nothing expires until klamm_cluster.advance lets time pass (real)"),
    "journal_bodies": ("bool", "keep the newest requests and answers with their bodies (false)"),
    "security": ("string", "protocol of the brokers' listener: ssl, sasl_plaintext or sasl_ssl (plaintext)"),
    "users": ("linelist", "users with their passwords, NAME:PASSWORD, one per line"),
    "add_scram": ("linelist", "SCRAM credentials, MECHANISM=[name=NAME,password=PASSWORD], one per line"),
    "arguments": ("args", "further arguments of `klamm serve`"),
}
TEST_CONFIGS = (
    "group.initial.rebalance.delay.ms=0",
    "group.streams.initial.rebalance.delay.ms=0",
    "group.consumer.assignment.interval.ms=0",
    "group.share.assignment.interval.ms=0",
    "group.streams.assignment.interval.ms=0",
    "broker.session.timeout.ms=1000",
    "broker.heartbeat.interval.ms=200",
)
"""A group does not wait for further members, and a change of its members leads to an assignment at once, also if the
clock is manual. A crashed broker is fenced after a second, not nine."""
_RUNNING = pytest.StashKey["list[tuple[str, ServerProcess]]"]()
_SHOWN = pytest.StashKey["dict[str, str]"]()
"""The stderr that was shown already, by fixture."""
_SECTION = "Captured"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--klamm-log`, and the ini options, which are the defaults of both fixtures."""
    parser.getgroup("klamm").addoption("--klamm-log", action="store_true", help="print what the servers of klamm "
        "clusters write to stderr, such as warnings, also for tests that pass")  # fmt: skip
    for name, (kind, text) in _INI.items():
        default: object = {"string": "", "bool": False}.get(kind, [])
        parser.addini(f"klamm_{name}", text, kind, default=default)  # type: ignore[arg-type]


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker. Refuse an ini option whose name begins with `klamm_` if no plugin has it."""
    _refuse_unknown_ini_options(config)
    config.addinivalue_line(
        "markers",
        f"{MARKER}(brokers=3, racks=(), listeners=(), configs=..., arguments=(), …): options of klamm.Cluster for the "
        f"{TEST_CLUSTER} of the test; a closer marker overrides a farther one",
    )
    config.stash[_RUNNING] = []
    config.stash[_SHOWN] = {}


def _refuse_unknown_ini_options(config: pytest.Config) -> None:
    # pytest 9.1 and newer warn when `inicfg` is read, and have no other public name for it. An empty one is falsy.
    kept = getattr(config, "_inicfg", None)
    from_file = config.inicfg if kept is None else kept
    given = [*from_file, *(text.partition("=")[0] for text in config.getoption("override_ini") or ())]
    for name in sorted(one for one in given if one.startswith("klamm_") and one[6:] not in _INI):
        try:
            config.getini(name)  # another plugin may have it
        except ValueError:
            from klamm.protocol.near_names import did_you_mean

            near = did_you_mean(name[6:], _INI, prefix="klamm_")
            raise pytest.UsageError(f"there is no ini option {name!r}{near}") from None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail the test before its setup if a marker is invalid, even if the test uses no cluster."""
    if item.get_closest_marker(MARKER) is None:
        return
    _marked(item)
    used: list[str] = getattr(item, "fixturenames", [])
    if SESSION_CLUSTER in used and TEST_CLUSTER not in used:
        reason = f"{SESSION_CLUSTER} is shared by all tests and takes its options from the ini file"
        pytest.fail(f"@pytest.mark.{MARKER}: {reason}; use {TEST_CLUSTER} with the marker", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the stderr of the running clusters to the report of a failed test; with `--klamm-log` also to that of a test
    that passes, what was written since the test before."""
    report = yield
    if report.failed or (call.when == "call" and item.config.getoption("klamm_log")):
        shown = item.config.stash[_SHOWN]
        for name, server in item.config.stash[_RUNNING]:
            whole = server.stderr_text()
            text = whole if report.failed else whole.removeprefix(shown.get(name, ""))
            shown[name] = whole
            if text:
                report.sections.append((f"{_SECTION} {name} stderr", text))
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """With `--klamm-log`: print the sections of the tests that passed; pytest itself prints those that failed."""
    if not config.getoption("klamm_log"):
        return
    for report in terminalreporter.getreports("passed"):
        for name, text in report.sections:
            if name.startswith(f"{_SECTION} klamm_"):
                terminalreporter.section(f"{name}: {report.nodeid}", "-")
                terminalreporter.write(text)


@pytest.fixture
def klamm_cluster(request: pytest.FixtureRequest) -> "Iterator[ServerProcess]":
    """A cluster for this test alone, a klamm.ServerProcess with control=True; options: @pytest.mark.klamm(…)."""
    yield from _serve(request.config, TEST_CLUSTER, _ini(request.config) | _marked(request.node))


@pytest.fixture(scope="session")
def klamm_session_cluster(request: pytest.FixtureRequest) -> "Iterator[ServerProcess]":
    """A cluster for all tests of the session (one per worker with pytest-xdist), a klamm.ServerProcess."""
    yield from _serve(request.config, SESSION_CLUSTER, _ini(request.config))


def _ini(config: pytest.Config) -> "Words":
    from klamm.testing.marker_options import words_from_ini

    return words_from_ini({name: config.getini(f"klamm_{name}") for name in _INI})


def _marked(item: Any) -> "Words":
    """The options of the test's markers; a closer marker overrides a farther one."""
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
    from klamm.cluster.words import config_words

    running = config.stash[_RUNNING]
    if not any(name in words for name in ("config", "arguments")):
        # A properties file may have values of its own for these configs.
        for assignment in reversed(TEST_CONFIGS):
            words = config_words(assignment) | words
    try:
        with ServerProcess(*(word for some in words.values() for word in some), control=True, warm=True) as server:
            running.append((name, server))
            config.stash[_SHOWN].pop(name, None)
            try:
                yield server
            finally:
                running.remove((name, server))
    except (ServerFailed, OSError) as failure:
        # Most failures have one line of stderr: pytest's summary then shows it.
        reason, _, stderr = str(failure).partition("\n")
        text = f"{reason}: {stderr}" if stderr and "\n" not in stderr else str(failure)
        raise pytest.fail.Exception(f"{name}: {text}", pytrace=False) from None
