"""AlterPartition: which ISRs a leader may request, with the checks in the order of Apache Kafka 4.3."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from klamm.controller.handlers.partitions import alter_partition
from klamm.controller.settings import Profile
from klamm.controller.transitions import change_runs
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.partitions.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
    PartitionData,
    TopicData,
)
from klamm.protocol.records.brokers import BrokerRegistrationChangeRecord
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.protocol.uuid import ZERO_UUID, Uuid
from tests.controller.handlers.cluster import START_MS, DrivenCluster, directory
from tests.controller.image_facts import image_facts
from tests.controller.log.logs import append_records

Start = Callable[..., DrivenCluster]
RECOVERED, RECOVERING = 0, 1
UNKNOWN_TOPIC = Uuid(16 * b"\x55")


def asked(isr: Sequence[int | tuple[int, int]], partition_index: int = 0, **fields: Any) -> PartitionData:
    """An entry for a partition in its first epochs; members of the ISR with or without a broker epoch."""
    states = [(member, -1) if isinstance(member, int) else member for member in isr]
    values: dict[str, Any] = {
        "partition_index": partition_index,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "new_isr": [broker_id for broker_id, _ in states],
        "new_isr_with_epochs": [BrokerState(broker_id=broker_id, broker_epoch=epoch) for broker_id, epoch in states],
        **fields,
    }
    return PartitionData(**values)


def alter(
    cluster: DrivenCluster,
    *partitions: PartitionData,
    version: int = 3,
    leader: int = 1,
    topic_id: Uuid | None = None,
    **fields: Any,
) -> AlterPartitionResponse:
    topic = TopicData(topic_id=topic_id or cluster.image.topics_by_name["t"].topic_id, partitions=list(partitions))
    for partition in partitions:
        if version < alter_partition.FIRST_VERSION_WITH_EPOCHS:
            partition.new_isr_with_epochs = ()
        else:
            partition.new_isr = ()
    known = cluster.image.brokers.get(leader)
    values: dict[str, Any] = {
        "broker_id": leader,
        "broker_epoch": known.broker_epoch if known else 0,
        "topics": [topic],
        **fields,
    }
    response: AlterPartitionResponse = cluster.ask(AlterPartitionRequest(**values), version=version, broker_id=None)
    return response


def only(response: AlterPartitionResponse) -> AlterPartitionResponsePartitionData:
    assert response.error_code == ErrorCode.NONE
    [topic] = response.topics
    [partition] = topic.partitions
    return partition


@pytest.mark.parametrize("version", [2, 3])
def test_the_leader_takes_a_replica_out_and_lets_it_in_again(cluster: DrivenCluster, version: int) -> None:
    """As recorded: the partition epoch grows, the leader epoch does not, and the record has only the ISR."""
    cluster.create_at("t", [1, 2, 3])
    for partition_epoch, isr in enumerate(([1, 3], [1, 3, 2])):
        with cluster.writing() as written:
            answer = only(alter(cluster, asked(isr, partition_epoch=partition_epoch), version=version))
        assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (ErrorCode.NONE, 1, 0)
        assert (list(answer.isr), answer.leader_recovery_state) == (isr, RECOVERED)
        assert answer.partition_epoch == partition_epoch + 1
        [record] = written
        topic = cluster.image.topics_by_name["t"]
        assert record == PartitionChangeRecord(partition_id=0, topic_id=topic.topic_id, isr=tuple(isr))
        [partition] = cluster.partitions("t")
        assert (partition.leader, list(partition.isr), partition.partition_epoch) == (1, isr, partition_epoch + 1)


def test_what_is_so_already_is_answered_and_not_logged(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [1, 2])
    with cluster.writing() as written:
        answer = only(alter(cluster, asked([1, 2])))
    assert (answer.error_code, answer.partition_epoch, list(answer.isr)) == (ErrorCode.NONE, 0, [1, 2])
    assert written == []


@pytest.mark.parametrize(
    ("isr", "fields", "code"),
    [
        ([1], {"partition_index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1], {"partition_index": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1], {"partition_index": 2**31 - 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        # Epochs: of a requester that is ahead of the controller or behind it.
        ([], {"leader_epoch": 6}, ErrorCode.NOT_CONTROLLER),
        ([], {"leader_epoch": 4, "partition_epoch": 8}, ErrorCode.NOT_CONTROLLER),
        ([], {"leader_epoch": 4, "partition_epoch": 6}, ErrorCode.FENCED_LEADER_EPOCH),
        ([], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ([], {"partition_epoch": 6}, ErrorCode.INVALID_UPDATE_VERSION),
        # Invalid ISRs.
        ([], {}, ErrorCode.INVALID_REQUEST),
        ([1, 1], {}, ErrorCode.INVALID_REQUEST),
        ([1, 4], {}, ErrorCode.INVALID_REQUEST),
        ([1, -1], {}, ErrorCode.INVALID_REQUEST),
        ([1, 999], {}, ErrorCode.INVALID_REQUEST),
        ([2, 3], {}, ErrorCode.INVALID_REQUEST),
        # The recovery state after an unclean election.
        ([1], {"leader_recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"leader_recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
        ([1], {"leader_recovery_state": 2}, ErrorCode.INVALID_REQUEST),
        ([1], {"leader_recovery_state": -1}, ErrorCode.INVALID_REQUEST),
        ([(1, 12345)], {}, ErrorCode.INELIGIBLE_REPLICA),
        ([1, (2, 0)], {}, ErrorCode.INELIGIBLE_REPLICA),
        ([1, 2], {}, ErrorCode.NONE),
    ],
    ids=repr,
)
def test_why_a_change_is_refused(
    start: Start, profile: Profile, isr: list[int | tuple[int, int]], fields: dict[str, int], code: ErrorCode
) -> None:
    """A partition of leader epoch 5 and partition epoch 7, unless the request has other ones."""
    cluster = start(4, profile=profile)
    cluster.create_at("t", [1, 2, 3])
    for _ in range(5):
        _change(cluster, leader=1)
    _change(cluster, isr=[1, 2])
    _change(cluster, isr=[1, 2, 3])
    with cluster.writing() as written:
        answer = only(alter(cluster, asked(isr, **{"leader_epoch": 5, "partition_epoch": 7, **fields})))
    assert answer.error_code == code
    assert (len(written) == 1) == (code == ErrorCode.NONE)


def _change(cluster: DrivenCluster, **fields: Any) -> None:
    """A change from a log of another program."""
    topic = cluster.image.topics_by_name["t"]
    append_records(cluster.log, [PartitionChangeRecord(partition_id=0, topic_id=topic.topic_id, **fields)], START_MS)
    cluster.restart()


def test_only_the_leader_speaks_for_a_partition(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [1, 2, 3])
    assert only(alter(cluster, asked([2, 1]), leader=2)).error_code == ErrorCode.INVALID_REQUEST
    assert only(alter(cluster, asked([2, 1], partition_epoch=-1), leader=2)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("fields", [{"broker_epoch": -1}, {"broker_epoch": 2**40}, {"broker_id": 9}, {"broker_id": -1}])
def test_a_broker_that_is_not_the_registered_one_is_refused_as_a_whole(
    cluster: DrivenCluster, fields: dict[str, Any]
) -> None:
    cluster.create_at("t", [1, 2, 3])
    with cluster.writing() as written:
        response = alter(cluster, asked([1]), **fields)
    assert (response.error_code, list(response.topics)) == (ErrorCode.STALE_BROKER_EPOCH, [])
    assert written == []


@pytest.mark.parametrize("topic_id", [ZERO_UUID, UNKNOWN_TOPIC])
def test_a_topic_that_is_not_there(cluster: DrivenCluster, topic_id: Uuid) -> None:
    response = alter(cluster, asked([1]), asked([1], 7), topic_id=topic_id)
    [topic] = response.topics
    assert topic.topic_id == topic_id
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [
        (0, ErrorCode.UNKNOWN_TOPIC_ID),
        (7, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_nothing_to_do(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [1])
    assert alter(cluster, topics=[]).error_code == ErrorCode.NONE
    assert alter(cluster, topics=[], broker_id=99, broker_epoch=-1).error_code == ErrorCode.NONE, "recorded"
    [topic] = alter(cluster).topics
    assert list(topic.partitions) == []


# Who may be in the ISR


def test_a_broker_that_is_fenced_leaving_or_gone_is_not_in_sync(cluster: DrivenCluster) -> None:
    for broker_id in (4, 5, 6):
        cluster.join(broker_id)
    cluster.create_at("t", [1, 4, 5, 6])
    cluster.create_at("others", [5, 1])
    cluster.lose(4)
    assert not cluster.heartbeat(5, want_shut_down=True, current_metadata_offset=0).should_shut_down
    _change(cluster, isr=[1])
    [row] = cluster.partitions("t")
    for other in (4, 5):
        wanted = asked([1, other], partition_epoch=row.partition_epoch)
        assert only(alter(cluster, wanted)).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert only(alter(cluster, asked([1, 6], partition_epoch=row.partition_epoch))).error_code == ErrorCode.NONE


def test_a_broker_of_a_former_life_is_not_in_sync(cluster: DrivenCluster) -> None:
    """KIP-903: the leader names the incarnation that caught up; the next incarnation has to catch up itself."""
    cluster.create_at("t", [1, 2, 3])
    former = cluster.image.brokers[2].broker_epoch
    cluster.shut_down(2)
    cluster.lives[2] += 1
    cluster.register(2, previous_broker_epoch=former)
    cluster.heartbeat(2)
    [row] = cluster.partitions("t")
    assert 2 not in row.isr
    epoch = cluster.image.brokers[2].broker_epoch
    for known, code in ((former, ErrorCode.INELIGIBLE_REPLICA), (epoch, ErrorCode.NONE)):
        wanted = asked([1, 3, (2, known)], partition_epoch=row.partition_epoch)
        assert only(alter(cluster, wanted)).error_code == code
    assert cluster.partitions("t")[0].isr == (1, 3, 2)


def test_a_placeholder_is_never_in_sync(start: Start) -> None:
    cluster = start(2, profile="kip", configs={"enable.under.replicated.topic.creation": "true"})
    cluster.create("t", 1, 3)
    [row] = cluster.partitions("t")
    assert row.replicas[2] == -1
    wanted = asked([*row.isr, -1], leader_epoch=row.leader_epoch, partition_epoch=row.partition_epoch)
    assert only(alter(cluster, wanted, leader=row.leader)).error_code == ErrorCode.INVALID_REQUEST


# Consequences of a change


def test_below_the_minimum_isr_who_leaves_stays_eligible(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile, configs={"min.insync.replicas": "2"})
    cluster.create_at("t", [1, 2, 3])
    assert only(alter(cluster, asked([1, 2]))).error_code == ErrorCode.NONE
    assert cluster.partitions("t")[0].eligible_leader_replicas == ()
    assert only(alter(cluster, asked([1], partition_epoch=1))).error_code == ErrorCode.NONE
    assert cluster.partitions("t")[0].eligible_leader_replicas == (2,)
    assert only(alter(cluster, asked([1, 3], partition_epoch=2))).error_code == ErrorCode.NONE
    assert cluster.partitions("t")[0].eligible_leader_replicas == ()


def test_a_leader_that_recovered_says_so_before_others_join(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [1, 2, 3])
    _change(cluster, isr=[1], leader_recovery_state=RECOVERING)
    several = asked([1, 2], partition_epoch=1, leader_recovery_state=RECOVERING)
    assert only(alter(cluster, several)).error_code == ErrorCode.INVALID_REQUEST
    still = only(alter(cluster, asked([1], partition_epoch=1, leader_recovery_state=RECOVERING)))
    assert (still.error_code, still.leader_recovery_state, still.partition_epoch) == (ErrorCode.NONE, RECOVERING, 1)
    with cluster.writing() as written:
        recovered = only(alter(cluster, asked([1], partition_epoch=1)))
    assert (recovered.error_code, recovered.leader_recovery_state) == (ErrorCode.NONE, RECOVERED)
    assert recovered.partition_epoch == 2
    [record] = written
    assert isinstance(record, PartitionChangeRecord)
    assert (record.leader_recovery_state, record.isr, record.leader) == (RECOVERED, None, -2)
    assert cluster.partitions("t")[0].leader_recovery_state == RECOVERED


def test_a_leader_whose_directory_is_gone_is_told_of_another_one(cluster: DrivenCluster) -> None:
    """The change is made, with another leader: the former leader has to read the new state."""
    cluster.join(7, log_dirs=[directory(7, 0), directory(7, 1)])
    cluster.create_at("t", [7, 1])
    topic_id = cluster.image.topics_by_name["t"].topic_id
    epoch = cluster.image.brokers[7].broker_epoch
    append_records(
        cluster.log,
        [
            PartitionChangeRecord(partition_id=0, topic_id=topic_id, directories=[directory(7, 1), directory(1)]),
            BrokerRegistrationChangeRecord(broker_id=7, broker_epoch=epoch, log_dirs=[directory(7, 0)]),
        ],
        START_MS,
    )
    cluster.restart()
    answer = only(alter(cluster, asked([7, 1], partition_epoch=1), leader=7))
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
    assert cluster.partitions("t")[0].leader == 1


# Many at once


def test_a_later_entry_sees_what_an_earlier_one_changed(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [1, 2, 3], [1, 2, 3])
    response = alter(cluster, asked([1, 2]), asked([1]), asked([1, 3], partition_epoch=1), asked([1], 1))
    answers = response.topics[0].partitions
    assert [answer.error_code for answer in answers] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]
    assert [row.isr for row in cluster.partitions("t")] == [(1, 3), (1,)]
    assert [row.partition_epoch for row in cluster.partitions("t")] == [2, 1]


def test_what_one_request_changes_is_bounded(cluster: DrivenCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alter_partition, "MAX_ENTRIES", 2)
    cluster.create_at("t", *[[1, 2]] * 3)
    answers = alter(cluster, *[asked([1], index) for index in range(3)]).topics[0].partitions
    assert [answer.error_code for answer in answers] == [0, 0, ErrorCode.OPERATION_NOT_ATTEMPTED]
    assert [row.isr for row in cluster.partitions("t")] == [(1,), (1,), (1, 2)]


REFUSED_ENTRIES: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "no such partition": ({"partition_index": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "an old epoch": ({"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
    "no replica": ({"isr": [1, 3]}, ErrorCode.INVALID_REQUEST),
    "no such broker": ({"isr": [1, (2, 0)]}, ErrorCode.INELIGIBLE_REPLICA),
    "what is so already": ({"isr": [1, 2]}, ErrorCode.NONE),
}


@pytest.mark.parametrize("entry", REFUSED_ENTRIES)
def test_each_entry_of_a_topic_counts_to_the_limit_whatever_becomes_of_it(
    cluster: DrivenCluster, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    """The limit bounds the time of a request, and a refusal takes time, too."""
    monkeypatch.setattr(alter_partition, "MAX_ENTRIES", 2)
    cluster.create_at("t", *[[1, 2]] * 2)
    fields, code = REFUSED_ENTRIES[entry]
    refused = asked(**{"isr": [1], **fields})
    answers = alter(cluster, refused, refused, asked([1], 1)).topics[0].partitions
    assert [answer.error_code for answer in answers] == [code, code, ErrorCode.OPERATION_NOT_ATTEMPTED]
    answers = alter(cluster, refused, asked([1], 1)).topics[0].partitions
    assert [answer.error_code for answer in answers] == [code, ErrorCode.NONE]


ENTRIES = st.lists(
    st.tuples(st.integers(0, 39), st.sets(st.sampled_from([2, 3])), st.integers(0, 1)), min_size=1, max_size=60
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ENTRIES)
def test_runs_of_changes_come_to_what_single_ones_do(entries: list[tuple[int, set[int], int]]) -> None:
    """Changes of one shape are logged as columns: the image and the bytes of the log are those of single records."""
    images = []
    for run_length in (1, 10_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(change_runs, "RUN_LENGTH", run_length)
            cluster = DrivenCluster(3)
            cluster.create_at("t", *[[1, 2, 3]] * 40)
            wanted = [asked([1, *sorted(isr)], index, partition_epoch=epoch) for index, isr, epoch in entries]
            response = alter(cluster, *wanted)
        assert image_facts(cluster.image) == cluster.replayed_facts()
        images.append((image_facts(cluster.image), response))
    assert images[0] == images[1]
