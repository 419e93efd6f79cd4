"""The log directories of the simulated brokers: what `--log-dirs` and the config `log.dirs` say together.

`--log-dirs 3` makes the configs `log.dirs` and `metadata.log.dir`, so that clients and tools see the same as on brokers
of Apache Kafka. Nothing is stored in these directories.
"""

from collections.abc import Mapping
from dataclasses import replace

from klamm.cluster.options import ClusterOptions
from klamm.controller.data_limits import MAX_LOG_DIRS
from klamm.controller.settings import Settings, SettingsError

_NAMES = ("log.dirs", "log.dir")
_DEFAULT = "/tmp/kafka-logs"
METADATA = "metadata.log.dir"


def with_log_dirs(options: ClusterOptions, settings: Settings) -> Settings:
    """The settings with the directories that the option asks for. Raises SettingsError if a config names others."""
    shared = _with_log_dirs(options.log_dirs, settings.static_configs, "", shared={})
    own = {
        broker_id: _with_log_dirs(options.log_dirs, configs, f" of broker {broker_id}", shared=shared)
        for broker_id, configs in settings.broker_static_configs.items()
    }
    return replace(settings, static_configs=shared, broker_static_configs=own)


def _with_log_dirs(
    wanted: int | None, configs: Mapping[str, str], whose: str, *, shared: Mapping[str, str]
) -> dict[str, str]:
    name = next((one for one in _NAMES if configs.get(one)), None)
    if name is None and whose:
        return dict(configs)  # the broker has those of all brokers
    listed = configs[name] if name else _DEFAULT
    paths = list(dict.fromkeys(path.strip() for path in listed.split(",") if path.strip()))
    if len(paths) > MAX_LOG_DIRS:
        raise SettingsError(f"{name}{whose} names {len(paths)} directories: at most {MAX_LOG_DIRS} are possible")
    if wanted is None or len(paths) == wanted:
        return dict(configs)
    if len(paths) != 1:
        raise SettingsError(f"{name}{whose} names {len(paths)} directories, and --log-dirs is {wanted}")
    several = {"log.dirs": ",".join(f"{paths[0]}-{number}" for number in range(1, wanted + 1))}
    if METADATA not in configs and METADATA not in shared:
        several[METADATA] = f"{paths[0]}-metadata"
    return {**configs, **several}
