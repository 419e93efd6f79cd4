"""A plain implementation of KIP-36's round robin, one broker at a time: the oracle of the property tests.

It is written from the text of the KIP, simple and slow, and shares no code with `assignment`.
"""


def alternate_racks(brokers: list[tuple[int, str]]) -> list[int]:
    """Broker ids with racks in turn, racks by UTF-16 units, ids ascending within a rack."""
    waiting: dict[str, list[int]] = {}
    for broker_id, rack in sorted(brokers):
        waiting.setdefault(rack, []).append(broker_id)
    racks = sorted(waiting, key=lambda rack: rack.encode("utf-16-be", "surrogatepass"))
    ring: list[int] = []
    while len(ring) < len(brokers):
        for rack in racks:
            ring += waiting[rack][:1]
            waiting[rack] = waiting[rack][1:]
    return ring


def place_one_by_one(
    brokers: list[tuple[int, str | None]], partitions: int, rf: int, start: int, shift: int, first_partition: int = 0
) -> list[list[int]]:
    """The replicas of each partition, found by trying one broker after the other."""
    racked = [(broker_id, rack) for broker_id, rack in brokers if rack is not None]
    rack_of = dict(racked)
    ring = alternate_racks(racked) if racked else [broker_id for broker_id, _ in brokers]
    stride = len(set(rack_of.values())) if racked else 1
    rows = []
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(ring) == 0:
            shift += 1
        leader = (partition + start) % len(ring)
        row = [ring[leader]]
        tried = 0
        while len(row) < rf:
            candidate = ring[(leader + 1 + (shift * stride + tried) % (len(ring) - 1)) % len(ring)]
            tried += 1
            racks_taken = {rack_of[taken] for taken in row} if racked else set()
            spread_already = len(racks_taken) == stride or not racked
            if candidate not in row and (spread_already or rack_of[candidate] not in racks_taken):
                row.append(candidate)
        rows.append(row)
    return rows
