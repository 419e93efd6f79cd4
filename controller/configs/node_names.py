"""Names of broker and broker logger resources: the node's id, in any form that Java parses as an int."""

import re
from typing import Final

# A name of more characters is no number. Messages quote at most this much, so that the text fits into a string.
MAX_NODE_ID_CHARACTERS: Final = 1000
_INTEGER: Final = re.compile(r"[+-]?0*\d{1,10}")


def decode_node_id(name: str) -> int | None:
    """The node id in a resource name, as Java parses an int: signs and leading zeros are allowed, blanks are not."""
    if len(name) <= MAX_NODE_ID_CHARACTERS and _INTEGER.fullmatch(name) and max(name) <= "\uffff":
        number = int(name)
        if -(2**31) <= number < 2**31:
            return number
    return None


def quoted_node_id(name: str) -> str:
    """The name, shortened to what fits into a message."""
    return name if len(name) <= MAX_NODE_ID_CHARACTERS else f"{name[:MAX_NODE_ID_CHARACTERS]}…"
