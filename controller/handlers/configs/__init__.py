"""Handlers of the APIs about configs."""
