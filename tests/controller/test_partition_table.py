"""The partition table compared with a plain dictionary: rows move between tables and are compacted, values stay."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from klamm.controller.metadata import partition_table
from klamm.controller.metadata.broker import MIGRATING_DIRECTORY
from klamm.controller.metadata.columns import PADDING, ColumnTable, width_class
from klamm.controller.metadata.partition import Partition
from klamm.controller.metadata.partition_table import NewRows, PartitionKey, PartitionTable
from klamm.protocol.records.partitions import PartitionRecord
from klamm.protocol.uuid import ZERO_UUID, Uuid

DIRECTORIES = [Uuid(bytes([number]) * 16) for number in range(1, 5)]
broker_lists = st.lists(st.integers(-3, 40), min_size=1, max_size=9, unique=True)


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    replicas = tuple(draw(broker_lists))
    few = st.lists(st.sampled_from(replicas), unique=True, max_size=2).map(tuple)
    return Partition(
        replicas=replicas,
        isr=tuple(draw(st.lists(st.sampled_from(replicas), unique=True))),
        leader=draw(st.sampled_from((*replicas, -1))),
        leader_epoch=draw(st.integers(0, 9)),
        partition_epoch=draw(st.integers(0, 9)),
        directories=tuple(draw(st.sampled_from(DIRECTORIES)) for _ in replicas),
        leader_recovery_state=draw(st.sampled_from((0, 1))),
        adding_replicas=draw(few),
        removing_replicas=draw(few),
        eligible_leader_replicas=draw(few),
        last_known_elr=draw(few),
    )


class TableMachine(RuleBasedStateMachine):
    """Topics are created, enlarged, changed and deleted; the table must agree with the dictionary."""

    topics = Bundle("topics")

    def __init__(self) -> None:
        super().__init__()
        self.table = PartitionTable(compact_at_dead_rows=3)
        self.model: dict[tuple[int, int], Partition] = {}
        self.next_row = 0
        self.block_partitions = partition_table.BLOCK_PARTITIONS
        partition_table.BLOCK_PARTITIONS = 4

    def teardown(self) -> None:
        partition_table.BLOCK_PARTITIONS = self.block_partitions

    @rule(target=topics, replicas=broker_lists, count=st.integers(1, 30))
    def create(self, replicas: list[int], count: int) -> int:
        self.next_row += 1
        self._append(self.next_row, replicas, count)
        return self.next_row

    @rule(topic=topics, replicas=broker_lists, count=st.integers(1, 5))
    def enlarge(self, topic: int, replicas: list[int], count: int) -> None:
        self._append(topic, replicas, count)

    @rule(topic=topics, partition=partitions(), names_directories=st.booleans())
    def enlarge_by_one(self, topic: int, partition: Partition, names_directories: bool) -> None:
        """Old records name no directories."""
        if not names_directories:
            partition = replace(partition, directories=(MIGRATING_DIRECTORY,) * len(partition.replicas))
        index = self.table.partition_count(topic)
        values = {field.name: getattr(partition, field.name) for field in fields(Partition)}
        if not names_directories:
            values["directories"] = ()
        self.table.append_one(topic, PartitionRecord(partition_id=index, topic_id=ZERO_UUID, **values))
        self.model[topic, index] = partition

    @rule(topic=topics, partition=partitions(), pick=st.integers(0, 1000))
    def write(self, topic: int, partition: Partition, pick: int) -> None:
        index = pick % self.table.partition_count(topic)
        self.table.write(topic, index, partition)
        self.model[topic, index] = partition

    @rule(wanted=st.lists(topics, unique=True, max_size=3), pick=st.integers(0, 1000), count=st.integers(1, 20))
    def make_room(self, wanted: list[int], pick: int, count: int) -> None:
        """Make room for one partition of each topic."""
        keys = [(topic, pick % self.table.partition_count(topic)) for topic in wanted]
        self.table.make_room([(topic, [index]) for topic, index in keys], count)
        assert all(self.table.locate(*key)[0].width >= count for key in keys)

    @rule(topic=consumes(topics))
    def remove(self, topic: int) -> None:
        self.table.remove_topic(topic)
        self.model = {key: partition for key, partition in self.model.items() if key[0] != topic}

    def _append(self, topic: int, replicas: list[int], count: int) -> None:
        first = self.table.partition_count(topic)
        isr = replicas[:1]
        numbers = [self.table.directory_ids.number(DIRECTORIES[0])] * len(replicas)
        new = NewRows(
            partition_index=self.table.next_indexes([(topic, count)]),
            replicas=np.array([replicas] * count, dtype=np.int32),
            isr=np.array([isr] * count, dtype=np.int32),
            directories=np.array([numbers] * count, dtype=np.int32),
            leader=np.full(count, isr[0], dtype=np.int32),
            leader_epoch=0,
            partition_epoch=0,
            leader_recovery_state=0,
        )
        self.table.append([(topic, count)], new)
        partition = Partition(tuple(replicas), tuple(isr), isr[0], 0, 0, (DIRECTORIES[0],) * len(replicas))
        self.model.update({(topic, index): partition for index in range(first, first + count)})

    @invariant()
    def says_what_the_model_says(self) -> None:
        found = {(topic, index): self.table.read(topic, index) for topic, index in self.model}
        assert found == self.model
        assert self.table.read_many([*map(PartitionKey._make, self.model), PartitionKey(1, -1)]) == self.model
        alive = sum(table.count - table.dead for table in self.table.tables.values())
        assert alive == len(self.model)

    @invariant()
    def dead_rows_are_found_by_no_column_operation(self) -> None:
        for table in self.table.tables.values():
            dead = table.topic_row[: table.count] == -1
            assert (table.isr[: table.count][dead] == PADDING).all()
            assert int(dead.sum()) == table.dead


TestTable = TableMachine.TestCase
TestTable.settings = settings(stateful_step_count=30, deadline=None)


def test_compaction_gives_back_the_rows_of_deleted_topics() -> None:
    """A process that creates and deletes topics for years must not grow."""
    machine = TableMachine()
    machine.table = PartitionTable()
    machine.create([1, 2, 3], 10)
    for _ in range(3 * partition_table.COMPACT_AT_DEAD_ROWS // 100 + 1):
        machine.remove(machine.create([1, 2, 3], 100))
    table = machine.table.tables[3]
    assert table.count <= 10 + partition_table.COMPACT_AT_DEAD_ROWS + 100
    machine.says_what_the_model_says()


def test_neighbours_move_to_wider_rows_together() -> None:
    """Otherwise a topic in which every other partition has been moved would consist of pieces of one row."""
    machine = TableMachine()
    partition_table.BLOCK_PARTITIONS = machine.block_partitions
    count = 3 * partition_table.BLOCK_PARTITIONS
    machine.create([1, 2, 3], count)
    topic = machine.next_row
    for index in range(0, count, 2):
        machine.write(topic, Partition((1, 2, 3, 4), (1,), 1, 0, 0, (DIRECTORIES[0],) * 4), index)
    assert len(machine.table.ranges[topic]) == 1
    assert machine.table.tables[3].dead == machine.table.tables[3].count == 0  # compacted
    machine.says_what_the_model_says()


def test_a_width_class_holds_its_replicas_and_wastes_less_than_half() -> None:
    for replica_count in range(1, 2000):
        width = width_class(replica_count)
        assert replica_count <= width < 2 * max(replica_count, 1) + 1


def contents(table: PartitionTable) -> dict[str, object]:
    """All values of a table, by row."""
    columns = {
        width: [of_width.count, of_width.dead, [named(of_width, name) for name, _, _ in of_width._layout(0)]]
        for width, of_width in table.tables.items()
    }
    sparse = {name: getattr(table, name).copy() for name in ("ranges", "reassigning", "elr")}
    return {"columns": columns, "directories": list(table.directory_ids.ids), **sparse}


def named(table: ColumnTable, name: str) -> list[object]:
    """A column, up to the number of rows."""
    rows: list[object] = getattr(table, name)[: table.count].tolist()
    return rows


@pytest.mark.parametrize("rooms", [False, True], ids=["no room was made", "room was made"])
@pytest.mark.parametrize("later", [0, 100])
def test_a_copy_holds_the_same_rows_and_then_goes_its_own_way(rooms: bool, later: int) -> None:
    """The room for a copy is allocated before, in a thread: the table may have grown by then."""
    machine = TableMachine()
    partition_table.BLOCK_PARTITIONS = machine.block_partitions
    machine.table = PartitionTable()
    for replicas, count in (([1], 40), ([1, 2, 3], 200), ([1, 2, 3, 4, 5], 3)):
        machine.create(replicas, count)
    machine.remove(1)
    for key in [key for key in machine.model if key[0] == 2][:3]:
        machine.write(2, Partition((1, 2, 3), (1,), 1, 0, 0, (DIRECTORIES[1],) * 3, adding_replicas=(2,)), key[1])
    machine.write(3, Partition((5,), (5,), 5, 0, 0, (DIRECTORIES[1],), eligible_leader_replicas=(2,)), 0)
    room = machine.table.room() if rooms else None
    if room is not None:
        assert {(table.count, table.dead) for table in room.tables.values()} == {(0, 0)}
        capacity = {width: len(table.topic_row) for width, table in room.tables.items()}
        used = {width: table.count for width, table in machine.table.tables.items()}
        assert all(used[width] <= capacity[width] <= max(16, 2 * used[width]) for width in used)
        assert capacity[3] >= 200 + 200 // 16
    if later:
        machine.create([1, 2], later)
    copied = machine.table.copy(room)
    before = contents(machine.table)
    assert contents(copied) == before
    machine.write(3, Partition((9,), (9,), 9, 0, 0, (DIRECTORIES[2],), removing_replicas=(9,)), 1)
    machine.write(3, Partition((9,), (), -1, 0, 0, (DIRECTORIES[2],), eligible_leader_replicas=(9,)), 2)
    machine.remove(2)
    assert contents(copied) == before


def test_indexes_go_on_where_a_topic_ended_though_it_comes_in_pieces() -> None:
    """Topics whose partitions alternate in one batch; no controller writes that, but a log may have it."""
    machine = TableMachine()
    machine.create([1], 5)
    owners = [(1, 2), (2, 3), (1, 4), (2, 1), (1, 1)]
    assert machine.table.next_indexes(owners).tolist() == [5, 6, 0, 1, 2, 7, 8, 9, 10, 3, 11]
