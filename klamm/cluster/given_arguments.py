"""What arguments of `klamm serve` say about its listeners and its ready lines, for `klamm.ServerProcess`.

The arguments are not validated here, because the server does so. The standard library alone.
"""

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from klamm.controller.config_definitions.properties_file import decode_properties

LISTENERS = "listeners"


def gives(arguments: Sequence[str], option: str) -> bool:
    """Whether the arguments have this option."""
    return any(argument == option or argument.startswith(f"{option}=") for argument in arguments)


def values_of(arguments: Sequence[str], option: str) -> list[str]:
    """The values of an option, written as `--option value` or `--option=value`."""
    following = [value for word, value in pairwise(arguments) if word == option]
    return following + [word.partition("=")[2] for word in arguments if word.startswith(f"{option}=")]


def _listeners_config(arguments: Sequence[str]) -> str | None:
    """The value of the config `listeners`: in the arguments, or else in the file that they name. None: it has none, or
    options have the listeners."""
    if any(gives(arguments, option) for option in ("--listen", "--listener", "--security", "--user", "--tls")):
        return None
    for assignment in reversed(values_of(arguments, "--set")):
        key, _, value = assignment.partition("=")
        if key.strip() == LISTENERS:
            return value
    for path in values_of(arguments, "--config"):
        with suppress(OSError, ValueError):  # the server names the error
            return decode_properties(Path(path).read_bytes()).get(LISTENERS)
    return None


def listens(arguments: Sequence[str]) -> bool:
    """Whether the arguments, or the file of configs, have the address of a broker listener."""
    return gives(arguments, "--listen") or gives(arguments, "--listener") or _listeners_config(arguments) is not None


def listener_names(arguments: Sequence[str]) -> set[str]:
    """The names of all listeners in the arguments, possibly with the controller's: the server prints one ready line for
    each. The names are not validated here, because the server does so."""
    given = values_of(arguments, "--listener") + (_listeners_config(arguments) or "").split(",")
    for assignment in values_of(arguments, "--broker-set"):
        key, _, value = assignment.partition("=")
        if key.strip().endswith(f":{LISTENERS}"):
            given += value.split(",")
    names = {entry.strip().partition("://")[0].upper() for entry in given if entry.strip()}
    return names | ({"PLAINTEXT"} if gives(arguments, "--listen") else set())


def has_throw_away_tls(arguments: Sequence[str]) -> bool:
    """Whether the server makes certificates, and prints the line with their directory."""
    return gives(arguments, "--tls") or any(value.endswith("ssl") for value in values_of(arguments, "--security"))
