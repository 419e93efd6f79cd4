"""What the measurements work with: where the peers' programs are, where data may be written, how many samples to take.

It makes servers; starting them is the measurement's own affair (`with bench.klamm() as server:`).
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.kafka_process import Kafka, KafkaCluster
from bench.processes import BROKERS, Echo, Kfake, Klamm, OtherKlamm
from bench.raw_client import RawClient, create_topics_frame, find_controller, metadata_frame

QUICK_DIVISOR = 10
LARGE_TOPIC_PARTITIONS = 100  # enough for columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """The environment of one run."""

    bytecode_dir: Path
    kfake_program: Path
    kafka_class_path: str | None
    """None: Apache Kafka is not measured."""
    data_parent: Path
    """Data directories are created below it, on the disk that is measured."""
    quick: bool
    other_tree: Path | None = None
    """Another working tree of Klamm, in kfake's place."""

    def samples(self, wanted: int, fewest: int = 3) -> int:
        """The number of samples where `wanted` are right: fewer in a quick run."""
        return max(fewest, wanted // QUICK_DIVISOR) if self.quick else wanted

    def klamm(self, *options: str, brokers: int = BROKERS) -> Klamm:
        return Klamm(self.bytecode_dir, *options, brokers=brokers)

    def kfake(self, *options: str, brokers: int = BROKERS) -> Kfake | OtherKlamm:
        if self.other_tree:
            return OtherKlamm(self.other_tree, self.bytecode_dir, *options, brokers=brokers)
        return Kfake(self.kfake_program, *options, brokers=brokers)

    def echo(self, answer_bytes: int) -> Echo:
        return Echo(answer_bytes)

    def kafka(self, folder: Path) -> Kafka:
        """A node whose storage is formatted; only where `kafka_class_path` are there."""
        assert self.kafka_class_path is not None
        return Kafka(self.kafka_class_path, folder).format()

    def kafka_cluster(self, folder: Path, brokers: int = BROKERS) -> KafkaCluster:
        """Nodes whose storage is formatted; only where `kafka_class_path` are there."""
        assert self.kafka_class_path is not None
        return KafkaCluster(self.kafka_class_path, folder, brokers)

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """An empty folder on the disk that is measured."""
        with tempfile.TemporaryDirectory(prefix="klamm-bench-", dir=self.data_parent) as name:
            yield Path(name)


def write_bytecode(bench: Workbench) -> None:
    """A start and some requests that are not measured: every later process finds the bytecode of all imports."""
    for start in (bench.klamm, bench.kfake) if bench.other_tree else (bench.klamm,):
        with start() as server, RawClient(find_controller(server.addresses[0])) as client:
            for partitions in (1, LARGE_TOPIC_PARTITIONS):
                client.exchange(create_topics_frame(f"orders-{partitions}", partitions, 1))
                client.exchange(metadata_frame(all_topics=True))
