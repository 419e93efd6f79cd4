"""The batch that begins a leader epoch. Each start of the controller begins a new, higher epoch (KIP-595)."""

from collections.abc import Sequence

from klamm.controller.metadata_log import CONTROLLER_ID
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import encode_control_batch
from klamm.protocol.records.control import LeaderChangeMessage, Voter


def encode_leader_change(
    base_offset: int, leader_epoch: int, timestamp_ms: int, of_quorum: Sequence[Message] = ()
) -> bytes:
    """The batch that begins an epoch: the controller leads, elected by itself, the only voter. `of_quorum` are the
    control records that change the quorum."""
    record = LeaderChangeMessage(
        leader_id=CONTROLLER_ID,
        voters=[Voter(voter_id=CONTROLLER_ID)],
        granting_voters=[Voter(voter_id=CONTROLLER_ID)],
    )
    return encode_control_batch(base_offset, leader_epoch, timestamp_ms, [record, *of_quorum])
