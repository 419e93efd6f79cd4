"""The tests of each module. A fault counts as detected if one of the tests of its module fails."""

from collections.abc import Iterable
from typing import Final

_CONTROLLER: Final = ("tests/controller/*.py", "tests/controller/handlers")
_GROUPS: Final = ("tests/broker/groups", "tests/broker/coordinator")
_TRANSACTIONS: Final = ("tests/broker/transactions", "tests/broker/coordinator")
_LOG_DIRS: Final = ("tests/broker/log_dirs", "tests/klamm/control/test_*log_dirs.py")
HOMES: Final[dict[str, tuple[str, ...]]] = {
    "assignment": ("tests/assignment",),
    "broker": ("tests/broker/*.py", "tests/broker/handlers", "tests/controller/handlers"),
    "broker/data": ("tests/broker/data", "tests/broker/handlers"),
    "broker/coordinator": _GROUPS,
    "broker/groups": _GROUPS,
    "broker/handlers/alter_replica_log_dirs.py": _LOG_DIRS,
    "broker/handlers/describe_log_dirs.py": _LOG_DIRS,
    "broker/log_dirs": _LOG_DIRS,
    "broker/simulated_broker.py": (*_LOG_DIRS, "tests/broker/*.py", "tests/controller/handlers"),
    "broker/groups/share": ("tests/broker/share",),
    "broker/handlers/share": ("tests/broker/share",),
    "broker/share_partitions": ("tests/broker/share",),
    "broker/share_state": ("tests/broker/share",),
    "broker/handlers/groups": _GROUPS,
    "broker/handlers/groups/streams_groups.py": ("tests/broker/handlers/test_streams_groups.py",),
    "broker/handlers/transactions": _TRANSACTIONS,
    "broker/kept_partitions.py": ("tests/broker/test_kept_partitions.py", "tests/broker/coordinator"),
    "broker/transactions": _TRANSACTIONS,
    "controller": _CONTROLLER,
    "controller/core.py": (*_CONTROLLER, "tests/controller/log"),
    "controller/leader_epochs.py": (
        "tests/controller/test_leader_epochs.py",
        "tests/broker/data",
        "tests/controller/log",
    ),
    "controller/log": ("tests/controller/log",),
    "controller/quotas": ("tests/controller/quotas",),
    "server": ("tests/server",),
    "server/sasl": ("tests/server/sasl",),
    "server/tls": ("tests/server/tls",),
    "server/tls/store_configs.py": (
        "tests/server/tls",
        "tests/klamm/cluster/test_listener_security.py",
        "tests/klamm/test_bad_security.py",
    ),
    "server/large_request.py": ("tests/server/test_*large_request*.py",),
    "pipeline": ("tests/pipeline",),
    "protocol": ("tests/protocol",),
    "protocol/codec/sizes.py": ("tests/protocol/test_sizes.py",),
}
"""By folder or module: the files and folders of tests, as glob patterns. The longest match counts. The core starts from
snapshots, and the metadata log uses the leader epochs of partitions."""


def home_of(file: str) -> tuple[str, ...]:
    """The patterns for one module. Raises LookupError if it belongs to no room."""
    holding = [room for room in HOMES if file == room or file.startswith(f"{room}/")]
    if not holding:
        raise LookupError(f"no tests are known for {file}")
    return HOMES[max(holding, key=len)]


def homes_of(files: Iterable[str]) -> dict[tuple[str, ...], list[str]]:
    """The modules by the patterns of their tests."""
    homes: dict[tuple[str, ...], list[str]] = {}
    for file in files:
        homes.setdefault(home_of(file), []).append(file)
    return homes
