"""What `@pytest.mark.klamm(…)` asks for, as the words that follow `klamm serve`. pytest is not needed to read it.

The options are called as those of `klamm.Cluster`, have the same bounds, and are kept apart by what they decide, so
that a closer marker can replace one of them. Only imported once a test is marked or a cluster is asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from klamm.cluster.options import (
    MAX_BROKERS,
    MAX_SEED,
    checked_broker_configs,
    checked_configs,
    checked_number,
    checked_racks,
)
from klamm.console.shown import shown

PROFILES = ("kip", "kafka")

Words = dict[str, tuple[str, ...]]
"""By what they decide, such as `brokers` or `configs num.partitions`; none where an option asks for the default."""


def words_from_marker(positional: Sequence[object], options: Mapping[str, object]) -> Words:
    """The words for one marker's arguments. Raises ValueError, whose text is one clause for people."""
    if positional:
        raise ValueError(f"{shown(positional[0])} has no name: options are given by name, such as brokers=3")
    words: Words = {}
    for name, value in options.items():
        if name not in _WORDS:
            raise ValueError(f"there is no option {shown(name)}; there are {', '.join(_WORDS)}")
        words |= _WORDS[name](value)
    return words


def words_from_ini(values: Mapping[str, Any]) -> Words:
    """The words for ini options without their `klamm_`, all as text or lists of text; what is empty was not given.

    Nothing is refused here: `klamm serve` does so, and says why.
    """
    words: Words = {
        name: (f"--{name}", values[name]) for name in ("brokers", "racks", "seed", "profile") if values[name]
    }
    for config in values["configs"]:
        words |= _config(config)
    return words | _arguments(values["arguments"])


def _brokers(count: object) -> Words:
    return {"brokers": ("--brokers", str(checked_number("brokers", count, 1, MAX_BROKERS)))}


def _racks(racks: Any) -> Words:
    names = checked_racks(racks)
    for name in names:
        if "," in name:
            raise ValueError(f"rack {shown(name)}: a comma cannot be part of a name here")
    return {"racks": ("--racks", ",".join(names)) if names else ()}


def _seed(seed: object) -> Words:
    return {"seed": () if seed is None else ("--seed", str(checked_number("seed", seed, 0, MAX_SEED)))}


def _profile(profile: object) -> Words:
    if profile not in PROFILES:
        raise ValueError(f"profile {shown(profile)}: {' or '.join(PROFILES)} is expected")
    return {"profile": ("--profile", str(profile))}


def _configs(configs: object) -> Words:
    words: Words = {}
    for key, value in checked_configs(configs).items():
        words |= _config(f"{key}={value}")
    return words


def _broker_configs(broker_configs: object) -> Words:
    return {
        f"broker_configs {broker_id}:{key}": ("--broker-set", f"{broker_id}:{key}={value}")
        for broker_id, configs in checked_broker_configs(broker_configs).items()
        for key, value in configs.items()
    }


def _arguments(arguments: object) -> Words:
    if isinstance(arguments, str) or not isinstance(arguments, Sequence):
        raise ValueError(f'arguments {shown(arguments)}: a sequence of words is expected, such as ("--seed", "7")')
    for argument in arguments:
        if not isinstance(argument, str):
            raise ValueError(f"argument {shown(argument)}: a string is expected")
    return {"arguments": tuple(arguments)}


def _config(config: str) -> Words:
    return {f"configs {config.partition('=')[0]}": ("--set", config)}


_WORDS: dict[str, Callable[[Any], Words]] = {
    "brokers": _brokers,
    "racks": _racks,
    "seed": _seed,
    "profile": _profile,
    "configs": _configs,
    "broker_configs": _broker_configs,
    "arguments": _arguments,
}
