"""The log directories of one simulated broker: their paths and ids, and which of them the broker can use.

The paths are those of `log.dirs` or `log.dir`. Nothing is stored there: a directory is a name for a part of the
broker's replicas. As in Kafka, a directory that failed is used again only after a restart of the broker.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from klamm.controller.config_definitions.table import broker_definitions
from klamm.controller.settings import Settings
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass

ALL_DIRECTORIES: Final = "*"
"""What stands for every directory in `cordoned.log.dirs`."""


@dataclass(slots=True)
class LogDir:
    """One log directory."""

    path: str
    directory_id: Uuid
    is_whole: bool = True
    """Whether its disk works. Set by a user of the simulation."""
    is_online: bool = True
    """Whether the running broker uses it."""
    is_cordoned: bool = False
    """Whether it takes no new replicas (`cordoned.log.dirs`)."""


class LogDirs:
    """The log directories of one broker, in the order of its config."""

    def __init__(self, cluster_id: str, broker_id: int, paths: Sequence[str], metadata_path: str | None) -> None:
        """`metadata_path`: the directory of the metadata log; None: the first one."""
        self.all = [LogDir(path, directory_id(cluster_id, broker_id, number)) for number, path in enumerate(paths)]
        self._metadata_path = metadata_path or self.all[0].path

    def adopt(self, registered: Sequence[Uuid]) -> None:
        """Keep the ids of a former registration of the broker, if another program has registered as many others."""
        own = {one.directory_id for one in self.all}
        if len(registered) == len(self.all) and own.isdisjoint(registered):
            for one, known in zip(self.all, registered, strict=True):
                one.directory_id = known

    @property
    def online(self) -> list[LogDir]:
        return [one for one in self.all if one.is_online]

    @property
    def offline_ids(self) -> list[Uuid]:
        """The ids that heartbeats report as offline."""
        return [one.directory_id for one in self.all if not one.is_online]

    def cordon(self, paths: str) -> None:
        """Close the directories in a value of `cordoned.log.dirs` to new replicas, and open the others."""
        named = {path.strip() for path in paths.split(",")}
        for one in self.all:
            one.is_cordoned = ALL_DIRECTORIES in named or one.path in named

    def at(self, path: str) -> LogDir | None:
        """The directory with this path; None: the config has none."""
        return next((one for one in self.all if one.path == path), None)

    def find(self, wanted: Uuid) -> LogDir | None:
        """The directory with this id; None: it is not one of this broker."""
        return next((one for one in self.all if one.directory_id == wanted), None)

    def start(self) -> str | None:
        """Use the directories that are whole. Returns why the broker cannot start without the others, or None."""
        for one in self.all:
            one.is_online = one.is_whole
        return self.reason_to_halt

    @property
    def reason_to_halt(self) -> str | None:
        """Why Kafka's broker halts in this state; None: it goes on."""
        if not self.online:
            return "none of its log directories is online"
        metadata = self.at(self._metadata_path)
        if metadata is not None and not metadata.is_online:
            return f"the directory of its metadata log, {metadata.path}, is offline"
        return None


def new_log_dirs(settings: Settings, cluster_id: str, broker_id: int) -> LogDirs:
    """The log directories of a broker according to its static configs."""
    metadata_path = settings.static_configs_of(broker_id).get("metadata.log.dir")
    return LogDirs(cluster_id, broker_id, log_dir_paths(settings, broker_id), metadata_path)


def log_dir_paths(settings: Settings, broker_id: int | None) -> list[str]:
    """The paths of a broker's log directories, each once, in the order of its config."""
    static = settings.static_configs_of(broker_id)
    listed = static.get("log.dirs") or static.get("log.dir") or broker_definitions()["log.dir"].default or ""
    paths = [path.strip() for path in listed.split(",") if path.strip()]
    return list(dict.fromkeys(paths)) or [broker_definitions()["log.dir"].default or ""]


def directory_id(cluster_id: str, broker_id: int, number: int) -> Uuid:
    """The id of a simulated broker's log directory. It never changes, so a broker that is removed and added again still
    has its replicas. (A real broker with an empty disk gets new directory ids, KIP-858.)"""
    named = f"{cluster_id}/{broker_id}" + (f"/{number}" if number else "")
    return Uuid(hashlib.blake2b(named.encode(), digest_size=16).digest())
