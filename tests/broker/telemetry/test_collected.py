"""What is kept of pushed metrics, and its bounds."""

from klamm.broker.telemetry.collected import CollectedMetrics, PushingClient
from klamm.broker.telemetry.otlp import Point
from klamm.protocol.uuid import Uuid


def client(number: int, **fields: object) -> PushingClient:
    return PushingClient(Uuid(bytes((number,)) * 16), broker_id=1, **fields)  # type: ignore[arg-type]


def points(*values: int, name: str = "m") -> list[Point]:
    return [Point(f"{name}{place}", "gauge", value=value) for place, value in enumerate(values)]


def test_the_latest_value_of_each_metric_is_kept() -> None:
    collected = CollectedMetrics()
    collected.add(client(1, pushed_ms=1), points(1, 2))
    collected.add(client(1, pushed_ms=2), points(5))
    (one,) = collected
    assert [(point.name, point.value) for point in one.points.values()] == [("m0", 5), ("m1", 2)]
    assert (one.pushes, one.pushed_ms) == (2, 2)
    assert collected.find(client(2).client_instance_id) is None


def test_attributes_make_another_metric() -> None:
    collected = CollectedMetrics()
    collected.add(client(1), [Point("m", "gauge", attributes=(("topic", name),), value=1) for name in "ab"])
    assert [len(one.points) for one in collected] == [2]


def test_metrics_beyond_the_most_of_a_client_are_counted() -> None:
    collected = CollectedMetrics(points=2)
    collected.add(client(1), points(1, 2, 3, 4))
    collected.add(client(1), points(7, 8, 9))
    (one,) = collected
    assert [point.value for point in one.points.values()] == [7, 8]
    assert one.left_out == 1


def test_the_client_that_was_silent_for_the_longest_time_is_forgotten() -> None:
    collected = CollectedMetrics(clients=2)
    for number in (1, 2, 1, 3):
        collected.add(client(number), [])
    assert [one.client_instance_id[0] for one in collected] == [1, 3]
    collected = CollectedMetrics(in_all=5)
    collected.add(client(1), points(1, 2, 3))
    collected.add(client(2), points(1, 2))
    assert len(list(collected)) == 2
    collected.add(client(2), points(1, name="n"))
    assert [one.client_instance_id[0] for one in collected] == [2]
    collected.add(client(3), points(1, 2))
    assert len(list(collected)) == 2, "what was forgotten counts no longer"
