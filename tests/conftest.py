"""What all tests share: how long property tests look, and which stay together. Fixtures live beside their tests.

KLAMM_HYPOTHESIS_PROFILE=quick (the default) tries the same few examples on every machine; `exhaustive` tries many
new ones, for nights and for whoever changed the wire format. What hypothesis remembers lies in .cache/hypothesis.

`scripts/test` runs two processes (pytest-xdist). The tests of a module stay in one of them, so that what they share is
made once; all that use Spark count as one module.
"""

import os
import signal
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

if "HYPOTHESIS_STORAGE_DIRECTORY" not in os.environ:
    set_hypothesis_home_dir(Path(__file__).parents[1] / ".cache" / "hypothesis")

# Times vary by machine, and a slow example is no wrong one.
settings.register_profile("quick", max_examples=50, derandomize=True, deadline=None)
settings.register_profile(
    "exhaustive",
    max_examples=2000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("KLAMM_HYPOTHESIS_PROFILE", "quick"))

# A shell that starts something in the background lets it ignore Ctrl-C, and with it all processes that tests interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SPARK: Final = ("tests/pipeline/test_", "tests/pipeline/whatif/test_run.py", "tests/klamm/analysis/test_command.py")
"""Whose modules share one Spark session, or start their own: two at once are more than a small machine has room for."""
SLOW: Final = (
    *SPARK,
    "tests/scripts/attack/test_attack.py",
    "tests/scripts/hard_knocks/test_crash.py",
    "tests/scripts/fuzzing/test_fuzz.py",
    "tests/scripts/mutation/test_mutate.py",
    "tests/scripts/test_picture.py",
    "tests/scripts/soak_run/test_soak.py",
)
"""What takes minutes and breaks rarely: Spark, and tools that run Klamm for long. `scripts/test` leaves it out and
`scripts/test --slow` runs it alone; CI runs both."""
NOT_SLOW: Final = ("tests/pipeline/test_story.py",)
"""The one test from end to end that has Spark in it and belongs to every run."""
LONG_FIRST: Final = (SPARK, "tests/klamm/", "tests/simulation/", "tests/clients/", "tests/scripts/")
"""What takes minutes, the longest first: begun at the end, it would leave the other process without work."""


class ByModule(LoadScopeScheduling):
    """Gives a process of pytest-xdist a whole module at a time, and as one module all that need Spark."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(SPARK) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    config.option.loadscopereorder = False  # the order is ours
    return ByModule(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(SLOW) and not item.nodeid.startswith(NOT_SLOW):
            item.add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):  # one of the processes of pytest-xdist
        items.sort(key=lambda item: [not item.nodeid.startswith(folder) for folder in LONG_FIRST])
