"""How the status of a broker changes with its heartbeats and at the end of its session: a table of transitions, and
the records that each transition needs.

A broker registers fenced. It is unfenced when it has caught up and asks for it. In a controlled shutdown its
leaderships move first, and the broker may stop once it has read the records that moved them. The table has an entry for
every pair of status and wish, because any heartbeat is legal in any status. (Kafka: BrokerHeartbeatManager.)
"""

from collections.abc import Sequence
from enum import Enum, auto

from klamm.controller.log_records import Record
from klamm.controller.metadata.broker import BrokerState
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.settings import Settings
from klamm.controller.transitions.elections import count_waiting, plan_broker_return
from klamm.controller.transitions.leadership import count_in_sync, plan_broker_loss
from klamm.protocol.errors import ErrorCode
from klamm.protocol.records.brokers import BrokerRegistrationChangeRecord

SET, CLEAR = 1, -1
MAX_CHANGES_AT_ONCE = 5_000
"""Most partition changes that are planned and logged in one step: some 10 ms on a laptop, the longest other requests
wait."""
MAX_ELECTIONS_AT_ONCE = 1_000
"""The same limit for partitions that wait for a broker. It is lower, because each may need the one-by-one path."""


class BrokerStatus(Enum):
    """The status of a registered broker."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


class Wish(Enum):
    """What a heartbeat asks for, in view of how far the broker has read the metadata log."""

    STAY_FENCED = auto()
    SERVE = auto()
    SHUT_DOWN = auto()
    SHUT_DOWN_CAUGHT_UP = auto()
    """The broker wants to stop and has read every record that its controlled shutdown wrote."""
    SHUT_DOWN_NOW = auto()
    """The broker wants to stop, and it leads no partition or asks to be fenced as well."""


TRANSITIONS = {
    (BrokerStatus.FENCED, Wish.STAY_FENCED): BrokerStatus.FENCED,
    (BrokerStatus.FENCED, Wish.SERVE): BrokerStatus.UNFENCED,
    (BrokerStatus.FENCED, Wish.SHUT_DOWN): BrokerStatus.SHUTDOWN_NOW,
    (BrokerStatus.FENCED, Wish.SHUT_DOWN_CAUGHT_UP): BrokerStatus.SHUTDOWN_NOW,
    (BrokerStatus.FENCED, Wish.SHUT_DOWN_NOW): BrokerStatus.SHUTDOWN_NOW,
    (BrokerStatus.UNFENCED, Wish.STAY_FENCED): BrokerStatus.FENCED,
    (BrokerStatus.UNFENCED, Wish.SERVE): BrokerStatus.UNFENCED,
    (BrokerStatus.UNFENCED, Wish.SHUT_DOWN): BrokerStatus.CONTROLLED_SHUTDOWN,
    (BrokerStatus.UNFENCED, Wish.SHUT_DOWN_CAUGHT_UP): BrokerStatus.CONTROLLED_SHUTDOWN,
    (BrokerStatus.UNFENCED, Wish.SHUT_DOWN_NOW): BrokerStatus.SHUTDOWN_NOW,
    (BrokerStatus.CONTROLLED_SHUTDOWN, Wish.STAY_FENCED): BrokerStatus.CONTROLLED_SHUTDOWN,
    (BrokerStatus.CONTROLLED_SHUTDOWN, Wish.SERVE): BrokerStatus.CONTROLLED_SHUTDOWN,
    (BrokerStatus.CONTROLLED_SHUTDOWN, Wish.SHUT_DOWN): BrokerStatus.CONTROLLED_SHUTDOWN,
    (BrokerStatus.CONTROLLED_SHUTDOWN, Wish.SHUT_DOWN_CAUGHT_UP): BrokerStatus.SHUTDOWN_NOW,
    (BrokerStatus.CONTROLLED_SHUTDOWN, Wish.SHUT_DOWN_NOW): BrokerStatus.SHUTDOWN_NOW,
}


def broker_status(broker: BrokerState) -> BrokerStatus:
    """The status of a broker according to the metadata log."""
    if broker.fenced:
        return BrokerStatus.FENCED
    return BrokerStatus.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else BrokerStatus.UNFENCED


def refuse_broker_epoch(image: MetadataImage, broker_id: int, broker_epoch: int) -> ErrorCode:
    """Why a request in the name of a broker is not that of its present registration; NONE if it is. (Kafka:
    ClusterControlManager.checkBrokerEpoch.)"""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.NONE


def plan_status(
    image: MetadataImage, settings: Settings, broker: BrokerState, status: BrokerStatus
) -> Sequence[Record]:
    """The records that change the status of `broker` to `status`; none if it has that status already."""
    if status is broker_status(broker):
        return ()
    change = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
    if status is BrokerStatus.UNFENCED:
        change.fenced = CLEAR
        few = count_waiting(image, broker.broker_id) <= MAX_ELECTIONS_AT_ONCE
        return (change, *(plan_broker_return(image, settings, broker.broker_id) if few else ()))
    # Many changes are not planned here but in steps of the background work, so that other requests do not wait for all.
    at_once = count_in_sync(image, broker.broker_id) <= MAX_CHANGES_AT_ONCE
    losses = plan_broker_loss(image, settings, broker.broker_id) if at_once else ()
    if status is BrokerStatus.CONTROLLED_SHUTDOWN:
        change.in_controlled_shutdown = SET
        return (change, *losses)
    if broker.fenced:
        return ()
    change.fenced = SET
    return (*losses, change)
