"""What simulated brokers of Kafka 4.3 say in their registrations."""

from klamm.controller.transitions.features import SUPPORTED_FEATURES

REGISTERED_FEATURES = tuple((name, *levels) for name, levels in SUPPORTED_FEATURES.items())
"""The features, as in the image."""
