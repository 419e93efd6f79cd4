"""What random administrators ask for, and of whom: names, counts and replicas, good and bad, and the brokers."""

from hypothesis import strategies as st

from klamm.protocol.messages.topics.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from tests.simulation.model_configs import (
    BROKER,
    MAX_BROKER_PARTITIONS,
    MAX_PARTITIONS,
    MIN_ISR,
    NO_LIMIT,
    TOPIC,
    UNDER_REPLICATED,
    Alteration,
    Edit,
)

BROKER_IDS = (1, 2, 3, 4, 5)
GOOD_CONFIGS: tuple[list[tuple[str, str]], ...] = (
    [],
    [("min.insync.replicas", "2")],
    [("min.insync.replicas", "3")],
    [("unclean.leader.election.enable", "true")],
)

broker_ids = st.sampled_from(BROKER_IDS)
some_broker_ids = st.sets(broker_ids, min_size=1, max_size=3)
GOOD_NAMES = ("good", "second.good", "third", "fourth", "__consumer_offsets")
good_names = st.sampled_from(GOOD_NAMES)
# Whom a request is sent to; None is the controller's listener.
asked = st.sampled_from([1, 1, 2, 3, None])
BAD_NAMES = ("x y", "", "..", "n" * 250, "__cluster_metadata")
names = st.sampled_from(
    ["a", "b", "__consumer_offsets", "__share_group_state", "c-d", "e.f", "e_f", "g.h_i", *BAD_NAMES]
)
good_rows = st.permutations(BROKER_IDS).flatmap(lambda ids: st.integers(1, 4).map(lambda size: list(ids)[:size]))
bad_rows = st.sampled_from([[], [1, 1], [2, 9], [3, -1]])
# Mostly lists of one length, mostly of registered brokers.
rows = st.one_of(
    good_rows.map(lambda row: [row]),
    st.tuples(good_rows, st.integers(0, 3)).map(
        lambda both: [both[0][at:] + both[0][:at] for at in range(both[1] + 1)]
    ),
    st.lists(st.one_of(good_rows, bad_rows), min_size=1, max_size=3),
)
good_configs = st.sampled_from(GOOD_CONFIGS).map(
    lambda pairs: [CreatableTopicConfig(name=name, value=value) for name, value in pairs]
)
configs = st.lists(
    st.sampled_from(
        [
            ("min.insync.replicas", "1"),
            ("min.insync.replicas", "2"),
            ("min.insync.replicas", "3"),
            ("unclean.leader.election.enable", "true"),
            ("retention.ms", "5"),
            ("no.such", "1"),
        ]
    ),
    max_size=2,
).map(lambda pairs: [CreatableTopicConfig(name=name, value=value) for name, value in dict(pairs).items()])
placed_topics = st.builds(
    CreatableTopic,
    name=names,
    num_partitions=st.sampled_from([1, 2, 3, -1, 12, 0, -2]),
    replication_factor=st.sampled_from([1, 2, 3, -1, 4, 6, 0, -2, 18, 25]),
    configs=configs,
)
assigned_topics = st.builds(
    lambda name, wanted, counts, first_index, given: CreatableTopic(
        name=name,
        num_partitions=counts[0],
        replication_factor=counts[1],
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=row)
            for index, row in enumerate(wanted, first_index)
        ],
        configs=given,
    ),
    names,
    rows,
    st.sampled_from([(-1, -1)] * 6 + [(1, -1), (-1, 1)]),
    st.sampled_from([0] * 6 + [1]),
    configs,
)
creations = st.lists(st.one_of(placed_topics, assigned_topics), min_size=1, max_size=4)
enlargements = st.lists(
    st.builds(
        lambda name, more, wanted: (name, more if wanted is None or more % 2 else len(wanted), wanted),
        names,
        st.sampled_from([1, 2, 3, 10, 0, -1]),
        st.none() | rows,
    ),
    min_size=1,
    max_size=3,
)
picks = st.integers(0, 5)
seldom = st.sampled_from([False] * 5 + [True])
timeouts = st.sampled_from([1000] * 9 + [0])

good_topics = st.builds(
    CreatableTopic,
    name=good_names,
    num_partitions=st.sampled_from([1, 1, 2, 2, 3, 5, 10]),
    replication_factor=st.integers(1, 5),
    configs=good_configs,
)
good_creations = st.lists(good_topics, min_size=1, max_size=4, unique_by=lambda topic: topic.name)
LIMITS = (None, "1", "2", "4", "8", "8", "13", "21")
limit_edits = st.builds(
    Edit, st.sampled_from([MAX_BROKER_PARTITIONS, MAX_BROKER_PARTITIONS, MAX_PARTITIONS]), st.sampled_from(LIMITS)
)
# What a broker has of its own: nothing, less than all others, or no limit where others have one.
limits_of_one = st.sampled_from([None, "1", str(NO_LIMIT)])
_broker_edits = st.one_of(
    limit_edits,
    st.builds(Edit, st.just(MAX_BROKER_PARTITIONS), st.sampled_from(["0", "x", "-1"])),
    st.builds(Edit, st.just(UNDER_REPLICATED), st.sampled_from([None, "true", "false", "perhaps"])),
    st.builds(Edit, st.just(MIN_ISR), st.sampled_from([None, "1", "2", "3"])),
)
_topic_edits = st.builds(Edit, st.just(MIN_ISR), st.sampled_from([None, "0", "1", "2", "3"]))
alterations = st.lists(
    st.one_of(
        st.builds(
            Alteration,
            st.just(BROKER),
            st.sampled_from(["", "", "1", "2", "3", "9", "3000"]),
            st.lists(_broker_edits, min_size=1, max_size=2, unique_by=lambda edit: edit.name),
        ),
        st.builds(Alteration, st.just(TOPIC), names | good_names, st.lists(_topic_edits, min_size=1, max_size=1)),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda one: (one.resource_type, one.resource_name),
)
# Names, partitions, how many replicas have to wait, and whether a broker leaves afterwards.
waiting_topics = st.lists(
    st.tuples(good_names, st.integers(1, 4), st.integers(1, 3), st.booleans()),
    min_size=2,
    max_size=4,
    unique_by=lambda topic: topic[0],
)
