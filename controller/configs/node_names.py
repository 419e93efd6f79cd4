"""Brokers and their loggers as resources are called by the id of their node: what Java reads as an int is one."""

import re
from typing import Final

# A name that long is no number; it is quoted, and with the text around it a string of the protocol has to hold it.
MAX_NODE_ID_CHARACTERS: Final = 1000
_INTEGER: Final = re.compile(r"[+-]?0*\d{1,10}")


def decode_node_id(name: str) -> int | None:
    """The number that a resource is called, as Java reads an int: signs and leading zeros are fine, blanks are not."""
    if len(name) <= MAX_NODE_ID_CHARACTERS and _INTEGER.fullmatch(name) and max(name) <= "\uffff":
        number = int(name)
        if -(2**31) <= number < 2**31:
            return number
    return None


def quoted_node_id(name: str) -> str:
    """As much of a name as a message has room for."""
    return name if len(name) <= MAX_NODE_ID_CHARACTERS else f"{name[:MAX_NODE_ID_CHARACTERS]}…"
