"""What a cluster can be asked for, whoever asks: the bounds that `klamm serve` and `klamm.Cluster` share.

Standard library alone: the command line is read before anything heavy is imported. A refusal is a ValueError whose
text is one clause for people.
"""

from collections.abc import Mapping, Sequence

from klamm.console.shown import shown

MAX_BROKERS = 1_000
"""More listening ports than that are no simulation any more, and each one is an open file."""
MAX_RACK_CHARACTERS = 255
MAX_BROKER_ID = 2**31 - 1
MAX_CLUSTER_ID_CHARACTERS = 64
MAX_SEED = 2**63 - 1
_OF_IDS = dict.fromkeys(map(ord, "-_+/=."))


def checked_number(what: str, number: object, lowest: int, highest: int) -> int:
    """The number, if it is a whole one within the bounds."""
    # A bool is an int for Python, and a mistake here.
    if not isinstance(number, int) or isinstance(number, bool) or not lowest <= number <= highest:
        raise ValueError(f"{what} {shown(number)}: a whole number from {lowest} to {highest} is expected")
    return number


def checked_racks(racks: Sequence[str]) -> tuple[str, ...]:
    """The racks, if each is a name that a broker could register with."""
    if isinstance(racks, str) or not isinstance(racks, Sequence):
        raise ValueError(f'racks {shown(racks)}: a sequence of names is expected, such as ("a", "b")')
    for rack in racks:
        if not isinstance(rack, str):
            raise ValueError(f"rack {shown(rack)}: a name is expected")
        if not rack.strip() or rack != rack.strip():
            raise ValueError(f"rack {shown(rack)} has no name, or blanks around it")
        if len(rack) > MAX_RACK_CHARACTERS or not rack.isprintable():
            raise ValueError(f"rack {shown(rack)}: up to {MAX_RACK_CHARACTERS} printable characters are expected")
    return tuple(racks)


def checked_cluster_id(text: str) -> str:
    """The id, if it stands as it is in every file and answer; to Kafka it is no more than text, either."""
    if not (0 < len(text) <= MAX_CLUSTER_ID_CHARACTERS and text.isascii() and text.translate(_OF_IDS).isalnum()):
        raise ValueError(
            f"{shown(text)}: up to {MAX_CLUSTER_ID_CHARACTERS} letters, digits and -_+/=. are expected as a cluster id"
        )
    return text


def checked_configs(configs: object) -> dict[str, str]:
    """The configs, if all names and values are text, as they stand in server.properties."""
    return _checked_configs(configs, "")


def checked_broker_configs(broker_configs: object) -> dict[int, dict[str, str]]:
    """The configs of single brokers, by id, if each id could be one and the configs are what those of all could be.

    A broker of that id need not be there yet: it may be added.
    """
    if not isinstance(broker_configs, Mapping):
        raise ValueError(f"broker configs {shown(broker_configs)}: a mapping of broker ids to configs is expected")
    return {
        checked_number("broker", broker_id, 1, MAX_BROKER_ID): _checked_configs(configs, f" of broker {broker_id}")
        for broker_id, configs in broker_configs.items()
    }


def _checked_configs(configs: object, whose: str) -> dict[str, str]:
    if not isinstance(configs, Mapping):
        raise ValueError(f"configs{whose} {shown(configs)}: a mapping of names to values is expected")
    for name, value in configs.items():
        if not isinstance(name, str):
            raise ValueError(f"config {shown(name)}{whose}: its name must be a string")
        if not isinstance(value, str):
            # Not converted: str(True) and str(None) are not what server.properties would say.
            raise ValueError(f"config {named(name)}{whose}: its value must be a string, not {type(value).__name__}")
    return dict(configs)


def named(name: str) -> str:
    """The name of a config, which may not be one, as part of one line."""
    return name if name.isprintable() and 0 < len(name) <= MAX_RACK_CHARACTERS else shown(name)
