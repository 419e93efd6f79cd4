"""The tables and the controller agree for random clusters, at every batch of their logs."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import Partition
from klamm.controller.metadata.usage import UNLIMITED_TOPICS
from klamm.pipeline import silver
from klamm.pipeline.gold import load
from tests.pipeline.histories import Batch, History, count_load, partitions_of

Row = Mapping[str, Any]
_LISTS = (
    *("replicas", "isr", "adding_replicas", "removing_replicas"),
    *("eligible_leader_replicas", "last_known_elr"),
)


class Tables(NamedTuple):
    """All rows, by cluster."""

    topics: dict[str, list[Row]]
    versions: dict[str, list[Row]]
    brokers: dict[str, list[Row]]
    configs: dict[str, list[Row]]
    load: dict[str, list[Row]]
    quality: dict[str, list[Row]]
    headroom: dict[str, list[Row]]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, histories: list[History]) -> Tables:
    paths = "\n".join(str(history.data_dir) for history in histories)
    bronze = spark.read.format("kraft-log").option("logs", paths).load().localCheckpoint()
    records = silver.sound_records(bronze).localCheckpoint()
    topics = silver.topics(records).localCheckpoint()
    versions = silver.partition_versions(records, topics).localCheckpoint()
    brokers = silver.broker_versions(records).localCheckpoint()
    configs = silver.config_versions(records, topics).localCheckpoint()
    by_broker = load.broker_load(versions, brokers).localCheckpoint()
    totals = load.partition_totals(versions, brokers).localCheckpoint()
    sampled = load.load_at_samples(by_broker, load.sample_offsets(totals), brokers).localCheckpoint()
    gold = (load.placement_quality(sampled, totals), load.limit_headroom(sampled, totals, configs))
    return Tables(*map(_by_cluster, (topics, versions, brokers, configs, by_broker, *gold)))


def _by_cluster(rows: DataFrame) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows.collect():
        found[row["cluster_id"]].append(row.asDict())
    return found


def _then(rows: Iterable[Row], batch_offset: int) -> Iterator[Row]:
    """The versions that are valid after the batch that begins at this offset."""
    for row in rows:
        end = row["valid_to_batch"]
        if row["valid_from_batch"] <= batch_offset and (end is None or end > batch_offset):
            yield row


def _at(rows: Iterable[Row], batch: Batch) -> Iterator[Row]:
    """The versions that are valid after the last record of a batch."""
    for row in rows:
        end = row["valid_to_offset"]
        if row["valid_from_offset"] <= batch.last_offset and (end is None or end > batch.last_offset):
            yield row


def _partition(row: Row) -> tuple[Any, ...]:
    lists = (tuple(row[name]) for name in _LISTS)
    return (row["topic"], *lists, row["leader"], row["leader_epoch"], row["partition_epoch"], row["placeholders"])


def _facts(topic: str, partition: Partition) -> tuple[Any, ...]:
    lists = (tuple(getattr(partition, name)) for name in _LISTS)
    placeholders = sum(replica < 0 for replica in partition.replicas)
    return (topic, *lists, partition.leader, partition.leader_epoch, partition.partition_epoch, placeholders)


def _partitions(image: MetadataImage) -> dict[tuple[str, int], tuple[Any, ...]]:
    return {(topic_id, index): _facts(topic, partition) for topic_id, topic, index, partition in partitions_of(image)}


def test_open_versions_are_the_image(tables: Tables, histories: list[History]) -> None:
    for history in histories:
        image, own = history.final_image(), history.cluster_id
        partitions = {
            (row["topic_id"], row["partition_index"]): _partition(row)
            for row in tables.versions[own]
            if row["valid_to_offset"] is None
        }
        assert partitions == _partitions(image), history.data_dir
        topics = {row["topic_id"]: row["name"] for row in tables.topics[own] if row["deleted_offset"] is None}
        assert topics == {str(topic.topic_id): topic.name for topic in image.topics_by_name.values()}
        assert len(topics) < len(tables.topics[own]) or not any(row["deleted_offset"] for row in tables.topics[own])


def test_versions_are_the_image_at_every_batch(tables: Tables, histories: list[History]) -> None:
    compared = 0
    for history in histories:
        rows = tables.versions[history.cluster_id]
        for batch in history.batches():
            there = {
                (row["topic_id"], row["partition_index"]): _partition(row) for row in _then(rows, batch.base_offset)
            }
            assert there == _partitions(batch.image), (history.data_dir, batch.base_offset)
            compared += 1
    assert compared > 200


def test_brokers_and_configs_are_the_image_at_every_batch(tables: Tables, histories: list[History]) -> None:
    for history in histories:
        for batch in history.batches():
            brokers = {
                row["broker_id"]: tuple(
                    row[name] for name in ("broker_epoch", "incarnation_id", "rack", "fenced", "in_controlled_shutdown")
                )
                for row in _at(tables.brokers[history.cluster_id], batch)
                if row["registered"]
            }
            assert brokers == {
                one.broker_id: (
                    one.broker_epoch,
                    str(one.incarnation_id),
                    one.rack,
                    one.fenced,
                    one.in_controlled_shutdown,
                )
                for one in batch.image.brokers.values()
            }, (history.data_dir, batch.base_offset)
            configs: dict[tuple[int, str], dict[str, str]] = defaultdict(dict)
            for row in _at(tables.configs[history.cluster_id], batch):
                configs[row["resource_type"], row["resource_name"]][row["name"]] = row["value"]
            assert configs == batch.image.configs, (history.data_dir, batch.base_offset)


def test_broker_load_is_a_recount_at_every_batch(tables: Tables, histories: list[History]) -> None:
    names = ("replica_count", "limited_count", "leader_count", "preferred_leader_count")
    for history in histories:
        changes: dict[int, dict[int, tuple[int, ...]]] = defaultdict(dict)
        for row in tables.load[history.cluster_id]:
            changes[row["record_offset"]][row["broker_id"]] = tuple(row[name] for name in names)
        loads: dict[int, tuple[int, ...]] = {}
        for batch in history.batches():
            loads |= changes.pop(batch.base_offset, {})
            counted = count_load(batch.image, UNLIMITED_TOPICS)
            assert {broker: load for broker, load in loads.items() if any(load)} == counted, (
                history.data_dir,
                batch.base_offset,
            )
        assert not changes


def test_quality_and_headroom_are_a_recount(tables: Tables, histories: list[History]) -> None:
    for history in histories:
        quality = {row["record_offset"]: row for row in tables.quality[history.cluster_id]}
        headroom = defaultdict(list)
        for row in tables.headroom[history.cluster_id]:
            headroom[row["record_offset"]].append(row)
        assert quality.keys() == headroom.keys()
        last = 0
        for batch in history.batches():
            if batch.base_offset in quality:
                _compare_quality(quality.pop(batch.base_offset), batch.image)
                _compare_headroom(headroom[batch.base_offset], batch.image)
                last = batch.base_offset
        assert not quality
        assert not last or last >= max(row["record_offset"] for row in tables.load[history.cluster_id])


def _compare_quality(row: Row, image: MetadataImage) -> None:
    partitions = [partition for *_, partition in partitions_of(image)]
    loads = count_load(image, UNLIMITED_TOPICS)
    counts = [loads.get(broker_id, (0, 0, 0, 0)) for broker_id in image.brokers]
    replicas = [count[0] for count in counts]
    assert row["partitions"] == len(partitions)
    assert row["brokers"] == len(image.brokers)
    assert row["placeholders"] == sum(replica < 0 for one in partitions for replica in one.replicas)
    assert row["replicas"] == sum(replica >= 0 for one in partitions for replica in one.replicas)
    assert _close(row["replica_cv"], _cv(replicas))
    assert _close(row["leader_cv"], _cv([count[2] for count in counts]))
    assert _close(row["max_over_mean"], max(replicas) * len(replicas) / sum(replicas) if sum(replicas) else None)
    preferred = sum(one.leader == one.replicas[0] for one in partitions)
    assert _close(row["preferred_leader_share"], preferred / len(partitions) if partitions else None)


def _cv(counts: list[int]) -> float | None:
    mean = sum(counts) / len(counts) if counts else 0
    return math.sqrt(sum((count - mean) ** 2 for count in counts) / len(counts)) / mean if mean else None


def _close(found: float | None, expected: float | None) -> bool:
    return found is expected or (found is not None and expected is not None and math.isclose(found, expected))


def _compare_headroom(rows: Iterable[Row], image: MetadataImage) -> None:
    for row in rows:
        if row["scope"] == "broker":
            used, name = image.usage.replicas.get(row["broker_id"], 0), "max.broker.partitions"
        else:
            used, name = image.usage.partitions, "max.partitions"
        of_all, own = image.config(4, ""), image.config(4, str(row["broker_id"]))
        limit = own.get(name, of_all.get(name)) if row["scope"] == "broker" else of_all.get(name)
        assert row["used"] == used, row
        assert row["limit"] == (None if limit is None else int(limit)), row
        assert row["headroom"] == (None if limit is None else max(int(limit) - used, 0)), row
