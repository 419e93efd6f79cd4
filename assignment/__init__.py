"""Where replicas go: arrays in, arrays out (KIP-36 now; limits of KIP-578 and placeholders of KIP-409 to come).

Pure numpy. Nothing here knows Kafka's error codes, the metadata image or the protocol: a placement that cannot be
is a `CannotPlace` with its reason, and whoever asked decides what that means to a client.
"""

from assignment.cluster_view import ClusterView
from assignment.errors import CannotPlace, CannotPlaceReason
from assignment.rack_order import rack_alternated_order
from assignment.round_robin import place_round_robin

__all__ = ["CannotPlace", "CannotPlaceReason", "ClusterView", "place_round_robin", "rack_alternated_order"]
