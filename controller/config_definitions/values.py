"""Config values: text to typed value and back, with Kafka's rules, ranges and messages.

Numbers, lists and booleans are parsed and printed as Java does, because clients see both. The errors of bad values were
recorded from Apache Kafka 4.3 (`tests/golden/configs`). Classes are names only: no class is loaded here.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final, TypeAlias

from klamm.controller.config_definitions.table import ConfigDefinition, ConfigType, Definitions
from klamm.protocol.errors import ApiError, ErrorCode

ConfigValue: TypeAlias = bool | int | float | str | tuple[str, ...]

# A string has at most 32,767 bytes. A message may quote a value that long, and a character takes up to four bytes.
MAX_MESSAGE_CHARACTERS: Final = 8_000
# The characters that Java's String.trim() removes: all up to the space, and no other white space.
_TRIMMED: Final = "".join(map(chr, range(0x21)))
# Java accepts the decimal digits of any script that are one UTF-16 unit each.
_INTEGER: Final = re.compile(r"[+-]?\d+")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?")
_HEXADECIMAL: Final = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?")
_NOT_FINITE: Final = re.compile(r"[+-]?(NaN|Infinity)")
_LIST_SEPARATOR: Final = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
_RANGE: Final = re.compile(r"\[(-?\d+),\.\.\.(?:,(-?\d+))?\](?: or (-?\d+))?")
_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_LAST_BMP_CHARACTER: Final = "\uffff"

_THROTTLED_REPLICAS: Final = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
_THROTTLED_REPLICA: Final = re.compile(r"([0-9]+:[0-9]+)?")
# The table does not distinguish these lists, which must not be empty, from others (recorded).
_NEVER_EMPTY: Final = frozenset(
    {
        "advertised.listeners",
        "controller.listener.names",
        "group.consumer.assignors",
        "group.coordinator.rebalance.protocols",
        "group.share.assignors",
        "listeners",
        "log.dir",
        "log.dirs",
        "process.roles",
    }
)


def typed_values(
    definitions: Definitions, given: Mapping[str, str], order: Sequence[str]
) -> dict[str, ConfigValue] | ApiError:
    """The values of several configs by name, or the error of the first bad one in Kafka's `order`."""
    typed: dict[str, ConfigValue] = {}
    for name in sorted(given, key=order.index):
        value = typed_value(definitions[name], given[name])
        if isinstance(value, ApiError):
            return value
        typed[name] = value
    return typed


def typed_value(definition: ConfigDefinition, text: str) -> ConfigValue | ApiError:
    """The value of `text`, or INVALID_CONFIG with Kafka's message."""
    value = _READERS[definition.type](definition, text)
    if isinstance(value, ApiError):
        return value
    if isinstance(value, tuple):
        return _checked_list(definition, value)
    fault = _rule(definition.valid)(value)
    return _invalid(definition, value_text(value), fault) if fault else value


