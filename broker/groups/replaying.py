"""What the replays of consumer, share and streams groups have in common: how a record finds its group.

Changes of a group itself are in the `replay` modules of the kinds.
"""

from collections.abc import Callable, MutableMapping
from typing import Protocol, TypeVar

from klamm.protocol.fields import Message

GroupT = TypeVar("GroupT")
NO_EPOCH = -1
"""The epoch of a target assignment that was removed."""


def group_of_record(
    groups: MutableMapping[str, GroupT],
    new_group: Callable[[str], GroupT],
    group_key: type[Message],
    key: Message,
    value: Message | None,
) -> GroupT | None:
    """The group that a record is about, made if it is not there yet. None: there is nothing to apply. A record of
    `group_key` without value removes the group.

    A record without value about a group that is not there changes nothing: compaction may have removed the one before
    it.
    """
    group_id: str = key.group_id  # type: ignore[attr-defined]  # every key of a group has it
    if isinstance(key, group_key) and value is None:
        groups.pop(group_id, None)
        return None
    group = groups.get(group_id)
    if group is None and value is not None:
        group = groups[group_id] = new_group(group_id)
    return group


class _HasTarget(Protocol):
    assignment_epoch: int
    assignment_timestamp_ms: int


class _TargetEpoch(Protocol):
    assignment_epoch: int
    assignment_timestamp: int


def replay_target_epoch(group: _HasTarget, value: _TargetEpoch | None) -> None:
    """Apply the record about the epoch of a group's target assignment."""
    group.assignment_epoch = value.assignment_epoch if value is not None else NO_EPOCH
    group.assignment_timestamp_ms = value.assignment_timestamp if value is not None else 0
