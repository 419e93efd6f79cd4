"""The options of a cluster as command-line arguments of `klamm serve`, for `ServerProcess` and the pytest plugin.

Standard library alone. The arguments are kept by option, so that a later value of an option can replace an earlier one.
"""

from collections.abc import Mapping
from typing import Any

from klamm.cluster.options import OPTION_NAMES, checked_option
from klamm.console.shown import shown

Words = dict[str, tuple[str, ...]]
"""Arguments by the option or config that they set, such as `brokers` or `configs num.partitions`. An empty tuple: the
default."""


def words_of(options: Mapping[str, Any]) -> Words:
    """The arguments for options with the names and values of `klamm.Cluster`. Raises ValueError for an invalid value
    and TypeError for an unknown name."""
    words: Words = {}
    for name, given in options.items():
        value = checked_option(name, given)
        if name == "configs":
            for key, text in (value or {}).items():
                words |= config_words(f"{key}={text}")
        elif name == "broker_configs":
            for broker_id, configs in (value or {}).items():
                for key, text in configs.items():
                    words |= broker_config_words(f"{broker_id}:{key}={text}")
        else:
            words[name] = _words(name, value)
    return words


def config_words(assignment: str) -> Words:
    """The arguments for a broker config, `KEY=VALUE`."""
    return {f"configs {assignment.partition('=')[0]}": ("--set", assignment)}


def broker_config_words(assignment: str) -> Words:
    """The arguments for a config of one broker, `ID:KEY=VALUE`."""
    return {f"broker_configs {assignment.partition('=')[0]}": ("--broker-set", assignment)}


def option_of(name: str) -> str:
    """The command line's spelling of an option that has one value: `data_dir` is `--data-dir`."""
    assert name in OPTION_NAMES
    return f"--{name.replace('_', '-')}"


_REPEATED = {"listeners": "--listener", "add_scram": "--add-scram"}
"""Options that are given once for each of their values."""


def _words(name: str, value: Any) -> tuple[str, ...]:
    if value is None or value is False or value == ():
        return ()
    if value is True:
        return (option_of(name),)
    if name in _REPEATED:
        return tuple(word for one in value for word in (_REPEATED[name], str(one)))
    if name == "users":
        return tuple(word for user, password in value for word in ("--user", f"{user}:{password}"))
    if name == "broker_ids":
        return (option_of(name), ",".join(map(str, value)))
    if name == "racks":
        for rack in value:
            if "," in rack:
                raise ValueError(f"rack {shown(rack)}: a comma cannot be part of a name here")
        return (option_of(name), ",".join(value))
    if name == "advertise" and not value.port:
        return (option_of(name), str(value).removesuffix(":0"))
    return (option_of(name), str(value))