def value_text(value: ConfigValue) -> str:
    """A value as responses show it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double_text(value)
    return ",".join(value) if isinstance(value, tuple) else str(value)


def shown_text(definition: ConfigDefinition, text: str) -> str:
    """`text` as responses show it; unchanged if it is no valid value (a log may have values that Klamm refuses)."""
    value = typed_value(definition, text)
    return text if isinstance(value, ApiError) else value_text(value)


def invalid_config(message: str) -> ApiError:
    """INVALID_CONFIG with the message, shortened if it is too long."""
    return ApiError(ErrorCode.INVALID_CONFIG, shortened(message))


def invalid_request(message: str) -> ApiError:
    """INVALID_REQUEST with the message, shortened if it is too long."""
    return ApiError(ErrorCode.INVALID_REQUEST, shortened(message))


def shortened(message: str) -> str:
    """The message; if it is too long for a string of the protocol, without its middle."""
    if len(message) <= MAX_MESSAGE_CHARACTERS:
        return message
    half = MAX_MESSAGE_CHARACTERS // 2
    return f"{message[:half]}…{message[-half:]}"


def _invalid(definition: ConfigDefinition, shown: str, fault: str) -> ApiError:
    return invalid_config(f"Invalid value {shown} for configuration {definition.name}: {fault}")


def _read_integer(definition: ConfigDefinition, text: str) -> int | ApiError:
    trimmed = text.strip(_TRIMMED)
    bound = 1 << (_BITS[definition.type] - 1)
    if _INTEGER.fullmatch(trimmed) and max(trimmed) <= _LAST_BMP_CHARACTER:
        digits = trimmed.lstrip("+-").lstrip("0") or "0"
        # Python refuses to read numbers of thousands of digits; none that long is in range.
        magnitude = int(digits) if len(digits) <= len(str(bound)) else 2 * bound
        value = -magnitude if trimmed.startswith("-") else magnitude
        if -bound <= value < bound:
            return value
    return _invalid(definition, text, f"Not a number of type {definition.type.name}")


def _read_double(definition: ConfigDefinition, text: str) -> float | ApiError:
    trimmed = text.strip(_TRIMMED)
    if _DECIMAL.fullmatch(trimmed):
        return float(trimmed.rstrip("fFdD"))
    if _NOT_FINITE.fullmatch(trimmed):
        return float(trimmed)
    if _HEXADECIMAL.fullmatch(trimmed):
        # f and d are digits of hexadecimal mantissas, so the type suffix is searched for only after the exponent.
        mantissa, _, exponent = trimmed.lower().partition("p")
        try:
            return float.fromhex(f"{mantissa}p{exponent.rstrip('fd')}")
        except OverflowError:
            return -math.inf if trimmed.startswith("-") else math.inf
    return _invalid(definition, text, "Not a number of type DOUBLE")


def _read_boolean(definition: ConfigDefinition, text: str) -> bool | ApiError:
    trimmed = text.strip(_TRIMMED).upper()
    if trimmed in ("TRUE", "FALSE"):
        return trimmed == "TRUE"
    return _invalid(definition, text, "Expected value to be either true or false")


def _read_list(_: ConfigDefinition, text: str) -> tuple[str, ...]:
    trimmed = text.strip(_TRIMMED)
    return tuple(_LIST_SEPARATOR.split(trimmed)) if trimmed else ()


def _read_text(_: ConfigDefinition, text: str) -> str:
    return text.strip(_TRIMMED)


def _read_secret(_: ConfigDefinition, text: str) -> str:
    return text


_READERS: Final[Mapping[ConfigType, Callable[[ConfigDefinition, str], ConfigValue | ApiError]]] = {
    ConfigType.BOOLEAN: _read_boolean,
    ConfigType.STRING: _read_text,
    ConfigType.INT: _read_integer,
    ConfigType.SHORT: _read_integer,
    ConfigType.LONG: _read_integer,
    ConfigType.DOUBLE: _read_double,
    ConfigType.LIST: _read_list,
    ConfigType.CLASS: _read_text,
    ConfigType.PASSWORD: _read_secret,
}


def _checked_list(definition: ConfigDefinition, items: tuple[str, ...]) -> tuple[str, ...] | ApiError:
    if definition.valid == _THROTTLED_REPLICAS:
        if all(map(_THROTTLED_REPLICA.fullmatch, items)) or "".join(items) == "*":
            return items
        wanted = f"must be the literal '*' or a list of replicas in the following format: {definition.valid}"
        return _invalid(definition, f"[{', '.join(items)}]", f"{definition.name} {wanted}")
    distinct = tuple(dict.fromkeys(items))
    if not distinct and definition.name in _NEVER_EMPTY:
        among = definition.valid or "any non-empty value"
        return invalid_config(f"Configuration '{definition.name}' must not be empty. Valid values include: {among}")
    rule = _rule(definition.valid) if definition.valid.startswith("[") else None
    for item in distinct:
        if not item:
            return invalid_config(f"Configuration '{definition.name}' values must not be empty.")
        fault = rule(item) if rule else None
        if fault:
            return _invalid(definition, item, fault)
    return distinct


@cache
def _rule(valid: str) -> Callable[[ConfigValue], str | None]:
    """A rule in the table's notation, as a function from a value to its error (None if the value is valid)."""
    in_range = _RANGE.fullmatch(valid)
    if in_range:
        low, high, other = (int(bound) if bound else None for bound in in_range.groups())
        return lambda value: _range_fault(value, low, high, other)
    if valid.startswith("[") and valid.endswith("]"):
        choices = valid[1:-1].split(", ")
        return lambda value: None if value in choices else f"String must be one of: {', '.join(choices)}"
    if valid.startswith("(case insensitive) ["):
        listed = valid.removeprefix("(case insensitive) [").removesuffix("]")
        choices = listed.upper().split(", ")
        return lambda value: (
            None if str(value).upper() in choices else f"String must be one of (case insensitive): {listed}"
        )
    if valid.startswith("version ["):
        versions = frozenset(valid.removeprefix("version [").removesuffix("]").split(", "))
        return lambda value: None if _is_version(str(value), versions) else f"Version {value} is not a valid version"
    if valid == "non-empty string":
        return lambda value: None if value else "String must be non-empty"
    if valid in ("null", "non-null string"):
        return lambda _: None
    raise ValueError(f"the table of configs says {valid!r}, which no rule knows")


def _is_version(text: str, versions: frozenset[str]) -> bool:
    """Whether this is one of the versions, or the short name of one, such as 2.8 or 2.8.1 for 2.8-IV1."""
    numbers = ".".join(text.split(".")[: 3 if text.startswith("0.") else 2])
    return text in versions or any(version.partition("-")[0] == numbers for version in versions)


def _range_fault(value: ConfigValue, low: int | None, high: int | None, other: int | None) -> str | None:
    if not isinstance(value, int | float) or value == other:
        return None
    too_low, too_high = low is not None and value < low, high is not None and value > high
    if other is not None and (too_low or too_high):
        return f"Value must be between {low} and {high} or equal to {other}"
    if too_low:
        return f"Value must be at least {low}"
    return f"Value must be no more than {high}" if too_high else None


def _double_text(value: float) -> str:
    """As Java prints a double: always with a fraction, with an exponent below 0.001 and from ten million on."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    if not digits:
        return f"{sign}0.0"
    if not -2 <= point <= 7:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
    padded = digits.rjust(len(digits) - min(point - 1, 0), "0").ljust(point + 1, "0")
    place = max(point, 1)
    return f"{sign}{padded[:place]}.{padded[place:]}"
