"""The server-side assignors of KIP-848 by the names that groups know them by: pure functions."""

from collections.abc import Callable
from typing import Final

from klamm.broker.groups.assignors.range import assign_range
from klamm.broker.groups.assignors.spec import Assignment, GroupSpec, MemberSpec
from klamm.broker.groups.assignors.uniform import assign_uniform

ASSIGNORS: Final[dict[str, Callable[[GroupSpec], dict[str, Assignment]]]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}
"""In the order of `group.consumer.assignors`: the first is the default."""

__all__ = ["ASSIGNORS", "Assignment", "GroupSpec", "MemberSpec"]
