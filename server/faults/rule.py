"""A fault rule: which requests it matches, how often it counts, and what it does. A value without state.

The members have the names of the JSON form (docs/faults.md), which `reading` decodes.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from klamm.controller.client import Client
from klamm.protocol.api import Api
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.quick_dataclasses import dataclass
from klamm.server.faults.paths import JsonPath, values_at
from klamm.server.faults.subjects import Subject

AnswerFault = Literal["none", "close", "half", "flipped_frame", "flipped_batch", "other_correlation_id"]
ANSWER_FAULTS: Final[tuple[AnswerFault, ...]] = (
    "none", "close", "half", "flipped_frame", "flipped_batch", "other_correlation_id",
)  # fmt: skip
"""What can happen to an answer: it never comes, the connection is closed instead of or in the middle of it, one byte is
another one, or it names another request."""
STALE_APIS: Final = frozenset({"Metadata", "DescribeCluster", "DescribeTopicPartitions"})
"""The APIs that can be answered from metadata of an earlier moment."""
_WILDCARDS: Final = re.compile(r"[*?]")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A name, or a glob with * for any characters and ? for one."""

    text: str
    compiled: re.Pattern[str] | None

    @classmethod
    def of(cls, text: str) -> "Pattern":
        if not _WILDCARDS.search(text):
            return cls(text, None)
        wild = "".join({"*": ".*", "?": "."}.get(character) or re.escape(character) for character in text)
        return cls(text, re.compile(wild, re.DOTALL))

    def matches(self, name: str | None) -> bool:
        if name is None:
            return False
        return name == self.text if self.compiled is None else self.compiled.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Delay:
    """A time in ms: `lowest` alone, evenly between two, around a mean, or exponential with a mean."""

    lowest_ms: float = 0
    highest_ms: float | None = None
    mean_ms: float | None = None
    deviation_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A request and its client, as rules see them."""

    api: Api[Any, Any]
    api_version: int
    request: Message
    client: Client
    client_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """What one rule says. None or empty: any, or nothing."""

    given: Mapping[str, Any]
    """The members as the user gave them."""
    rule_id: str | None = None

    apis: tuple[Api[Any, Any], ...] = ()
    versions: range | None = None
    brokers: frozenset[int] = frozenset()
    listener: Pattern | None = None
    client_id: Pattern | None = None
    software_name: Pattern | None = None
    software_version: Pattern | None = None
    principal: Pattern | None = None
    topic: Pattern | None = None
    partitions: frozenset[int] = frozenset()
    group: Pattern | None = None
    transactional_id: Pattern | None = None
    where: tuple[tuple[JsonPath, Any], ...] = ()

    skip: int = 0
    times: int | None = None
    every: int = 1
    for_ms: int | None = None
    probability: float = 1.0

    error: ErrorCode | None = None
    whole: bool = False
    """Whether the error refuses the whole request, even if its items could be refused one by one."""
    after: bool = False
    """Whether error, delay or answer come after the request was done; otherwise it is not done, or later."""
    delay: Delay | None = None
    throttle_time_ms: int | None = None
    answer: AnswerFault | None = None
    set: tuple[tuple[JsonPath, Any], ...] = ()
    stale_metadata: bool = False

    @property
    def has_subject(self) -> bool:
        """Whether the rule is about items of a request, not about any request of a client."""
        return bool(self.topic or self.partitions or self.group or self.transactional_id)

    def matches_request(self, asked: Asked) -> bool:
        """Whether a request matches, whatever its items are. Its API is known to match."""
        if self.versions is not None and asked.api_version not in self.versions:
            return False
        client = asked.client
        if self.brokers and client.broker_id not in self.brokers:
            return False
        return (
            _fits(self.client_id, asked.client_id)
            and _fits(self.listener, client.listener_name or client.listener)
            and _fits(self.software_name, client.software_name)
            and _fits(self.software_version, client.software_version)
            and _fits(self.principal, client.principal)
            and all(any(value == wanted for value in values_at(asked.request, path)) for path, wanted in self.where)
        )

    def matches_item(self, subject: Subject) -> bool:
        """Whether an item matches."""
        return (
            _fits(self.topic, subject.topic)
            and (not self.partitions or subject.partition in self.partitions)
            and _fits(self.group, subject.group)
            and _fits(self.transactional_id, subject.transactional_id)
        )


def _fits(pattern: Pattern | None, name: str | None) -> bool:
    return pattern is None or pattern.matches(name)
