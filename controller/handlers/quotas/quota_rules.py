"""Which entities may have quotas, and which values are valid: Kafka's ClientQuotaControlManager and QuotaConfig.

The checks have Kafka's order and texts (tests/golden/security). No check resolves host names, because a name server may
be slow: a host name that is well formed is accepted as if it resolved.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Final

from klamm.controller.configs import invalid_request
from klamm.controller.metadata.quota_entity import CLIENT_ID, IP, USER
from klamm.protocol.errors import ApiError

_MAX_INT: Final = (1 << 31) - 1
_MAX_LONG: Final = float(1 << 63)  # Java rounds Long.MAX_VALUE up to this when it compares it with a double
_EPSILON: Final = 1e-6
"""How far a value may be from a whole number if the quota requires one."""
_MAX_HOST_NAME_CHARACTERS: Final = 253
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
_LAST_LABEL_IS_A_NUMBER: Final = re.compile(r"(?:.*\.)?[0-9]+")


def validate_entity(entity: Mapping[str, str | None]) -> ApiError | None:
    """The error why an entity, a name for each type in the order of checks, can have no quotas; None if it can."""
    if not entity:
        return invalid_request("Invalid empty client quota entity")
    for entity_type, name in entity.items():
        if entity_type not in (USER, CLIENT_ID, IP):
            return invalid_request(f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            return invalid_request(f"Empty {entity_type} not supported")
    if IP not in entity:
        return None
    if len(entity) > 1:
        # Kafka's text lacks this blank, too.
        return invalid_request(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        )
    address = entity[IP]
    if address is not None and not _is_address_or_host(address):
        return invalid_request(f"{address} is not a valid IP or resolvable host.")
    return None


def validate_quota(entity: Mapping[str, str | None], key: str, value: float) -> ApiError | None:
    """The error why a valid entity cannot have this quota; None if it can."""
    keys = _OF_ADDRESSES if IP in entity else _OF_USERS_AND_CLIENTS
    if key not in keys:
        return invalid_request(f"Invalid configuration key {key}")
    if not value > 0:  # so that NaN is refused, too
        return invalid_request(f"Quota {key} must be greater than 0")
    fault = keys[key](value)
    return invalid_request(fault.format(key=key)) if fault else None


def _fault_of_double(value: float) -> str | None:
    return None


def _fault_of_int(value: float) -> str | None:
    return "Proposed value for {key} is too large for an INT." if value > _MAX_INT else _fault_of_whole(value)


def _fault_of_long(value: float) -> str | None:
    return "Proposed value for {key} is too large for a LONG." if value > _MAX_LONG else _fault_of_whole(value)


def _fault_of_whole(value: float) -> str | None:
    return "{key} cannot be a fractional value." if abs(int(value + _EPSILON) - value) > _EPSILON else None


_OF_USERS_AND_CLIENTS: Final[Mapping[str, Callable[[float], str | None]]] = {
    "producer_byte_rate": _fault_of_long,
    "consumer_byte_rate": _fault_of_long,
    "request_percentage": _fault_of_double,
    "controller_mutation_rate": _fault_of_double,
}
"""For each quota key of users, client ids and their pairs, the check of a positive value."""
_OF_ADDRESSES: Final[Mapping[str, Callable[[float], str | None]]] = {"connection_creation_rate": _fault_of_int}


def _is_address_or_host(text: str) -> bool:
    if text.startswith("[") and text.endswith("]"):  # as Java takes IPv6 addresses, too
        return _is_ip_v6(text[1:-1])
    if ":" in text:
        return _is_ip_v6(text)
    if _LAST_LABEL_IS_A_NUMBER.fullmatch(text):
        return _is_ip_v4(text)
    return len(text) <= _MAX_HOST_NAME_CHARACTERS and _HOST_NAME.fullmatch(text) is not None and ".." not in text


def _is_ip_v6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _is_ip_v4(text: str) -> bool:
    """As in Java, one to four numbers. If there are fewer than four, the last one fills the remaining bytes."""
    parts = text.split(".")
    if len(parts) > 4 or not all(part.isascii() and part.isdigit() and len(part) <= 10 for part in parts):
        return False
    *first, last = map(int, parts)
    return all(number < 1 << 8 for number in first) and last < 1 << 8 * (5 - len(parts))
