"""AlterTopics on any cluster: limits hold, the request is fulfilled, and no replica moves without need."""

from collections import Counter

from hypothesis import assume, given
from hypothesis import strategies as st

from klamm.controller.metadata.partition import NO_LEADER, Partition
from klamm.protocol.errors import ErrorCode
from tests.controller.handlers.alteration_requests import alter, altered
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.handlers.reassignment_requests import in_progress, move
from tests.controller.handlers.test_limits import held
from tests.controller.image_facts import image_facts

BROKERS = 6
RACKS = "aabbcd"
NO_LIMIT = 1_000


@st.composite
def rows(draw: st.DrawFn) -> list[list[int]]:
    size = draw(st.integers(1, 4))
    row = st.permutations(range(1, BROKERS + 1)).map(lambda ids: list(ids)[:size])
    return draw(st.lists(row, min_size=1, max_size=5))


@st.composite
def clusters(draw: st.DrawFn) -> DrivenCluster:
    """Topics t and u of a few partitions, those of t sometimes with several replication factors, and one or two brokers
    that are down."""
    limit = draw(st.sampled_from([NO_LIMIT, 3, 4, 5, 6]))
    cluster = DrivenCluster(
        BROKERS,
        racks=draw(st.sampled_from(["", RACKS])),
        profile=draw(st.sampled_from(["kip", "kafka"])),
        seed=draw(st.integers(0, 9)),
        configs={"max.broker.partitions": str(limit), "enable.under.replicated.topic.creation": "true"},
    )
    assume(not cluster.create_at("t", *draw(rows())).error_code)
    cluster.create_at("u", *draw(rows()))
    if draw(st.booleans()):
        move(cluster, "t", draw(st.permutations(range(1, BROKERS + 1)))[: draw(st.integers(1, 4))])
        cluster.tick()
    gone = draw(st.lists(st.integers(1, BROKERS), unique=True, max_size=3))
    if gone:
        cluster.lose(*gone)
    for broker_id in gone[1:]:
        cluster.come_back(broker_id)
    if in_progress(cluster):
        move(cluster, "t", None)
    return cluster


counts = st.just(-1) | st.integers(3, 8)
factors = st.integers(-1, BROKERS + 1)


def limit_of(cluster: DrivenCluster) -> int:
    return int(cluster.settings.static_configs["max.broker.partitions"])


def target(partition: Partition) -> list[int]:
    return [replica for replica in partition.replicas if replica not in partition.removing_replicas]


@given(clusters(), counts, factors)
def test_counts_come_true_within_the_limits(cluster: DrivenCluster, count: int, factor: int) -> None:
    before, load = cluster.partitions("t"), held(cluster)
    live = {broker.broker_id for broker in cluster.image.brokers.values() if broker.live}
    limit = limit_of(cluster)
    [code] = alter(cluster, altered("t", count, factor))
    after = cluster.partitions("t")
    if code:
        assert after == before
        return
    expected = len(before) if count == -1 else count
    assert len(after) == expected
    assert all(held(cluster)[broker_id] <= max(limit, load[broker_id]) for broker_id in load)
    for old, new in zip(before, after, strict=False):
        wanted = len(old.replicas) if factor == -1 else factor
        has = target(new)
        assert len(has) == wanted
        # The order stays, and no replica moves.
        assert has[: min(len(old.replicas), wanted)] == [r for r in old.replicas if r in has]
        assert set(has).difference(old.replicas) <= live
        if wanted < len(old.replicas):
            assert set(has) < set(old.replicas)
            assert old.leader == NO_LEADER or old.leader in has
    for new in after[len(before) :]:
        assert len(new.replicas) == (len(before[0].replicas) if factor == -1 else factor)
        assert set(new.replicas) <= live
    for broker in cluster.image.brokers.values():
        if broker.fenced:
            cluster.come_back(broker.broker_id)
    cluster.tick()
    assert in_progress(cluster) == {}
    assert [partition.replicas for partition in cluster.partitions("t")] == [tuple(target(one)) for one in after]
    assert all(set(partition.isr) == set(partition.replicas) for partition in cluster.partitions("t"))
    assert cluster.replayed_facts() == image_facts(cluster.image)


@given(clusters(), st.integers(1, 8), st.integers(1, BROKERS))
def test_what_fits_is_never_refused(cluster: DrivenCluster, count: int, factor: int) -> None:
    """Each partition needs brokers that it does not have, each broker has limited room: a matching decides whether that
    is possible."""
    before, load, limit = cluster.partitions("t"), held(cluster), limit_of(cluster)
    live = [broker.broker_id for broker in cluster.image.brokers.values() if broker.live]
    assume(count >= len(before))
    needs = [(factor - len(one.replicas), set(live).difference(one.replicas)) for one in before]
    needs += [(factor, set(live))] * (count - len(before))
    needs = [(missing, eligible) for missing, eligible in needs if missing > 0]
    [code] = alter(cluster, altered("t", count, factor), validate_only=True)
    if any(missing > len(eligible) for missing, eligible in needs):
        assert code == ErrorCode.INVALID_REPLICATION_FACTOR
        return
    room = {broker_id: max(0, limit - load[broker_id]) for broker_id in live}
    assert code == (ErrorCode.NONE if fits(needs, room) else ErrorCode.POLICY_VIOLATION)


def fits(needs: list[tuple[int, set[int]]], room: dict[int, int]) -> bool:
    """Whether all partitions get their replicas: one augmenting path for each."""
    given: list[set[int]] = [set() for _ in needs]
    load = Counter[int]()

    def place(at: int, tried: set[int]) -> bool:
        for broker_id in needs[at][1] - given[at] - tried:
            tried.add(broker_id)
            if load[broker_id] < room[broker_id]:
                load[broker_id] += 1
                given[at].add(broker_id)
                return True
            for other, theirs in enumerate(given):
                if broker_id in theirs and other != at:
                    theirs.remove(broker_id)
                    if place(other, tried):
                        given[at].add(broker_id)
                        return True
                    theirs.add(broker_id)
        return False

    return all(place(at, set()) for at, (missing, _) in enumerate(needs) for _ in range(missing))


@st.composite
def assignments(draw: st.DrawFn) -> dict[int, list[int]]:
    """Manual assignments for the first few partitions, or for some, of lists of one length."""
    size = draw(st.integers(1, 4))
    few = st.integers(1, 5).map(lambda count: list(range(count)))
    indexes = draw(few | st.lists(st.integers(0, 5), min_size=1, unique=True))
    brokers = st.permutations(range(1, BROKERS + 1))
    return {index: list(draw(brokers))[:size] for index in indexes}


@given(clusters(), assignments())
def test_assignments_come_true_within_the_limits(cluster: DrivenCluster, wanted: dict[int, list[int]]) -> None:
    before, load = cluster.partitions("t"), held(cluster)
    [code] = alter(cluster, altered("t", assignment=wanted))
    after = cluster.partitions("t")
    if code:
        assert after == before
        return
    assert all(held(cluster)[broker_id] <= max(limit_of(cluster), load[broker_id]) for broker_id in load)
    assert [target(one) for one in after] == [wanted.get(index, list(one.replicas)) for index, one in enumerate(before)]
    if len(wanted) < len(before):
        assert len(next(iter(wanted.values()))) == len(before[0].replicas)
    assert cluster.replayed_facts() == image_facts(cluster.image)
