"""The configs of share groups that leaders need: a group's own, or the broker's defaults."""

from klamm.broker.share_partitions.share_partition import ShareConfigs
from klamm.controller.configs.effective import ResourceType, broker_configs, group_values
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.settings import Settings

_MOST_GROUPS = 10_000
"""Groups whose configs are kept; then all are read again."""


class ShareConfigsInForce:
    """The configs by group, as of the present metadata."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._as_of = -1
        self._known: dict[str, ShareConfigs] = {}

    def of(self, image: MetadataImage, group_id: str) -> ShareConfigs:
        """Those of one group. Defaults are cluster-wide ones, because every broker may lead its partitions."""
        if image.next_offset != self._as_of or len(self._known) > _MOST_GROUPS:
            self._known.clear()
            self._as_of = image.next_offset
        found = self._known.get(group_id)
        if found is None:
            found = self._known[group_id] = self._read(image, group_id)
        return found

    def _read(self, image: MetadataImage, group_id: str) -> ShareConfigs:
        own = image.config(ResourceType.GROUP, group_id)
        configs = broker_configs(image.configs, self._settings, None)
        values = group_values(configs, dict(own))
        return ShareConfigs(
            delivery_limit=int(values["share.delivery.count.limit"] or 0),
            max_locks=int(values["share.partition.max.record.locks"] or 0),
            lock_duration_ms=int(values["share.record.lock.duration.ms"] or 0),
            renew_enabled=values["share.renew.acknowledge.enable"] == "true",
            auto_offset_reset=values["share.auto.offset.reset"] or "latest",
            read_committed=values["share.isolation.level"] == "read_committed",
        )
