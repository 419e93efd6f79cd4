"""Decodes a rule from its JSON form. What is misspelt, contradictory or out of bounds is a ValueError with a clause.

The form is flat, so that it is the same in JSON and YAML, as keyword arguments in Python and as options of a command.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from klamm.broker.dispatch import APIS
from klamm.protocol.api import Api
from klamm.protocol.codec.json_form import message_from_json
from klamm.protocol.errors import ErrorCode, ProtocolError
from klamm.protocol.fields import Array, Message
from klamm.protocol.near_names import did_you_mean
from klamm.server.faults.paths import JsonPath, decode_path, leaf_type
from klamm.server.faults.rule import ANSWER_FAULTS, STALE_APIS, Delay, FaultRule, Pattern
from klamm.server.faults.shapes import Shape, in_version, shape_of

MAX_TEXT_CHARACTERS: Final = 256
MAX_COUNT: Final = 2**31 - 1
MAX_MS: Final = 600_000
"""The longest delay, and the longest throttle time: ten minutes."""
MAX_FOR_MS: Final = 10 * 365 * 24 * 3_600_000
MAX_ENTRIES: Final = 100
"""The most APIs, brokers, partitions, paths of `where` or of `set` in one rule."""
_BY_NAME: Final[Mapping[str, Api[Any, Any]]] = {api.name: api for api in APIS}
OF_AUTHENTICATION: Final = ("SaslHandshake", "SaslAuthenticate")
_ERRORS: Final = {code.name: code for code in ErrorCode if code is not ErrorCode.NONE}
_TEXTS: Final = (
    "listener", "client_id", "software_name", "software_version", "principal", "topic", "group", "transactional_id",
)  # fmt: skip
_NEVER_EMPTY: Final = ("listener", "principal", "topic")
MEMBERS: Final = (
    "id", "api", "versions", "broker", *_TEXTS, "partition", "where",
    "skip", "times", "every", "for_ms", "probability",
    "error", "whole", "after", "delay_ms", "throttle_time_ms", "answer", "set", "stale_metadata",
)  # fmt: skip
"""The members of a rule in its JSON form."""


def read_rule(form: object) -> FaultRule:
    """The rule of a JSON object. Raises ValueError."""
    if not isinstance(form, Mapping):
        raise ValueError(f"rule {_short(form)}: an object is expected")
    for name in form:
        if name not in MEMBERS:
            raise ValueError(f"a rule has no member {_short(name)}{did_you_mean(str(name), MEMBERS)}")
    given = {name: value for name, value in form.items() if value is not None}
    apis = _apis(given)
    values: dict[str, Any] = {
        "given": given,
        "rule_id": _id(given.get("id")),
        "apis": apis,
        "versions": _versions(given.get("versions"), apis),
        "brokers": _numbers(given, "broker"),
        "partitions": _numbers(given, "partition"),
        "where": _where(given, apis),
        "skip": _number(given, "skip", 0, 0, MAX_COUNT),
        "times": _number(given, "times", None, 1, MAX_COUNT),
        "every": _number(given, "every", 1, 1, MAX_COUNT),
        "for_ms": _number(given, "for_ms", None, 1, MAX_FOR_MS),
        "probability": _probability(given.get("probability", 1.0)),
        "error": _error(given.get("error")),
        "delay": _delay(given.get("delay_ms")),
        "throttle_time_ms": _number(given, "throttle_time_ms", None, 1, MAX_MS),
        "answer": _answer(given.get("answer")),
        "set": _sets(given, apis),
    }
    values |= {name: _pattern(name, given[name]) for name in _TEXTS if name in given}
    values |= {name: _flag(name, given.get(name, False)) for name in ("whole", "after", "stale_metadata")}
    rule = FaultRule(**values)
    _refuse_contradictions(rule)
    return rule


def _refuse_contradictions(rule: FaultRule) -> None:
    if rule.error is not None and (rule.answer or rule.stale_metadata):
        raise ValueError(f"error contradicts {'answer' if rule.answer else 'stale_metadata'}: give one of the two")
    if rule.whole and rule.error is None:
        raise ValueError("whole needs error")
    if rule.after and rule.error is None and rule.answer is None and rule.delay is None:
        raise ValueError("after needs error, answer or delay_ms")
    if rule.answer == "flipped_batch" and not {api.name for api in rule.apis} <= {"Produce", "Fetch"}:
        raise ValueError("answer 'flipped_batch': only Produce and Fetch have batches")
    if rule.stale_metadata and (foreign := [api.name for api in rule.apis if api.name not in STALE_APIS]):
        raise ValueError(f"stale_metadata: {foreign[0]} is not answered from metadata; {_list(STALE_APIS)} are")
    if rule.throttle_time_ms and (without := [api.name for api in rule.apis if not _can_throttle(api)]):
        raise ValueError(f"throttle_time_ms: the answer to {without[0]} has no such field")
    for api in rule.apis:
        _refuse_impossible_subject(rule, api)


def _refuse_impossible_subject(rule: FaultRule, api: Api[Any, Any]) -> None:
    """Raise if no request of the API can match, so that the rule would wait in vain."""
    named = names_of(api)
    for name, wanted in (
        ("topic", rule.topic), ("partition", rule.partitions), ("group", rule.group),
        ("transactional_id", rule.transactional_id),
    ):  # fmt: skip
        if wanted and name not in named:
            raise ValueError(f"{name}: a request of {api.name} names no {name.replace('_', ' ')}")


def names_of(api: Api[Any, Any]) -> set[str]:
    """What requests of an API can name: of topic, partition, group and transactional_id."""
    found: set[str] = set()
    for version in (api.versions[0], api.latest_stable):
        shape: Shape = shape_of(api, version)
        fields = in_version(api.request, version)
        kinds = {kind for level in shape.request for kind in level.keys}
        found |= {kind for kind in kinds if kind in ("topic", "partition", "group", "transactional_id")}
        found |= {"topic", "group", "transactional_id"} if "resource" in kinds else set()
        found |= {"group", "transactional_id"} if "key" in kinds or "key" in fields else set()
        found |= {"group"} if "group_id" in fields else set()
        found |= {"transactional_id"} if any(name.endswith("transactional_id") for name in fields) else set()
    return found


def _can_throttle(api: Api[Any, Any]) -> bool:
    return "throttle_time_ms" in in_version(api.response, api.latest_stable)


def _apis(given: Mapping[str, Any]) -> tuple[Api[Any, Any], ...]:
    named = given.get("api", ())
    names = [named] if isinstance(named, str) else named
    if not isinstance(names, Sequence) or len(names) > MAX_ENTRIES or ("api" in given and not names):
        raise ValueError(f"api {_short(named)}: a name or a list of names is expected, such as 'Produce'")
    for name in names:
        if name in OF_AUTHENTICATION:
            raise ValueError(f"api {_short(name)}: fault rules do not apply to authentication")
        if name not in _BY_NAME:
            raise ValueError(f"api {_short(name)} is not served here{did_you_mean(str(name), _BY_NAME)}")
    if not names and given.get("stale_metadata"):
        names = sorted(STALE_APIS)
    if not names and given.get("answer") == "flipped_batch":
        names = ["Produce", "Fetch"]
    return tuple(_BY_NAME[name] for name in names)


def _versions(given: object, apis: Sequence[Api[Any, Any]]) -> range | None:
    if given is None:
        return None
    first, dash, last = str(given).partition("-")
    if isinstance(given, bool) or not first.isdecimal() or (dash and not last.isdecimal()) or len(str(given)) > 11:
        raise ValueError(f"versions {_short(given)}: a version or a range such as '3-9' is expected")
    versions = range(int(first), int(last or first) + 1)
    if not apis:
        raise ValueError("versions have a meaning for an API only: give api")
    for api in apis:
        if not versions or not set(versions) & set(range(api.versions[0], api.latest_stable + 2)):
            raise ValueError(f"versions {_short(given)}: {api.name} has {api.versions[0]} to {api.latest_stable}")
    return versions


def _where(given: Mapping[str, Any], apis: Sequence[Api[Any, Any]]) -> tuple[tuple[JsonPath, Any], ...]:
    paths = _paths(given, "where", apis)
    found: list[tuple[JsonPath, Any]] = []
    for text, value in paths.items():
        if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
            raise ValueError(f"where {text!r}: a string, a number or a boolean is expected")
        path = [decode_path(text, api.request) for api in apis].pop()
        if isinstance(leaf_type(path, apis[0].request), type | Array):
            raise ValueError(f"where {text!r} leads to no single value")
        _converted("where", text, path, value, apis[-1].request, apis[-1].latest_stable)
        found.append((path, value))
    return tuple(found)


def _sets(given: Mapping[str, Any], apis: Sequence[Api[Any, Any]]) -> tuple[tuple[JsonPath, Any], ...]:
    paths = _paths(given, "set", apis)
    if paths and len(apis) > 1:
        raise ValueError("set is about the answer to one API: give one")
    return tuple(_set(text, value, apis[0]) for text, value in paths.items())


def _set(text: str, value: object, api: Api[Any, Any]) -> tuple[JsonPath, Any]:
    path = decode_path(text, api.response)
    if isinstance(leaf_type(path, api.response), type | Array):
        raise ValueError(f"set {text!r} leads to no single value")
    message = _converted("set", text, path, value, api.response, api.latest_stable)
    for name, index in path:
        wire = next(one for one in in_version(type(message), api.latest_stable).values() if _json(one) == name)
        message = getattr(message, wire.name)
        message = message[0] if index is not None else message
    return path, message


def _converted(member: str, text: str, path: JsonPath, value: object, kind: type[Message], version: int) -> Any:
    """A message that has the value where the path leads. The declaration itself converts and checks it."""
    form: Any = value
    for name, index in reversed(path):
        form = {name: [form] if index is not None else form}
    try:
        message = message_from_json(kind, form, version)
    except ProtocolError as error:
        raise ValueError(f"{member} {text!r}: {error.reason}") from None
    if isinstance(value, int) and not isinstance(value, bool):
        _refuse_overflow(f"{member} {text!r}", value, str(leaf_type(path, kind)))
    return message


def _refuse_overflow(what: str, value: int, kind: str) -> None:
    bits = int("".join(filter(str.isdecimal, kind)) or 64)
    lowest, highest = (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if not lowest <= value <= highest:
        raise ValueError(f"{what}: {value} is no {kind}")


def _json(wire: Any) -> str:
    from klamm.protocol.codec.json_form import json_name

    return json_name(wire)


def _paths(given: Mapping[str, Any], name: str, apis: Sequence[Api[Any, Any]]) -> Mapping[str, Any]:
    paths = given.get(name, {})
    if not isinstance(paths, Mapping) or len(paths) > MAX_ENTRIES or not all(isinstance(path, str) for path in paths):
        raise ValueError(f"{name} {_short(paths)}: an object of paths and values is expected")
    if paths and not apis:
        raise ValueError(f"{name} has paths into the messages of an API: give api")
    return paths


def _number(given: Mapping[str, Any], name: str, default: int | None, lowest: int, highest: int) -> int | None:
    value = given.get(name, default)
    return value if value is default else _checked(name, value, lowest, highest)


def _checked(name: str, value: object, lowest: int, highest: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise ValueError(f"{name} {_short(value)}: a whole number from {lowest} to {highest} is expected")
    return value


def _numbers(given: Mapping[str, Any], name: str) -> frozenset[int]:
    value = given.get(name, ())
    several = [value] if isinstance(value, int) else value
    if not isinstance(several, list | tuple) or len(several) > MAX_ENTRIES or (name in given and not several):
        raise ValueError(f"{name} {_short(value)}: a number or a list of numbers is expected")
    return frozenset(_checked(name, one, 0, MAX_COUNT) for one in several)


def _probability(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
        raise ValueError(f"probability {_short(value)}: a number above 0, and 1 at most, is expected")
    return float(value)


def _error(name: object) -> ErrorCode | None:
    if name is None:
        return None
    if not isinstance(name, str) or name not in _ERRORS:
        raise ValueError(f"error {_short(name)} is none of Kafka's{did_you_mean(str(name), _ERRORS)}")
    return _ERRORS[name]


def _answer(name: object) -> Any:
    if name is not None and name not in ANSWER_FAULTS:
        raise ValueError(
            f"answer {_short(name)}: {_list(ANSWER_FAULTS)} are possible{did_you_mean(str(name), ANSWER_FAULTS)}"
        )
    return name


_FORMS: Final = '{"min", "max"}, {"mean"} or {"mean", "deviation"}'
_DELAYS: Final[Mapping[frozenset[str], Callable[[Mapping[str, float]], Delay]]] = {
    frozenset({"min", "max"}): lambda given: Delay(given["min"], given["max"]),
    frozenset({"mean"}): lambda given: Delay(mean_ms=given["mean"]),
    frozenset({"mean", "deviation"}): lambda given: Delay(mean_ms=given["mean"], deviation_ms=given["deviation"]),
}


def _delay(given: object) -> Delay | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        return Delay(_milliseconds(given))
    if frozenset(given) not in _DELAYS:
        raise ValueError(f"delay_ms {_short(given)}: milliseconds are expected, as a number such as 500 or {_FORMS}")
    delay = _DELAYS[frozenset(given)]({name: _milliseconds(value) for name, value in given.items()})
    if delay.highest_ms is not None and delay.highest_ms < delay.lowest_ms:
        raise ValueError("delay_ms: max is smaller than min")
    return delay


def _milliseconds(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
        raise ValueError(f"delay_ms {_short(value)}: milliseconds are expected, as a number such as 500 or {_FORMS}")
    if value > MAX_MS:
        raise ValueError(f"delay_ms {_short(value)}: {MAX_MS} at most is expected")
    return value


def _id(given: object) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str) or not given.replace("-", "").replace("_", "").isalnum() or not given.isascii():
        raise ValueError(f"id {_short(given)}: letters, digits, - and _ are expected")
    return _text("id", given)


def _pattern(name: str, value: object) -> Pattern:
    if not value and name in _NEVER_EMPTY:
        raise ValueError(f"{name} '': a name is expected, because none is empty")
    return Pattern.of(_text(name, value))


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT_CHARACTERS:
        raise ValueError(f"{name} {_short(value)}: a string of at most {MAX_TEXT_CHARACTERS} characters is expected")
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} {_short(value)}: true or false is expected")
    return value


def _list(names: Sequence[str] | frozenset[str]) -> str:
    *others, last = sorted(names) if isinstance(names, frozenset) else names
    return f"{', '.join(others)} and {last}"


def _short(value: object) -> str:
    return repr(value[:40] if isinstance(value, str) else value)[:80]
