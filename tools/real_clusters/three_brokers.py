"""Starts Klamm with three brokers of Apache Kafka 4.3.0 in three racks, and stops all of them on Ctrl-C or SIGTERM.

    scripts/real-cluster [--data-dir DIR] [--port N] [--set KEY=VALUE]...

The jars are those of scripts/toolchain. A process that ends before that is named on stderr; the others continue.
"""

import argparse
import re
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.joined_brokers import BROKERS, RACKS, JoinedBrokers, joined_brokers
from tools.toolchain_checks.kafka_jars import fetch_class_path, find_program
from tools.toolchain_checks.report import CheckFailed

LOWEST_PORT, HIGHEST_PORT = 1, 65_535 - len(BROKERS)
LOOK_SECONDS = 0.5
EXIT_FAILED, EXIT_INTERRUPTED = 1, 130
_CONFIG = re.compile(r"[^=\s]+=.*")


def main(arguments: Sequence[str]) -> int:
    """Run the cluster until it is interrupted. Returns the exit code: 0 if all processes ended as they should."""
    parser = argparse.ArgumentParser(prog="scripts/real-cluster", allow_abbrev=False)
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        type=Path,
        help="where everything is kept (default: a new directory, deleted later)",
    )
    parser.add_argument(
        "--port",
        metavar="N",
        type=_port,
        help="Klamm's port; brokers listen on the next ones (default: free ports)",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        type=_config,
        action="append",
        default=[],
        help="a config of Klamm; can be repeated",
    )
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    data_dir: Path | None = given.data_dir
    try:
        with ExitStack() as stack:
            if data_dir is None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="klamm-real-cluster-")))
            else:
                folder = data_dir.absolute()
                folder.mkdir(parents=True, exist_ok=True)
            java = Java(find_program("java", "default-jre-headless"), fetch_class_path(), folder)
            _say("Klamm and three brokers start, which takes 5 to 20 seconds")
            return _run(stack.enter_context(joined_brokers(java, given.set, given.port)))
    except CheckFailed as failed:
        _say(str(failed))
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _run(cluster: JoinedBrokers) -> int:
    print(f"bootstrap.servers={cluster.bootstrap_servers}")
    print(f"controller.quorum.bootstrap.servers={cluster.controller}", flush=True)
    for broker_id, running in cluster.brokers.items():
        _say(f"broker {broker_id} in rack {RACKS[broker_id]} has process {running.process.pid}")
    _say("Ctrl-C stops all")
    try:
        _watch(cluster)
    except KeyboardInterrupt:
        _say("stopping")
    killed = cluster.stop()
    for name in killed:
        _say(f"{name} did not stop, and was killed")
    return EXIT_FAILED if killed else 0


def _watch(cluster: JoinedBrokers) -> None:
    """Name each process that ends, until all have ended."""
    assert cluster.klamm is not None
    running = {f"broker {broker_id}": broker.process for broker_id, broker in cluster.brokers.items()}
    running["klamm"] = cluster.klamm
    while running:
        time.sleep(LOOK_SECONDS)
        for name in [name for name, process in running.items() if process.poll() is not None]:
            _say(f"{name} has ended with exit code {running.pop(name).returncode}")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not LOWEST_PORT <= int(text) <= HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r}: a port from {LOWEST_PORT} to {HIGHEST_PORT} is expected")
    return int(text)


def _config(text: str) -> str:
    if not _CONFIG.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r}: KEY=VALUE is expected")
    return text


def _say(text: str) -> None:
    print(f"real-cluster: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
