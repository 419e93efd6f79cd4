"""The broker configs of groups and offsets, as one value. All of them are read when a shard begins."""

from dataclasses import dataclass

from klamm.controller.settings import Settings


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Kafka's configs of the same names; times in ms."""

    max_size: int
    """`group.max.size`: the most members of a classic group."""
    initial_rebalance_delay_ms: int
    min_session_timeout_ms: int
    max_session_timeout_ms: int
    offset_metadata_max_bytes: int
    """`offset.metadata.max.bytes`: the most UTF-16 characters of an offset's metadata."""
    offsets_retention_ms: int
    offsets_retention_check_interval_ms: int


def group_settings(settings: Settings, broker_id: int) -> GroupSettings:
    """The configs of one broker."""
    return GroupSettings(
        max_size=settings.static_int("group.max.size", broker_id),
        initial_rebalance_delay_ms=settings.static_int("group.initial.rebalance.delay.ms", broker_id),
        min_session_timeout_ms=settings.static_int("group.min.session.timeout.ms", broker_id),
        max_session_timeout_ms=settings.static_int("group.max.session.timeout.ms", broker_id),
        offset_metadata_max_bytes=settings.static_int("offset.metadata.max.bytes", broker_id),
        offsets_retention_ms=settings.static_int("offsets.retention.minutes", broker_id) * 60_000,
        offsets_retention_check_interval_ms=settings.static_int("offsets.retention.check.interval.ms", broker_id),
    )
