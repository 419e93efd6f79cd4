"""Runs the programs of docs/clients.md, in tools/conformance, with client libraries of other languages.

Each program has its own cluster, whose brokers it stops and starts by the control interface. It exits with 0 if all
answers are right, else with one line that names the wrong one. Builds and downloads are kept in the cache beside
Kafka's jars.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from klamm.cluster.server_process import ServerProcess
from tools.toolchain_checks.fetching import fetched
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.kafka_jars import cache, find_program, kept_folder
from tools.toolchain_checks.program import run_program, with_variables
from tools.toolchain_checks.report import CheckFailed, Report

STORY_SECONDS = 600.0
BUILD_SECONDS = 600.0
REPLICATION_RATE = "1000"
"""Records per second: so slow that a reassignment of the first records can be observed."""
PROGRAMS = Path(__file__).resolve().parent.parent / "conformance"
_CLAIM = "the demo's topics, a rolling restart, limits, ACLs, and records that move are what they should be to {}"
_CONFIGS = (
    "num.partitions=3",
    "default.replication.factor=2",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
    "group.share.min.heartbeat.interval.ms=100",
    "group.share.heartbeat.interval.ms=200",
)


def check_stories_in_java(report: Report, java: Java) -> None:
    """The programs of Java's clients, but for Streams. `java` has the programs of tools/conformance/java."""
    claim = _CLAIM.format("Java's clients")
    with report.check(f"{claim}, and a storm of fault rules changes none of their counts"):
        _tell_in_java(java)
    with report.check("Java's share consumers get every record though members, leaders and the coordinator crash"):
        _consume_shared(java)


def check_streams_stories(report: Report, java: Java) -> None:
    """Kafka Streams, with both protocols."""
    with report.check("Kafka Streams counts words exactly once while brokers restart and one crashes"):
        _count_words(java)
    with report.check("a streams group counts words exactly once through restarts, a crash and another topology"):
        _count_words_by_a_streams_group(java)


def check_stories_in_other_languages(report: Report) -> None:
    """The programs in Go and JavaScript."""
    with report.check(f"{_CLAIM.format('kadm (franz-go)')}, and kgo's share consumers get every record"):
        _tell_in_go()
    with report.check(_CLAIM.format("kafkajs")):
        _tell_in_node()


def with_conformance(java: Java) -> Java:
    """The same with the programs of tools/conformance/java, compiled if they are not in the cache."""
    sources = sorted((PROGRAMS / "java").glob("*.java"))
    classes = kept_folder(
        f"conformance-java-{_fingerprint(*sources, beside=java.class_path)}",
        lambda folder: compile_java(java, sources, folder),
    )
    return replace(java, class_path=os.pathsep.join((str(classes), java.class_path)))


def _tell_in_java(java: Java) -> None:
    with _cluster() as server:
        rules = {
            (name, protocol): server.add_fault(client_id=f"storm-{protocol}", **rule)
            for protocol, rules in _storms().items()
            for name, rule in rules.items()
        }
        arguments = (server.bootstrap_servers, server.control_url)
        java.run("RollingRestart", "RollingRestart", arguments, STORY_SECONDS)
        for (name, protocol), rule in rules.items():
            told = server.fault(rule)
            wanted = told.rule.get("times")
            if not told.hits or (wanted is not None and told.hits != wanted):
                raise CheckFailed(f"the rule {name} of storm-{protocol} has {told.hits} hits, not {wanted or 'some'}")


def _storms() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """The rules for Storm.java by the protocol of its group: errors, delays and closed connections. Each rule with
    `times` hits so often."""
    of_both: Mapping[str, Mapping[str, Any]] = {
        "find": {"api": "FindCoordinator", "error": "COORDINATOR_NOT_AVAILABLE", "times": 2},
        "offsets": {"api": "OffsetFetch", "error": "COORDINATOR_LOAD_IN_PROGRESS", "times": 1, "whole": True},
        "begin": {"api": "InitProducerId", "error": "COORDINATOR_LOAD_IN_PROGRESS", "times": 2},
        "commit": {"api": "TxnOffsetCommit", "error": "COORDINATOR_LOAD_IN_PROGRESS", "times": 2},
        "end": {"api": "EndTxn", "error": "CONCURRENT_TRANSACTIONS", "times": 2, "skip": 1},
        "write": {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2, "skip": 2},
        "lost-answer": {"api": "Produce", "answer": "close", "after": True, "times": 1, "skip": 5},
        "read": {"api": "Fetch", "error": "NOT_LEADER_OR_FOLLOWER", "times": 1},
        "slow": {"api": ["Produce", "EndTxn", "Fetch"], "delay_ms": {"min": 1, "max": 20}, "probability": 0.3},
    }
    joining: Mapping[str, Mapping[str, Any]] = {
        "join": {"api": "JoinGroup", "error": "NOT_COORDINATOR", "times": 1},
        "sync": {"api": "SyncGroup", "error": "NOT_COORDINATOR", "times": 1},
    }
    heartbeat = {"api": "ConsumerGroupHeartbeat", "error": "NOT_COORDINATOR", "times": 2}
    return {"classic": {**of_both, **joining}, "consumer": {**of_both, "heartbeat": heartbeat}}


