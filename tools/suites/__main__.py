"""Runs the test suite of another project's client library against a Klamm of its own; docs/suites.md has the results.

    scripts/suites aiokafka|kafka-python|kfake|kgo|librdkafka SOURCES [--limit SECONDS] [--servers HOST:PORT,…]
                   [-- ARGUMENT OF THE SUITE...]

With `--servers` it runs against these brokers, such as those of an Apache Kafka, and starts no Klamm.

The output and the exit code are the suite's; 124 if the time limit is over, 2 if the suite could not be started.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import klamm

LIMIT_SECONDS = 480.0
TIMED_OUT = 124
NOT_STARTED = 2
_AUTHORIZER = ("--set", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer")
AUTHORIZER = (*_AUTHORIZER, "--set", "super.users=User:ANONYMOUS")
OPEN_AUTHORIZER = (*_AUTHORIZER, "--set", "allow.everyone.if.no.acl.found=true")
"""With this one the ACLs that the tests make apply to their own clients."""


@dataclass(frozen=True)
class Run:
    """One start of a suite: its command, the directory that it needs, and its environment variables."""

    command: tuple[str, ...]
    directory: Path
    variables: dict[str, str]


@dataclass(frozen=True)
class Suite:
    """What a suite expects of its cluster, and how it is pointed at one."""

    server_options: tuple[str, ...] | None
    """The options of its Klamm; None: it starts one for each of its tests."""
    start: Callable[[Path, str], Run]
    """From the sources and the bootstrap servers."""


def _kafka_python(sources: Path, servers: str) -> Run:
    python = os.environ.get("KLAMM_SUITES_PYTHON", sys.executable)
    variables = {
        "KAFKA_URI": "kafka://" + servers.split(",", maxsplit=1)[0],
        "KAFKA_VERSION": "4.3",
        "KAFKA_ROOT": str(sources),  # The fixtures check only that this directory exists.
    }
    return Run((python, "-m", "pytest", "-q", "-rA", "--tb=short", "test/integration"), sources, variables)


def _aiokafka(sources: Path, servers: str) -> Run:
    python = os.environ.get("KLAMM_SUITES_PYTHON", sys.executable)
    variables = {
        "KLAMM_SUITES_SERVERS": servers,
        "AIOKAFKA_NO_EXTENSIONS": "1",  # a checkout has none, unless they are built
        "PYTHONPATH": str(Path(__file__).resolve().parent),
    }
    plugins = ("--noconftest", "-p", "aiokafka_fixtures")
    without = ("--ignore=tests/test_sasl.py", "--ignore=tests/record", "--ignore=tests/coordinator", "-k", "not ssl")
    return Run((python, "-m", "pytest", "-q", "-rA", "--tb=short", *plugins, *without, "tests"), sources, variables)


def _kfake(sources: Path, servers: str) -> Run:
    root = Path(__file__).resolve().parent.parent.parent
    variables = {"KLAMM_SUITES_COMMAND": str(root / "scripts" / "klamm"), "KLAMM_SUITES_SERVERS": servers}
    return Run((sys.executable, "-m", "tools.suites.kfake_tests", str(sources)), root, variables)


def _kgo(sources: Path, servers: str) -> Run:
    variables = {"KGO_SEEDS": servers, "KGO_TEST_RECORDS": "5000"}
    return Run(("go", "test", "-count=1", "-v", "./pkg/kgo"), sources, variables)


def _librdkafka(sources: Path, servers: str) -> Run:
    libraries = os.pathsep.join(str(sources / name) for name in ("src", "src-cpp"))
    # The tests read it again and again, so that each run needs its own.
    configuration = sources / "tests" / f"test-klamm-{servers.rpartition(':')[2]}.conf"
    configuration.write_text(f"metadata.broker.list={servers}\ntest.topic.random=true\n", encoding="utf-8")
    variables = {
        "RDKAFKA_TEST_CONF": str(configuration),
        "LD_LIBRARY_PATH": libraries,
        "TEST_KAFKA_VERSION": "4.2.0",
        "BROKERS": servers,  # for Kafka's scripts, which some tests call in KAFKA_PATH
        "CI": "true",
    }
    return Run(("./test-runner", "-p1"), sources / "tests", variables)


SUITES = {
    "aiokafka": Suite(
        ("--broker-ids", "0", "--set", "num.partitions=2", "--set", "group.initial.rebalance.delay.ms=0"), _aiokafka
    ),
    "kafka-python": Suite(
        (
            *("--broker-ids", "0", "--set", "num.partitions=4", "--set", "group.initial.rebalance.delay.ms=0"),
            *("--set", "group.min.session.timeout.ms=1000"),
            *AUTHORIZER,
        ),
        _kafka_python,
    ),
    "kfake": Suite(None, _kfake),
    "kgo": Suite(("--brokers", "3", "--set", "group.initial.rebalance.delay.ms=0"), _kgo),
    # Test 0102 needs the default of the initial rebalance delay: both members must join before the first assignment.
    "librdkafka": Suite(
        (
            *("--brokers", "3", "--racks", "r1,r2,r3", "--set", "num.partitions=4"),
            *("--set", "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"),
            # As in librdkafka's own test clusters: tests of share groups set locks of 3 s.
            *("--set", "group.share.min.record.lock.duration.ms=1000"),
            *OPEN_AUTHORIZER,
        ),
        _librdkafka,
    ),
}


def main() -> int:
    given = sys.argv[1:]
    end = given.index("--") if "--" in given else len(given)
    options = _parser().parse_args(given[:end])
    suite = SUITES[options.suite]
    if options.servers is not None or suite.server_options is None:
        return _run(suite.start(options.sources.resolve(), options.servers or ""), given[end + 1 :], options.limit)
    with klamm.ServerProcess("--profile", "kafka", *suite.server_options) as server:
        return _run(suite.start(options.sources.resolve(), server.bootstrap_servers), given[end + 1 :], options.limit)


def _run(run: Run, more: Sequence[str], limit_seconds: float) -> int:
    """Run a suite with `more` arguments; returns its exit code."""
    try:
        return subprocess.run(
            (*run.command, *more),
            cwd=run.directory,
            env={**os.environ, **run.variables},
            timeout=limit_seconds,
            check=False,
        ).returncode
    except subprocess.TimeoutExpired:
        sys.stderr.write(f"suites: the suite was ended after {limit_seconds:g} seconds\n")
        return TIMED_OUT
    except OSError as error:
        sys.stderr.write(f"suites: the suite could not be started: {error}\n")
        return NOT_STARTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="suites",
        description="Runs another project's test suite against Klamm, or against another cluster.",
        epilog="Arguments after -- are the suite's.",
    )
    parser.add_argument("suite", choices=sorted(SUITES))
    parser.add_argument("sources", type=Path, help="a checkout of the project")
    parser.add_argument("--servers", metavar="HOST:PORT,…", help="a cluster that runs already, instead of Klamm")
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS, metavar="SECONDS")
    return parser


if __name__ == "__main__":
    sys.exit(main())
