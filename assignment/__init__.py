"""Assigns replicas to brokers: arrays in, arrays out (KIP-36, limits of KIP-578, placeholders of KIP-409).

Pure NumPy. This package uses neither Kafka's error codes nor the metadata image nor the protocol. If no placement
exists, it raises `CannotPlace` with a reason, and the caller chooses the error code for the client.
"""

from klamm.assignment.audit import Violation, ViolationKind, audit
from klamm.assignment.cluster_view import MAX_BROKERS, NO_LIMIT, ClusterView
from klamm.assignment.errors import CannotPlace, CannotPlaceReason
from klamm.assignment.kafka.java_random import JavaRandom
from klamm.assignment.kafka.rack_order import rack_alternated_order
from klamm.assignment.kafka.round_robin import place_round_robin
from klamm.assignment.kafka.striped import place_striped
from klamm.assignment.place import MAX_PLACEHOLDERS, Algorithm, Asked, PlacementSpec, place, place_together
from klamm.assignment.placeholders import fill_placeholders, rows_to_fill
from klamm.assignment.rebalance import Rebalanced, rebalance
from klamm.assignment.resize import grow, shrink

__all__ = [
    "MAX_BROKERS",
    "MAX_PLACEHOLDERS",
    "NO_LIMIT",
    "Algorithm",
    "Asked",
    "CannotPlace",
    "CannotPlaceReason",
    "ClusterView",
    "JavaRandom",
    "PlacementSpec",
    "Rebalanced",
    "Violation",
    "ViolationKind",
    "audit",
    "fill_placeholders",
    "grow",
    "place",
    "place_round_robin",
    "place_striped",
    "place_together",
    "rack_alternated_order",
    "rebalance",
    "rows_to_fill",
    "shrink",
]