def _count_words(java: Java) -> None:
    """Kafka Streams with exactly-once semantics, on a cluster without ACLs whose dead brokers are noticed soon."""
    sessions = ("--set", "broker.session.timeout.ms=3000", "--set", "broker.heartbeat.interval.ms=500")
    delay = ("--set", "group.initial.rebalance.delay.ms=0")
    with ServerProcess("--brokers", "3", *sessions, *delay, control=True) as server:
        arguments = (server.bootstrap_servers, server.control_url, str(java.folder / "streams"))
        java.run("WordCount", "WordCount", arguments, STORY_SECONDS)


def _count_words_by_a_streams_group(java: Java) -> None:
    """The same with the streams protocol, whose heartbeats are as short as those of a test should be."""
    sessions = ("broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500")
    groups = [
        f"group.streams.{config}"
        for config in (
            "min.heartbeat.interval.ms=100",
            "heartbeat.interval.ms=200",
            "min.session.timeout.ms=1000",
            "session.timeout.ms=10000",
            "initial.rebalance.delay.ms=500",
            "assignment.interval.ms=200",
        )
    ]
    sets = [part for config in (*sessions, *groups) for part in ("--set", config)]
    with ServerProcess("--brokers", "3", *sets, control=True) as server:
        arguments = (server.bootstrap_servers, server.control_url, str(java.folder / "streams-group"))
        java.run("StreamsGroup", "StreamsGroup", arguments, STORY_SECONDS)


def _consume_shared(java: Java) -> None:
    """KafkaShareConsumer, on a cluster whose locks and sessions are longer than the pauses of a busy machine."""
    configs = (
        "broker.session.timeout.ms=3000",
        "broker.heartbeat.interval.ms=500",
        "group.share.min.record.lock.duration.ms=1000",
        "group.share.record.lock.duration.ms=10000",
        "group.share.min.session.timeout.ms=1000",
        "group.share.session.timeout.ms=10000",
        "group.share.min.heartbeat.interval.ms=100",
        "group.share.heartbeat.interval.ms=200",
    )
    sets = [part for config in configs for part in ("--set", config)]
    with ServerProcess("--brokers", "3", *sets, control=True) as server:
        arguments = (server.bootstrap_servers, server.control_url)
        java.run("ShareConsumers", "ShareConsumers", arguments, STORY_SECONDS)


def _tell_in_go() -> None:
    program = cache() / "conformance-go"
    cache().mkdir(parents=True, exist_ok=True)
    # Go decides itself what has to be built again.
    go = find_program("go", "golang-go")
    fetched(lambda: run_program([go, "mod", "download"], BUILD_SECONDS, folder=PROGRAMS / "go"))
    run_program([go, "build", "-o", str(program), "."], BUILD_SECONDS, folder=PROGRAMS / "go")
    with _cluster() as server:
        run_program([str(program), server.bootstrap_servers, server.control_url], STORY_SECONDS)


def _tell_in_node() -> None:
    node = find_program("node", "nodejs")
    environment = with_variables({"NODE_PATH": str(node_packages())})
    with _cluster() as server:
        story = [node, str(PROGRAMS / "node" / "rolling_restart.js"), server.bootstrap_servers, server.control_url]
        run_program(story, STORY_SECONDS, environment=environment)


@contextmanager
def _cluster() -> Iterator[ServerProcess]:
    sets = [part for config in _CONFIGS for part in ("--set", config)]
    arguments = ("--brokers", "3", "--racks", "a,b,c", "--replication-rate", REPLICATION_RATE, "--seed", "7")
    with ServerProcess(*arguments, *sets, control=True) as server:
        yield server


def compile_java(java: Java, sources: Sequence[Path], folder: Path, lint: str = "all") -> None:
    """Compile classes that use the jars into `folder`, with these warnings of javac, which are errors."""
    compiler = [find_program("javac", "default-jdk-headless"), "-proc:none", f"-Xlint:{lint}", "-Werror"]
    compiler += ["-d", str(folder)]
    run_program([*compiler, "-cp", java.class_path, *map(str, sources)], BUILD_SECONDS)


def node_packages() -> Path:
    """The value of NODE_PATH for kafkajs; npm downloads it once."""

    def install(folder: Path) -> None:
        folder.mkdir()
        for name in ("package.json", "package-lock.json"):
            (folder / name).write_bytes((PROGRAMS / "node" / name).read_bytes())
        npm = find_program("npm", "npm")
        install = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        fetched(lambda: run_program(install, BUILD_SECONDS, folder=folder))

    return (
        kept_folder(f"conformance-node-{_fingerprint(PROGRAMS / 'node' / 'package-lock.json')}", install)
        / "node_modules"
    )


def _fingerprint(*files: Path, beside: str = "") -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files) + beside.encode()).hexdigest()[:12]
