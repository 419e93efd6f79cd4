"""The handlers of groups are imported when they are needed, and only then."""

import subprocess
import sys

from klamm.broker.dispatch import APIS, GROUP_APIS
from klamm.broker.dispatch_of_groups import HANDLERS as OF_GROUPS
from tests.klamm.serve.processes import environment

OF_OTHERS_TOO = ("klamm.broker.groups.regex", "klamm.broker.groups.limits")


def test_each_group_api_that_is_offered_has_a_handler_and_the_other_way_round() -> None:
    assert set(GROUP_APIS) == set(OF_GROUPS)
    assert len(APIS) == len(set(APIS))


def test_a_cluster_without_groups_imports_no_module_of_groups() -> None:
    program = "import sys, klamm.serve.command, klamm.cluster.assembly; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), check=True
    )
    of_groups = [
        name
        for name in ended.stdout.split()
        if name.startswith(("klamm.broker.groups.", "klamm.broker.handlers.groups."))
    ]
    assert [name for name in of_groups if not name.startswith(OF_OTHERS_TOO)] == []
