"""The batch that begins a leader epoch. Each start of the controller begins a new, higher epoch (KIP-595)."""

from klamm.controller.metadata_log import CONTROLLER_ID
from klamm.protocol.record_batch import encode_control_batch
from klamm.protocol.records.control import LeaderChangeMessage, Voter


def encode_leader_change(base_offset: int, leader_epoch: int, timestamp_ms: int) -> bytes:
    """The batch that begins an epoch: the controller leads, elected by itself, the only voter."""
    record = LeaderChangeMessage(
        leader_id=CONTROLLER_ID,
        voters=[Voter(voter_id=CONTROLLER_ID)],
        granting_voters=[Voter(voter_id=CONTROLLER_ID)],
    )
    return encode_control_batch(base_offset, leader_epoch, timestamp_ms, [record])
