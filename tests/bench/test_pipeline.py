"""The benchmark of the pipeline reads sound logs, counts what was made, and refuses to time less. No JVM is started."""

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench.measure_pipeline import POLICIES, loop_over, loop_record_by_record, make_shapes, place_in_a_loop, timed
from bench.pipeline_logs import BROKERS, PARTITIONS, write_log
from bench.raw_client import Refused
from klamm.controller.log.data_dir import LOG_FOLDER
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.replay import replay
from klamm.protocol.record_batch import decode_batches


def test_a_log_has_the_records_that_are_wanted_and_a_controller_can_replay_it(tmp_path: Path) -> None:
    assert write_log(tmp_path / "data", 3_000) == 3_000 + 2 * BROKERS
    image = MetadataImage()
    for segment in sorted((tmp_path / "data" / LOG_FOLDER).glob("*.log")):
        for batch in decode_batches(segment.read_bytes()):
            assert batch.base_offset == image.next_offset
            replay(image, batch.records, batch.base_offset)
    assert image.next_offset == 3_000 + 2 * BROKERS
    assert len(image.brokers) == BROKERS
    assert image.usage.partitions == 3 * PARTITIONS


def test_a_log_is_in_segments_and_clusters_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.pipeline_logs._SEGMENT_BYTES", 1)
    for cluster in (1, 2):
        write_log(tmp_path / str(cluster), 4_000, cluster)
    names = [path.name for path in sorted((tmp_path / "1" / LOG_FOLDER).iterdir())]
    assert names == [f"{offset:020d}.log" for offset in (0, *range(1_000 + 2 * BROKERS, 4_000, 1_000))]
    assert loop_over([tmp_path / "1", tmp_path / "2"], tmp_path / "rows.parquet") == 2 * (4_000 + 2 * BROKERS)
    rows = pq.read_table(tmp_path / "rows.parquet", columns=["cluster_id", "record_offset", "problem"])
    assert rows["problem"].null_count == len(rows)
    assert len(set(zip(rows["cluster_id"].to_pylist(), rows["record_offset"].to_pylist(), strict=True))) == len(rows)


def test_both_loops_see_the_same_records(tmp_path: Path) -> None:
    count = write_log(tmp_path / "data", 1_000)
    assert loop_over([tmp_path / "data"], tmp_path / "one.parquet") == count
    assert loop_record_by_record([tmp_path / "data"], tmp_path / "two.parquet") == count
    one, two = (
        Counter(pq.read_table(tmp_path / name, columns=["type"])["type"].to_pylist())
        for name in ("one.parquet", "two.parquet")
    )
    assert one == two
    assert one["PartitionRecord"] == PARTITIONS


def test_records_come_by_the_topic(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="1500 records are not so many topics of 1000"):
        write_log(tmp_path, 1_500)


def test_shapes_are_as_pipeline_md_has_them_and_the_same_each_time() -> None:
    shapes = make_shapes(200)
    assert shapes == make_shapes(200)
    assert {shape.replication_factor for shape in shapes} == {3}
    assert all(6 <= shape.brokers <= 60 and 1 <= shape.racks <= 5 for shape in shapes)
    assert all(200 <= shape.partitions <= 2_000 for shape in shapes)
    assert place_in_a_loop(shapes[:3], POLICIES) == 9


def test_what_made_fewer_rows_is_not_timed() -> None:
    assert timed(lambda: 5, 5) >= 0
    with pytest.raises(Refused, match="4 rows instead of 5"):
        timed(lambda: 4, 5)
