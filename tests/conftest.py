"""What all tests share: how long property tests look. Fixtures live beside the tests that use them.

KLAMM_HYPOTHESIS_PROFILE=quick (the default) tries the same few examples on every machine; `exhaustive` tries many
new ones, for nights and for whoever changed the wire format. What hypothesis remembers lies in .cache/hypothesis.
"""

import os
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir

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
