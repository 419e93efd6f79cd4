"""Steering verbs and waits, for `klamm.Cluster` and the control interface: what is shown, and what is waited for."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from klamm.assignment import NO_LIMIT
from klamm.broker.coordinator.shard import Shard
from klamm.broker.groups.groups_with_streams import GroupsWithStreams
from klamm.console.shown import shown
from klamm.control.group_states import check_group_state
from klamm.controller.configs import max_broker_partitions, max_partitions
from klamm.protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from klamm.protocol.near_names import did_you_mean
from klamm.server.faults.reading import read_rule
from klamm.server.faults.rules import NoSuchRule
from klamm.server.server import Server
from klamm.server.steering import SteeringRefused

AWAY: Final = "disk-{}-is-away"
"""The id of the fault rule about a broker whose disk is away."""
OF_THE_DISK: Final = ("Produce", "Fetch", "ListOffsets", "DeleteRecords", "OffsetForLeaderEpoch")
"""What a broker without its disk answers with KAFKA_STORAGE_ERROR."""
COORDINATED: Final = {
    "groups": CONSUMER_OFFSETS, "transactions": TRANSACTION_STATE, "share groups": SHARE_GROUP_STATE,
}  # fmt: skip
"""The internal topic of each kind of coordinator."""
DEAD: Final = "Dead"


def described_partition(server: Server, topic_name: str, index: int) -> dict[str, Any]:
    """A partition, as JSON. Raises NotThere."""
    _, partition = server.steering.find(topic_name, index)
    return {
        "topic": topic_name,
        "partition": index,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
    }


def described_log_dirs(server: Server, broker_id: int) -> list[dict[str, Any]]:
    """The log directories of a broker, as JSON. Raises BrokerError."""
    return [
        {
            "log_dir": one.path,
            "directory_id": str(one.directory_id),
            "online": one.is_online,
            "failed": not one.is_whole,
        }
        for one in server.brokers.find(broker_id).log_dirs.all
    ]


def partition_limit(server: Server) -> int:
    """The smallest limit of KIP-578: replicas of a broker that is up, or partitions of the cluster. Raises
    SteeringRefused if there is none."""
    configs, settings = server.image.configs, server.observed.settings
    up = [broker_id for broker_id, broker in server.brokers.by_id.items() if broker.is_up]
    of_brokers = [max_broker_partitions(configs, settings, broker_id) for broker_id in up]
    limit = min([max_partitions(configs, settings), *of_brokers])
    if settings.profile == "kafka":
        raise SteeringRefused("Apache Kafka has no limit on partitions: start klamm serve without --profile kafka")
    if limit >= NO_LIMIT:
        raise SteeringRefused("no limit is set: start klamm serve with --set max.broker.partitions=N")
    return limit


def coordinated_topics(of: object) -> list[str]:
    """The internal topics of a kind of coordinator; None: of all kinds. Raises ValueError with a clause."""
    if of is not None and of not in COORDINATED:
        kinds = ", ".join(COORDINATED)
        raise ValueError(f"of {shown(of)}: one of {kinds} is expected{did_you_mean(str(of), COORDINATED)}")
    return [topic for kind, topic in COORDINATED.items() if of in (None, kind)]


async def set_disk(server: Server, broker_id: int, *, is_away: bool) -> None:
    """Take the disk of a broker away, or bring it back. Raises BrokerError."""
    server.brokers.find(broker_id)
    rule_id = AWAY.format(broker_id)
    with suppress(NoSuchRule):
        server.faults.remove(rule_id)
    if is_away:
        rule = {"id": rule_id, "api": list(OF_THE_DISK), "broker": broker_id, "error": "KAFKA_STORAGE_ERROR"}
        server.faults.add(read_rule(rule))
    await server.steering.set_disk(broker_id, is_away=is_away)


def described_group(server: Server, group_id: str) -> dict[str, Any]:
    """A group, as JSON; one that does not exist is Dead and has no members."""
    state, members = DEAD, 0
    coordinators, image = server.brokers.coordinators, server.image
    leader = coordinators.leader_of(image, CONSUMER_OFFSETS, group_id)
    shard = coordinators.find(image, CONSUMER_OFFSETS, group_id, leader, server.now_ms())
    if isinstance(shard, Shard) and isinstance(shard.state, GroupsWithStreams):
        of = shard.state
        kinds: tuple[Mapping[str, Any], ...] = (of.groups, of.consumer.groups, of.share.groups, of.streams.groups)
        found = next((groups[group_id] for groups in kinds if group_id in groups), None)
        if found is not None:
            state, members = str(getattr(found.state, "value", found.state)), len(found.members)
    return {"group": group_id, "state": state, "members": members}


async def wait_for_topic(server: Server, name: str, num_partitions: int, timeout_seconds: float) -> dict[str, Any]:
    """The topic, once the metadata has it with at least so many partitions. Raises TimeoutError with a clause."""

    def there() -> int | None:
        topic = server.image.topics_by_name.get(name)
        count = 0 if topic is None else server.image.partition_count(topic)
        return count if count >= num_partitions else None

    found = await server.wakeups.until(there, timeout_seconds)
    if found is None:
        topic = server.image.topics_by_name.get(name)
        what = "does not exist" if topic is None else f"has {server.image.partition_count(topic)} partitions"
        raise TimeoutError(f"topic {shown(name)} {what} after {timeout_seconds:g} s")
    return {"topic": name, "num_partitions": found}


async def wait_for_isr(
    server: Server, topic_name: str, partition: int | None, timeout_seconds: float
) -> dict[str, Any]:
    """Wait until all replicas of a topic, or of one partition, are in sync. Raises NotThere, and TimeoutError."""
    server.steering.find(topic_name, partition or 0)

    def whole() -> list[dict[str, Any]] | None:
        found = _partitions(server, topic_name, partition)
        return found if all(sorted(one["isr"]) == sorted(one["replicas"]) for one in found) else None

    found = await server.wakeups.until(whole, timeout_seconds)
    if found is None:
        found = _partitions(server, topic_name, partition)
        lacking = [one for one in found if sorted(one["isr"]) != sorted(one["replicas"])]
        first = lacking[0] if lacking else found[0]
        raise TimeoutError(
            f"{topic_name}-{first['partition']} has the ISR {first['isr']} of {first['replicas']} after "
            f"{timeout_seconds:g} s"
        )
    return {"partitions": found}


def _partitions(server: Server, topic_name: str, partition: int | None) -> list[dict[str, Any]]:
    topic, _ = server.steering.find(topic_name, partition or 0)
    indexes = range(server.image.partition_count(topic)) if partition is None else [partition]
    return [described_partition(server, topic_name, index) for index in indexes]


async def wait_for_group(
    server: Server, group_id: str, members: int, state: str, timeout_seconds: float
) -> dict[str, Any]:
    """The group, once it is in this state with so many members. Raises ValueError for what is no state of a group, and
    TimeoutError, with a clause."""
    check_group_state(state)

    def stable() -> dict[str, Any] | None:
        found = described_group(server, group_id)
        return found if (found["state"].lower(), found["members"]) == (state.lower(), members) else None

    found = await server.wakeups.until(stable, timeout_seconds)
    if found is None:
        now = described_group(server, group_id)
        raise TimeoutError(
            f"group {shown(group_id)} is {now['state']} with {now['members']} members after {timeout_seconds:g} s"
        )
    return found


async def wait_for_reassignments(server: Server, topic_name: str | None, timeout_seconds: float) -> dict[str, Any]:
    """Wait until no reassignment is in progress, of any topic or of one. Raises NotThere, and TimeoutError."""

    def over() -> bool | None:
        return None if _reassigning(server, topic_name) else True

    if await server.wakeups.until(over, timeout_seconds) is None:
        left = _reassigning(server, topic_name)
        are = "1 partition is" if left == 1 else f"{left} partitions are"
        raise TimeoutError(f"{are} in reassignment after {timeout_seconds:g} s")
    return {"reassigning": 0}


def _reassigning(server: Server, topic_name: str | None) -> int:
    keys = server.image.partitions.reassigning
    if topic_name is None:
        return len(keys)
    topic, _ = server.steering.find(topic_name, 0)
    return sum(key.topic_row == topic.row for key in keys)
