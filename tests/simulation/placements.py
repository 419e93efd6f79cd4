"""What new rows of an automatic placement have to be: whole, on brokers that may take them, over enough racks."""

from collections import Counter
from collections.abc import Iterable, Sequence

from tests.simulation.judgement import Asked


def check_placement(asked: Asked, name: str, rows: Sequence[Sequence[int]], replication_factor: int) -> None:
    """Before the rows are taken: `asked` knows what there was."""
    model, room = asked.model, asked.room(name)
    usable = model.usable()
    live = [broker_id for broker_id in usable if model.brokers[broker_id].live]
    width = min(replication_factor, len(usable))
    for row in rows:
        assert list(row[width:]) == list(range(-1, width - replication_factor - 1, -1)), "placeholders stand last"
        assert len(set(row)) == len(row) == replication_factor
        assert set(row[:width]) <= set(usable)
        # A fenced broker, which only Kafka's own placement uses, may follow when its rack's turn comes, never lead.
        assert row[0] in live
    added = Counter(replica for row in rows for replica in row[:width])
    assert all(more <= room[broker_id] for broker_id, more in added.items())
    capacity = {broker_id: min(room[broker_id], len(rows)) for broker_id in usable}
    spread = sum(len(_racks(asked, row[:width])) for row in rows)
    if model.profile == "kip" or min(capacity.values()) == len(rows):
        assert spread == _widest(asked, capacity, usable, len(rows), width)
        return
    # Kafka's placement puts what must be on fenced brokers beside what is on live ones.
    on_live = min(width, len(live))
    if sum(capacity[broker_id] for broker_id in live) >= on_live * len(rows):
        assert spread >= _widest(asked, capacity, live, len(rows), on_live)


def _widest(asked: Asked, capacity: dict[int, int], brokers: Iterable[int], partitions: int, width: int) -> int:
    """Most racks that all rows together can have: a rack counts once in a row, and has room for so many."""
    of_rack: Counter[object] = Counter()
    for broker_id in brokers:
        of_rack[_rack(asked, broker_id)] += capacity[broker_id]
    return min(sum(min(room, partitions) for room in of_rack.values()), partitions * width)


def _racks(asked: Asked, row: Iterable[int]) -> set[object]:
    return {_rack(asked, broker_id) for broker_id in row}


def _rack(asked: Asked, broker_id: int) -> object:
    """Where some brokers have no rack, KIP-36's safe mode takes each for a rack of its own."""
    model = asked.model
    mixed = None in {model.rack(other) for other in model.usable()}
    return broker_id if model.profile == "kip" and mixed else (model.rack(broker_id),)
