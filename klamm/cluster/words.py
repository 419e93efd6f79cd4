"""The options of a cluster as the words that follow `klamm serve`: for those who start one in a process of its own.

Standard library alone. Words are kept apart by what they decide, so that what is said later can replace them.
"""

from collections.abc import Mapping
from typing import Any

from klamm.cluster.options import OPTION_NAMES, checked_option
from klamm.console.shown import shown

Words = dict[str, tuple[str, ...]]
"""By what they decide, such as `brokers` or `configs num.partitions`; none where an option asks for the default."""


def words_of(options: Mapping[str, Any]) -> Words:
    """The words for options with the names and values of `klamm.Cluster`. Raises ValueError for a bad value, and
    TypeError for a name that is none."""
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
    """The words for `KEY=VALUE`."""
    return {f"configs {assignment.partition('=')[0]}": ("--set", assignment)}


def broker_config_words(assignment: str) -> Words:
    """The words for `ID:KEY=VALUE`."""
    return {f"broker_configs {assignment.partition('=')[0]}": ("--broker-set", assignment)}


def option_of(name: str) -> str:
    """How the command line calls an option that has one value."""
    assert name in OPTION_NAMES
    return f"--{name.replace('_', '-')}"


def _words(name: str, value: Any) -> tuple[str, ...]:
    if value is None or value is False or value == ():
        return ()
    if value is True:
        return (option_of(name),)
    if name == "listeners":
        return tuple(word for one in value for word in ("--listener", str(one)))
    if name == "racks":
        for rack in value:
            if "," in rack:
                raise ValueError(f"rack {shown(rack)}: a comma cannot be part of a name here")
        return (option_of(name), ",".join(value))
    if name == "advertise" and not value.port:
        return (option_of(name), str(value).removesuffix(":0"))
    return (option_of(name), str(value))
