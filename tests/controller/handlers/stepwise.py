"""What must hold after every step of long work, and when no work is left: the oracles of `test_between_steps`."""

from klamm.controller.configs import min_insync_replicas, unclean_leader_election_enabled
from klamm.controller.metadata.broker import BrokerState
from klamm.controller.metadata.partition import NO_LEADER, RECOVERED, Partition
from klamm.controller.transitions.reassignment import assignment_of, completed
from klamm.protocol.messages.topics.describe_topic_partitions import DescribeTopicPartitionsRequest
from klamm.protocol.messages.topics.metadata import MetadataRequest
from klamm.protocol.uuid import Uuid
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.handlers.tiny_steps import finish

Key = tuple[Uuid, int]


def partitions_by_id(cluster: DrivenCluster) -> dict[Key, Partition]:
    return {
        (topic.topic_id, index): partition
        for topic in cluster.image.topics_by_name.values()
        for index, partition in enumerate(cluster.partitions(topic.name))
    }


def live_brokers(cluster: DrivenCluster) -> set[int]:
    return {broker.broker_id for broker in cluster.image.brokers.values() if broker.live}


def in_isrs(cluster: DrivenCluster, broker_id: int) -> int:
    """The number of ISRs that contain a broker."""
    return sum(broker_id in partition.isr for partition in partitions_by_id(cluster).values())


def in_elrs(cluster: DrivenCluster, broker_id: int) -> int:
    """In how many partitions a broker is an eligible leader replica."""
    return sum(broker_id in one.eligible_leader_replicas for one in partitions_by_id(cluster).values())


def check_partition(partition: Partition) -> None:
    """Check a partition at any time, also between the step that fences a broker and those that remove it from its
    ISRs."""
    replicas, isr, elr = partition.replicas, partition.isr, partition.eligible_leader_replicas
    assert len(set(replicas)) == len(replicas) == len(partition.directories)
    for some in (isr, elr, partition.adding_replicas, partition.removing_replicas):
        assert len(set(some)) == len(some)
        assert set(some) <= set(replicas)
    assert partition.leader == NO_LEADER or partition.leader in isr
    assert not set(isr) & set(elr)
    assert len(partition.last_known_elr) <= (partition.leader == NO_LEADER)


def check_change(before: Partition, after: Partition, live: set[int]) -> None:
    """Check the changes of a partition by one event and the next step; `live` are the live brokers after them."""
    assert (after.partition_epoch > before.partition_epoch) == (after != before)
    assert after.leader_epoch >= before.leader_epoch
    if after.leader != before.leader:
        assert after.leader_epoch > before.leader_epoch
        assert after.leader in live | {NO_LEADER}
    assert set(after.isr) - set(before.isr) <= live
    if after.leader in before.isr and not before.reassigning:
        # Neither an unclean election nor a reassignment: only brokers that stopped leave the ISR.
        assert not live.intersection(before.isr).intersection(after.replicas) - set(after.isr)


def check_answers(cluster: DrivenCluster) -> None:
    """Metadata has the existing topics, with each partition as it is now."""
    unfenced = {broker.broker_id for broker in cluster.image.brokers.values() if not broker.fenced}
    metadata = cluster.ask(MetadataRequest(topics=None))
    described = cluster.ask(DescribeTopicPartitionsRequest(topics=[]))
    assert {broker.node_id for broker in metadata.brokers} == unfenced
    assert [topic.name for topic in metadata.topics] == list(cluster.image.topics_by_name)
    assert [topic.name for topic in described.topics] == sorted(cluster.image.topics_by_name)
    for topic in (*metadata.topics, *described.topics):
        partitions = cluster.partitions(topic.name)
        for partition, reported in zip(partitions, topic.partitions, strict=True):
            assert (reported.leader_id, reported.leader_epoch) == (partition.leader, partition.leader_epoch)
            assert (tuple(reported.replica_nodes), tuple(reported.isr_nodes)) == (partition.replicas, partition.isr)
            assert {one for one in partition.replicas if one not in unfenced} <= set(reported.offline_replicas)
    for topic in described.topics:
        for partition, reported in zip(cluster.partitions(topic.name), topic.partitions, strict=True):
            assert tuple(reported.eligible_leader_replicas) == partition.eligible_leader_replicas
            assert tuple(reported.last_known_elr) == partition.last_known_elr


def check_rest(cluster: DrivenCluster) -> None:
    """Check the end of work: no partition needs another change, and a start finds no work."""
    for topic in cluster.image.topics_by_name.values():
        min_isr = min_insync_replicas(cluster.image.configs, cluster.settings, topic.name)
        for partition in cluster.partitions(topic.name):
            _check_settled(cluster, partition, min_isr)
    before = partitions_by_id(cluster)
    cluster.restart()
    finish(cluster)
    for key, partition in partitions_by_id(cluster).items():
        # A start holds the elections that are otherwise left to the periodic unclean elections.
        assert partition == before[key] or (before[key].leader == NO_LEADER and _allows_unclean(cluster, key[0]))


def _allows_unclean(cluster: DrivenCluster, topic_id: Uuid) -> bool:
    name = cluster.image.topics_by_id[topic_id].name
    return unclean_leader_election_enabled(cluster.image.configs, cluster.settings, name)


def _check_settled(cluster: DrivenCluster, partition: Partition, min_isr: int) -> None:
    there = {
        replica
        for replica, directory in zip(partition.replicas, partition.directories, strict=True)
        if _serves(cluster.image.brokers.get(replica), directory)
    }
    assert set(partition.isr) <= there
    is_recovering = partition.leader_recovery_state != RECOVERED
    if partition.leader == NO_LEADER:
        candidates = partition.isr or partition.eligible_leader_replicas
        assert not there & set(candidates)
        assert candidates or not there & set(partition.last_known_elr)
    else:
        assert there == set(partition.isr)
        # A leader that was elected uncleanly says that it has recovered with its first change of the ISR, as in Kafka.
        assert not is_recovering or partition.isr == (partition.leader,)
    # A reassignment that waits for nothing after the election of a leader ends with the next change, as in Kafka, at
    # the latest when the last replica that can return does.
    out_of_sync = set(partition.replicas) - set(partition.isr)
    ended = completed(assignment_of(partition), partition.isr) is None
    assert ended or is_recovering or any(one >= 0 for one in out_of_sync)
    assert len(partition.isr) < min_isr or not partition.eligible_leader_replicas


def _serves(broker: BrokerState | None, directory: Uuid) -> bool:
    return broker is not None and broker.live and broker.has_directory(directory)
