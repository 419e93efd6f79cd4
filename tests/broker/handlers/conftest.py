"""The fixtures of the handlers' tests: both profiles, and clusters of the controller and its brokers."""

from tests.controller.handlers.conftest import cluster, profile, start

__all__ = ["cluster", "profile", "start"]
