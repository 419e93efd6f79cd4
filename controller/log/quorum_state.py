"""The epoch, kept a second time: `quorum-state` beside the log, in the JSON that Apache Kafka writes there.

The log has the epochs that were used. But a log can lose its tail, and with it an epoch that brokers have seen; brokers
would ignore a controller with an older epoch without an error. So a new epoch is written to this file before its first
batch, and an epoch is never used twice. Version 0 of the file is that of kraft.version 0, version 1 that of 1; Kafka
and Klamm read both.
"""

import json
from pathlib import Path
from typing import Final

from klamm.controller.log.data_dir import load_small_file, replace_file
from klamm.controller.log.errors import LogError
from klamm.controller.metadata_log import CONTROLLER_ID
from klamm.protocol.uuid import ZERO_UUID

QUORUM_STATE: Final = "quorum-state"
_STATIC, _DYNAMIC = 0, 1  # versions of the file
_MAX_EPOCH: Final = 2**31 - 1


def next_epoch(log_folder: Path, log_epoch: int) -> int:
    """An epoch higher than all used ones. Raises LogError if the log and quorum-state contradict each other."""
    path = log_folder / QUORUM_STATE
    kept = _load_epoch(path)
    if kept is not None and kept < log_epoch:
        raise LogError(
            f"the log in {log_folder} has epoch {log_epoch}, which {path} does not know: it ends with {kept}"
        )
    epoch = max(log_epoch, kept or 0) + 1
    if epoch > _MAX_EPOCH:
        raise LogError(f"{path}: no epoch is left after {_MAX_EPOCH}")
    return epoch


def kept_epoch(log_folder: Path) -> int:
    """The epoch in quorum-state, 0 if there is none. Raises LogError."""
    return _load_epoch(log_folder / QUORUM_STATE) or 0


def keep_epoch(log_folder: Path, epoch: int, *, is_dynamic: bool = False) -> None:
    """Write durably to quorum-state that the controller leads in `epoch`."""
    state: dict[str, object] = {"leaderId": CONTROLLER_ID, "leaderEpoch": epoch, "votedId": -1}
    if is_dynamic:
        state |= {"votedDirectoryId": str(ZERO_UUID), "data_version": _DYNAMIC}
    else:
        voters = [{"voterId": CONTROLLER_ID}]
        state = {"clusterId": "", **state, "appliedOffset": 0, "currentVoters": voters, "data_version": _STATIC}
    replace_file(log_folder / QUORUM_STATE, json.dumps(state, separators=(",", ":")))


def _load_epoch(path: Path) -> int | None:
    text = load_small_file(path)
    if text is None:
        return None
    try:
        state = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LogError(f"{path} is no JSON: {error}") from None
    if not isinstance(state, dict) or state.get("data_version") not in (_STATIC, _DYNAMIC):
        raise LogError(f"{path} is no quorum state of version {_STATIC} or {_DYNAMIC}")
    epoch = state.get("leaderEpoch")
    if type(epoch) is not int or not 0 <= epoch <= _MAX_EPOCH:
        raise LogError(f"{path} has no leaderEpoch between 0 and {_MAX_EPOCH}: {str(epoch)[:40]}")
    return epoch
