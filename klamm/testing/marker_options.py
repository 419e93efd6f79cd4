"""The options of `@pytest.mark.klamm(…)` and of the ini file, as command-line arguments of `klamm serve`.

The options have the names and values of `klamm.Cluster`. They are kept by option, so that a closer marker can replace
single ones. This module does not import pytest; the plugin imports it when a test has the marker or uses a cluster.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from klamm.cluster.options import OPTION_NAMES, no_option
from klamm.cluster.words import Words, broker_config_words, config_words, option_of, words_of
from klamm.console.shown import shown

_ARGUMENTS = "arguments"
_BY_LINE = {"users": "--user", "listeners": "--listener", "add_scram": "--add-scram"}
"""Options with one value in each line of the ini file."""
_RIVALS = (("listeners", "listen"), ("listen", "listeners"), ("broker_ids", "brokers"), ("brokers", "broker_ids"))


def words_from_marker(positional: Sequence[object], options: Mapping[str, object]) -> Words:
    """The `klamm serve` arguments for the arguments of one marker. Raises ValueError; its text is one clause."""
    if positional:
        raise ValueError(f"{shown(positional[0])} has no name: options are given by name, such as brokers=3")
    words: Words = {}
    for name, value in options.items():
        if name == _ARGUMENTS:
            words |= _arguments(value)
        elif name in OPTION_NAMES:
            words |= words_of({name: value})
        else:
            raise ValueError(no_option(name, (*OPTION_NAMES, _ARGUMENTS)))
    return _without_rivals(words)


def words_from_ini(values: Mapping[str, Any]) -> Words:
    """The `klamm serve` arguments for ini options, by name without `klamm_`; an empty value means that it is not set.

    Values are texts, flags or lists of texts. They are not validated here, because `klamm serve` does so.
    """
    words: Words = {}
    for name, value in values.items():
        if not value:
            continue
        if name == "configs":
            for assignment in value:
                words |= config_words(assignment)
        elif name == "broker_configs":
            for assignment in value:
                words |= broker_config_words(assignment)
        elif name in _BY_LINE:
            words[name] = tuple(word for one in value for word in (_BY_LINE[name], one))
        elif name == _ARGUMENTS:
            words |= _arguments(value)
        else:
            words[name] = (option_of(name),) if value is True else (option_of(name), value)
    return words


def _without_rivals(closer: Words) -> Words:
    """Add an empty `listen` to options with `listeners`, or the reverse, and the same for `brokers` and `broker_ids`:
    each replaces the other of a farther marker or of the ini file."""
    replaced: Words = {}
    for name, rival in _RIVALS:
        if closer.get(name) and rival not in closer:
            replaced[rival] = ()
    return {**replaced, **closer}


def _arguments(arguments: object) -> Words:
    if isinstance(arguments, str) or not isinstance(arguments, Sequence):
        raise ValueError(f'arguments {shown(arguments)}: a sequence of words is expected, such as ("--seed", "7")')
    for argument in arguments:
        if not isinstance(argument, str):
            raise ValueError(f"argument {shown(argument)}: a string is expected")
    return {_ARGUMENTS: tuple(arguments)}
