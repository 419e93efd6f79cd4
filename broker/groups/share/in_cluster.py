"""The configs of the share groups that one broker coordinates."""

from dataclasses import replace
from functools import lru_cache
from typing import Final

from klamm.broker.groups.share.outcome import ShareGroupSettings
from klamm.controller.configs.effective import BrokerConfigs, ResourceType, broker_configs, group_values
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.settings import Settings

_INITIALIZE_RETRY_MS: Final = 30_000
"""`group.share.initialize.retry.interval.ms` of Kafka 4.3, an internal config."""


class ShareSettingsInForce:
    """The configs in force. What requests cannot change is read once."""

    def __init__(self, settings: Settings, broker_id: int) -> None:
        self._settings = settings
        self._broker_id = broker_id
        commit_timeout_ms = settings.static_int("offsets.commit.timeout.ms", broker_id)
        self._of_broker = ShareGroupSettings(
            max_size=settings.static_int("group.share.max.size", broker_id),
            initialize_retry_ms=max(_INITIALIZE_RETRY_MS, commit_timeout_ms),
        )

    def of(self, image: MetadataImage, group_id: str) -> ShareGroupSettings:
        """Those of one group: its own, or the broker's."""
        own = image.config(ResourceType.GROUP, group_id)
        configs = broker_configs(image.configs, self._settings, self._broker_id)
        session_ms, heartbeat_ms, assignment_ms = _times_ms(configs, tuple(own.items()))
        return replace(
            self._of_broker,
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=heartbeat_ms,
            assignment_interval_ms=assignment_ms,
        )


@lru_cache(maxsize=256)
def _times_ms(configs: BrokerConfigs, own: tuple[tuple[str, str], ...]) -> tuple[int, int, int]:
    """Session timeout, heartbeat interval and assignment interval."""
    values = group_values(configs, dict(own))
    session, heartbeat, assignment = (
        int(values[f"share.{name}.ms"] or 0)
        for name in ("session.timeout", "heartbeat.interval", "assignment.interval")
    )
    return session, heartbeat, assignment
