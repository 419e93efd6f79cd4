"""Settings of all tests: the examples of property tests, the slow tests, and the distribution over processes.

KLAMM_HYPOTHESIS_PROFILE=quick (the default) tries the same few examples on every machine; `exhaustive` tries many
new ones, for nights and after changes of the wire format. Hypothesis stores its examples in .cache/hypothesis.

`scripts/test` runs four processes (pytest-xdist). The tests of a module run in the same process, so that the module's
fixtures are made once; all tests that share a Spark session count as one module.
"""

import gc
import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# The width of the terminal in which the tests run must not count: Python's readline exports it to all children.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)

if "HYPOTHESIS_STORAGE_DIRECTORY" not in os.environ:
    set_hypothesis_home_dir(Path(__file__).parents[1] / ".cache" / "hypothesis")

# Times vary by machine, so there is no deadline for an example.
settings.register_profile("quick", max_examples=50, derandomize=True, deadline=None)
settings.register_profile(
    "exhaustive",
    max_examples=2000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("KLAMM_HYPOTHESIS_PROFILE", "quick"))

# A shell starts background jobs with Ctrl-C ignored, and so are all processes that tests start and interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SPARK: Final = ("tests/pipeline/test_", "tests/pipeline/whatif/test_run.py")
"""Modules that share one Spark session."""
STARTS_SPARK: Final = "tests/klamm/analysis/test_command.py"
"""A module whose commands each start a Spark of their own, in another process than the session of `SPARK`: no more than
these two run at once, because a small machine has no memory for more."""
SLOW: Final = (
    *SPARK,
    STARTS_SPARK,
    "tests/scripts/attack/test_attack.py",
    "tests/scripts/hard_knocks/test_crash.py",
    "tests/scripts/fuzzing/test_fuzz.py",
    "tests/scripts/mutation/test_mutate.py",
    "tests/scripts/test_picture.py",
    "tests/scripts/soak_run/test_soak.py",
    "tests/scripts/power_loss/test_power.py::test_holes_and_torn_tails",
    "tests/scripts/power_loss/test_power.py::test_without_a_recovery_point",
    "tests/bench/test_hostile.py",
    "tests/bench/test_long_work.py",
    "tests/bench/test_reassign.py",
    "tests/bench/test_scale.py",
)
"""Tests that take long and break rarely: Spark, tools that run Klamm for minutes, benchmarks that start servers.
`scripts/test` leaves them out, `scripts/test --slow` runs them alone, and CI runs both."""
NOT_SLOW: Final = ("tests/pipeline/test_story.py",)
"""The end-to-end test with Spark that belongs to every run."""
LONG_FIRST: Final = (
    SPARK,
    STARTS_SPARK,
    "tests/simulation/",
    "tests/scripts/mutation/",
    "tests/scripts/power_loss/",
    "tests/clients/",
    "tests/klamm/",
    "tests/scripts/",
)
"""Folders that take long, the longest first: at the end of a run they would leave the other processes without work."""


class ByModule(LoadScopeScheduling):
    """Gives a process of pytest-xdist a whole module at a time, and as one module all that share a Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(SPARK) else nodeid.partition("::")[0]


def is_slow(nodeid: str) -> bool:
    return nodeid.startswith(SLOW) and not nodeid.startswith(NOT_SLOW)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files that have none of the wanted tests are not imported: Spark and what draws take seconds."""
    if collection_path.suffix != ".py":
        return None
    file = collection_path.relative_to(config.rootpath).as_posix()
    if config.option.markexpr == "not slow":
        return True if is_slow(file) else None
    if config.option.markexpr == "slow":
        has_some = is_slow(file) or any(one.startswith(f"{file}::") for one in SLOW)
        return None if has_some else True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The garbage collector does not look at what is collected: hundreds of thousands of objects that stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    config.option.loadscopereorder = False  # keeps the order of `pytest_collection_modifyitems`
    return ByModule(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):  # one of the processes of pytest-xdist
        items.sort(key=lambda item: [not item.nodeid.startswith(folder) for folder in LONG_FIRST])
