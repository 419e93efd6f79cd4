"""The metrics that clients pushed, for people: the latest value of each metric of each client, in bounded memory."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Final

from klamm.broker.telemetry.otlp import Point
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass

MAX_CLIENTS: Final = 1000
MAX_POINTS: Final = 1000
"""Most metrics kept of one client; others are counted."""
MAX_POINTS_IN_ALL: Final = 50_000
"""Above either bound, the client that pushed nothing for the longest time is forgotten."""

PointKey = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class PushingClient:
    """What one client pushed."""

    client_instance_id: Uuid
    broker_id: int
    """The broker that got the latest push."""
    client_id: str = ""
    software_name: str = ""
    software_version: str = ""
    host: str = ""
    pushed_ms: int = 0
    """When the latest push arrived, on the controller's clock."""
    pushes: int = 0
    is_terminated: bool = False
    left_out: int = 0
    """Metrics of the latest push that had no room."""
    points: dict[PointKey, Point] = field(default_factory=dict)
    """The latest value of each metric, by name and attributes."""


class CollectedMetrics:
    """All clients that pushed metrics, over all brokers."""

    def __init__(self, clients: int = MAX_CLIENTS, points: int = MAX_POINTS, in_all: int = MAX_POINTS_IN_ALL) -> None:
        self._bounds = clients, points, in_all
        self._clients: OrderedDict[Uuid, PushingClient] = OrderedDict()
        self._points = 0

    def __iter__(self) -> Iterator[PushingClient]:
        return iter(self._clients.values())

    def find(self, client_instance_id: Uuid) -> PushingClient | None:
        return self._clients.get(client_instance_id)

    def add(self, push: PushingClient, points: Iterable[Point]) -> None:
        """Take a push. `push` says who it is from; what was known of the client before goes on."""
        most_clients, most_points, in_all = self._bounds
        known = self._clients.pop(push.client_instance_id, None)
        if known is not None:
            push.points, push.pushes = known.points, known.pushes
        push.pushes += 1
        before = len(push.points)
        for point in points:
            key = point.name, point.attributes
            if key in push.points or len(push.points) < most_points:
                push.points[key] = point
            else:
                push.left_out += 1
        self._clients[push.client_instance_id] = push
        self._points += len(push.points) - before
        while len(self._clients) > most_clients or self._points > in_all:
            _, forgotten = self._clients.popitem(last=False)
            self._points -= len(forgotten.points)
