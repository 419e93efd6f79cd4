"""The benchmarks of connections and of hostile clients do what they say, at tiny sizes; no peer is started."""

from pathlib import Path

import pytest

from bench.measure_connections import Visits, settle
from bench.measure_hostile import PARTITIONS, REPLICATION_FACTOR, TOPIC, ask_rightly, hostile_clients
from bench.processes import Klamm
from bench.raw_client import RawClient, Refused, create_topics_frame


def test_connections_are_visited_and_what_is_left_is_read(tmp_path: Path) -> None:
    with Klamm(tmp_path / "bytecode") as server:
        visits = Visits(server)
        visits.visit_in_turn(3)
        assert len(visits.in_turn_ms) == 3
        assert visits.visit_at_once(20) > 0
        left = settle(server, visits.before.descriptors)
        assert left.descriptors == visits.before.descriptors
        assert left.resident_bytes > 0


def test_a_good_client_is_measured_among_hostile_ones_and_wrong_answers_are_refused(tmp_path: Path) -> None:
    with Klamm(tmp_path / "bytecode") as server:
        with pytest.raises(Refused, match=f"Metadata of {TOPIC}: error 3"):
            ask_rightly(server, 1)
        with RawClient(server.addresses[0]) as client:
            client.exchange(create_topics_frame(TOPIC, PARTITIONS, REPLICATION_FACTOR))
        with hostile_clients(server, ["silent", "garbage", "storm", "greedy"], 2):
            waits = ask_rightly(server, 2)
        assert len(waits) == 2 * 5
        assert min(waits) > 0
