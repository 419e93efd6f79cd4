"""Runs applications of frameworks on Klamm: Spring Kafka's listener containers, and a worker of Faust.

Their programs are in tools/conformance. Brokers are shut down, started and killed meanwhile, and the counts must be
exact. What they need is downloaded into the cache once.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from klamm.cluster.server_process import ServerProcess
from tools.toolchain_checks.client_stories import BUILD_SECONDS, PROGRAMS, STORY_SECONDS, compile_java
from tools.toolchain_checks.fetching import fetched
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.kafka_jars import fetch_class_path, kept_folder
from tools.toolchain_checks.program import ended_group, run_program
from tools.toolchain_checks.report import Report, expect

_CUSTOMERS: Final = 10
_ORDERS: Final = 50
"""Of each customer, for each of the two workers of Faust."""
_BROKERS: Final = (1, 2, 3)


def check_frameworks(report: Report, java: Java | None, folder: Path) -> None:
    """Spring Kafka needs Java, Faust does not."""
    folder.mkdir()
    if java is not None:
        with report.check("Spring Kafka's containers retry and copy orders while brokers restart and one crashes"):
            _listen(replace(java, class_path=fetch_class_path(PROGRAMS / "spring" / "pom.xml", "spring")), folder)
    with report.check("Faust's tables are read from their changelogs after a restart of worker and brokers"):
        _sum_up()


def _listen(java: Java, folder: Path) -> None:
    sources = [PROGRAMS / "spring" / "ListenerContainers.java", PROGRAMS / "java" / "Brokers.java"]
    classes = folder / "spring"
    classes.mkdir()
    compile_java(java, sources, classes, lint="all,-processing,-classfile")
    with _cluster() as server:
        ours = replace(java, class_path=os.pathsep.join((str(classes), java.class_path)))
        arguments = (server.bootstrap_servers, server.control_url)
        ours.run("ListenerContainers", "ListenerContainers", arguments, STORY_SECONDS)


def _sum_up() -> None:
    python = _faust_environment() / "bin" / "python"
    with _cluster() as server:
        for worker in (1, 2):
            _order(server, range((worker - 1) * _ORDERS, worker * _ORDERS))
            found = _sums_of_worker(python, server, worker * _ORDERS - 1)
            sums = {str(customer): sum(range(worker * _ORDERS)) for customer in range(_CUSTOMERS)}
            expect(found == sums, f"the sums of worker {worker}: {found}, not {sums}")
            for broker in _BROKERS:
                server.control.stop_broker(broker)
                server.control.start_broker(broker)


def _order(server: ServerProcess, amounts: range) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap_servers})
    for amount in amounts:
        for customer in range(_CUSTOMERS):
            producer.produce("orders", key=str(customer), value=str(amount))
    expect(producer.flush(STORY_SECONDS) == 0, "not all orders are written")


def _sums_of_worker(python: Path, server: ServerProcess, last: int) -> object:
    """The line that the worker prints; it is ended then."""
    command = [str(python), str(PROGRAMS / "faust" / "sums.py"), server.bootstrap_servers, str(last)]
    with ended_group(subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)) as process:
        assert process.stdout is not None
        lines = (line.strip() for line in process.stdout)
        line = next((line for line in lines if line.startswith(b"{")), b"null")
        process.send_signal(signal.SIGTERM)
        process.wait(STORY_SECONDS)
    return json.loads(line)


def _faust_environment() -> Path:
    requirements = PROGRAMS / "faust" / "requirements.txt"

    def install(folder: Path) -> None:
        run_program([sys.executable, "-m", "venv", str(folder)], BUILD_SECONDS)
        # The folder is renamed, so its own programs do not run; `python` does.
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input"]
        command = [*pip, "install", "--quiet", "--require-hashes", "-r", str(requirements)]
        fetched(lambda: run_program(command, BUILD_SECONDS))

    return kept_folder(f"faust-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]}", install)


@contextmanager
def _cluster() -> Iterator[ServerProcess]:
    """Three brokers; a dead one is noticed soon, and topics have a replica on each."""
    configs = {
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        "group.initial.rebalance.delay.ms": 0,
        "num.partitions": 3,
        "default.replication.factor": 3,
    }
    with ServerProcess(brokers=3, configs=configs, control=True) as server:
        yield server
