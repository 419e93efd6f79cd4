"""What a test pays for its cluster: forks of a warm process, whole test suites, and what a cold start is made of."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.processes import ROOT
from bench.rows import Row, median
from bench.workbench import Workbench
from klamm import ServerProcess

GROUP = "warm start"
CLUSTERS = 40
SUITES = 5
SPAWNS = 15
TESTS = 10
SUITE_SECONDS = 120
FORK_MARK_MS = 30
SUITE_MARK_SECONDS = 1.0
IMPORTS_MARK = 1.3
MICROSECONDS_PER_MS = 1000
IMPORTS = "import numpy, trio, construct, structlog"
SUITE = """\
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

@pytest.mark.parametrize("number", range({tests}))
def test_topic(klamm_cluster, number):
    admin = AdminClient({{"bootstrap.servers": klamm_cluster.bootstrap_servers}})
    admin.create_topics([NewTopic("orders", num_partitions=1)])["orders"].result()
"""


def measure_warm_start(bench: Workbench) -> list[Row]:
    """Forks beside kfake in process, ten tests beside one, a cold start beside its imports."""
    return [_forks(bench), _suites(bench), _imports(bench)]


def fork_milliseconds(count: int) -> list[float]:
    """The time of each cluster after the first, as the fixture starts it: with the control interface."""
    times = []
    for number in range(count + 1):
        started = time.perf_counter()
        with ServerProcess(control=True, warm=True) as server:
            elapsed = time.perf_counter() - started
            assert server.bootstrap_servers
        if number:
            times.append(elapsed * 1000)
    return times


def suite_seconds(tests: int, suite: str = SUITE) -> float:
    """The time of a pytest with so many tests that each create one topic on a cluster of their own."""
    with tempfile.TemporaryDirectory(prefix="klamm-bench-suite-") as folder:
        (Path(folder) / "test_topics.py").write_text(suite.format(tests=tests))
        (Path(folder) / "pytest.ini").write_text(
            "[pytest]\naddopts = -p klamm.testing.pytest_plugin -p no:cacheprovider\n"
        )
        started = time.perf_counter()
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "pytest", "-q"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=SUITE_SECONDS,
            check=False,
        )
        elapsed = time.perf_counter() - started
    if f"{tests} passed" not in ended.stdout:
        raise OSError(f"the suite of {tests} tests failed: {ended.stdout[-500:]}")
    return elapsed


def _forks(bench: Workbench) -> Row:
    count = bench.samples(CLUSTERS)
    ours = fork_milliseconds(count)
    peer = []
    if not bench.other_tree:
        command = [str(bench.kfake_program), "-in-process", str(count)]
        written = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        peer = [int(line) / MICROSECONDS_PER_MS for line in written.split()]
    return Row(
        group=GROUP,
        what="start of a further klamm_cluster with three brokers",
        unit="ms",
        klamm=median(ours),
        peer="kfake in process" if peer else None,
        theirs=median(peer) if peer else None,
        samples=len(ours),
        peer_samples=len(peer),
        mark=f"<= {FORK_MARK_MS} ms",
        reached=median(ours) <= FORK_MARK_MS,
        details={"klamm_min": min(ours), "klamm_max": max(ours)},
    )


def _suites(bench: Workbench) -> Row:
    pairs = [(suite_seconds(1), suite_seconds(TESTS)) for _ in range(bench.samples(SUITES, fewest=1))]
    more = median([many - one for one, many in pairs])
    return Row(
        group=GROUP,
        what=f"{TESTS} tests with a cluster and a topic each, additional time compared with one test",
        unit="s",
        klamm=more,
        samples=len(pairs),
        mark=f"< {SUITE_MARK_SECONDS:g} s",
        reached=more < SUITE_MARK_SECONDS,
        details={"one_test": median([one for one, _ in pairs]), "all_tests": median([many for _, many in pairs])},
    )


def _imports(bench: Workbench) -> Row:
    """A cold start and an interpreter with the imports take turns; NumPy starts no threads in both."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": str(bench.bytecode_dir)}
    ready, imported = [], []
    for _ in range(bench.samples(SPAWNS)):
        with bench.klamm() as server:
            ready.append(server.seconds_to_ready)
        started = time.perf_counter()
        subprocess.run([sys.executable, "-P", "-c", IMPORTS], env=environment, check=True)
        imported.append(time.perf_counter() - started)
    ratio = median(ready) / median(imported)
    return Row(
        group=GROUP,
        what="klamm serve alone: process spawn to ready line",
        unit="s",
        klamm=median(ready),
        peer="the imports",
        theirs=median(imported),
        samples=len(ready),
        mark=f"<= {IMPORTS_MARK} × the imports",
        reached=ratio <= IMPORTS_MARK,
    )
