"""The quorum that the control records of a log describe: kraft.version and the voters (KIP-853).

A static quorum is in the configs of all nodes, and the log has no record of it: kraft.version 0. In a dynamic one the
log has a KRaftVersionRecord and a VotersRecord, and observers find there the leader's directory and end point. The
records follow the LeaderChange in the batch that begins an epoch, as Kafka's LeaderState writes them. Klamm is the only
voter: where a log has others, because a Kafka controller wrote it, the next epoch replaces them.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from klamm.controller.metadata_log import CONTROLLER_ID
from klamm.protocol.fields import Message
from klamm.protocol.records.control import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    VotersRecord,
    VotersRecordVoter,
)
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass

DYNAMIC: Final = 1
"""The kraft.version of a dynamic quorum."""
DEFAULT_LISTENER_NAME: Final = "CONTROLLER"


@dataclass(frozen=True, slots=True)
class QuorumPlan:
    """What a start wants of the quorum, and where the controller can be reached."""

    is_dynamic: bool = False
    """Whether a static quorum becomes dynamic. A dynamic one stays dynamic."""
    listener_name: str = DEFAULT_LISTENER_NAME
    end_point: tuple[str, int] | None = None
    """Host and port of the controller's listener; None: it has none."""
    controller_id: int = CONTROLLER_ID


STATIC_QUORUM: Final = QuorumPlan()


class Quorum(NamedTuple):
    """The quorum at one offset of a log."""

    kraft_version: int = 0
    voters: VotersRecord | None = None

    def after(self, control_records: Iterable[Message]) -> "Quorum":
        """The quorum after these control records, in their order."""
        found = self
        for record in control_records:
            if isinstance(record, KRaftVersionRecord):
                found = found._replace(kraft_version=record.kraft_version)
            elif isinstance(record, VotersRecord):
                found = found._replace(voters=record)
        return found

    @property
    def is_dynamic(self) -> bool:
        return self.kraft_version >= DYNAMIC

    @property
    def records(self) -> Sequence[Message]:
        """The control records of a snapshot that replaces those of the log; none for a static quorum."""
        if not self.is_dynamic:
            return ()
        version = KRaftVersionRecord(kraft_version=self.kraft_version)
        return (version,) if self.voters is None else (version, self.voters)

    def changes(self, plan: QuorumPlan, directory_id: Uuid) -> Sequence[Message]:
        """The control records that make the quorum what `plan` wants; none if it is already."""
        if not (plan.is_dynamic or self.is_dynamic):
            return ()
        wanted = _voters(plan, directory_id)
        records: list[Message] = [] if self.is_dynamic else [KRaftVersionRecord(kraft_version=DYNAMIC)]
        if self.voters != wanted:
            records.append(wanted)
        return records


NO_QUORUM: Final = Quorum()
"""That of a log without control records about it: a static quorum."""


def _voters(plan: QuorumPlan, directory_id: Uuid) -> VotersRecord:
    """The controller alone."""
    end_points = []
    if plan.end_point is not None:
        host, port = plan.end_point
        end_points = [Endpoint(name=plan.listener_name, host=host, port=port)]
    voter = VotersRecordVoter(
        voter_id=plan.controller_id,
        voter_directory_id=directory_id,
        endpoints=end_points,
        kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=DYNAMIC),
    )
    return VotersRecord(voters=[voter])
