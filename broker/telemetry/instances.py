"""The client instances that one broker knows: what each was asked to push, and when it asked and pushed last."""

from collections import OrderedDict
from dataclasses import replace
from typing import Final

from klamm.broker.telemetry.subscriptions import DEFAULT_INTERVAL_MS, Subscribed
from klamm.protocol.errors import ErrorCode
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass

MAX_INSTANCES: Final = 16_384
"""As in Kafka. Beyond it the instance that was not used for the longest time is forgotten."""
INTERVALS_KEPT: Final = 3
"""An instance is forgotten after so many push intervals without a request, and not before the default interval."""
_NEVER: Final = -(1 << 62)


@dataclass(frozen=True, slots=True)
class ClientInstance:
    """One client."""

    subscribed: Subscribed
    asked_ms: int = _NEVER
    pushed_ms: int = _NEVER
    is_terminating: bool = False
    """Whether it has announced that it ends."""

    def asked(self, now_ms: int) -> "ClientInstance | None":
        """The instance after it asked for its subscriptions; None: it is too early."""
        if now_ms - max(self.asked_ms, self.pushed_ms) < self.subscribed.push_interval_ms:
            return None
        return replace(self, asked_ms=now_ms)

    def pushed(self, now_ms: int, subscription_id: int, *, terminating: bool) -> tuple["ClientInstance", ErrorCode]:
        """The instance after a push, and why the push is refused, or NONE. The first push after it asked may come at
        any time, and the last one, too."""
        after = replace(self, is_terminating=terminating)
        if self.is_terminating:
            return after, ErrorCode.INVALID_REQUEST
        # As it may ask only an interval after its last push, its first push afterwards is never too early.
        in_time = now_ms - self.pushed_ms >= self.subscribed.push_interval_ms
        if in_time:
            after = replace(after, pushed_ms=now_ms)
        elif not terminating:
            return after, ErrorCode.THROTTLING_QUOTA_EXCEEDED
        fits = subscription_id == self.subscribed.subscription_id
        return after, ErrorCode.NONE if fits else ErrorCode.UNKNOWN_SUBSCRIPTION_ID


class ClientInstances:
    """The instances of one broker, by id."""

    def __init__(self, most: int = MAX_INSTANCES) -> None:
        self._most = most
        self._used: OrderedDict[Uuid, tuple[int, ClientInstance]] = OrderedDict()
        """With the time of the last request, in that order."""

    def __len__(self) -> int:
        return len(self._used)

    def find(self, client_instance_id: Uuid, now_ms: int, version: int) -> ClientInstance | None:
        """The instance, if it is known and was made of the present subscriptions."""
        used_ms, found = self._used.get(client_instance_id, (_NEVER, None))
        if found is None or found.subscribed.version != version:
            return None
        kept_ms = max(INTERVALS_KEPT * found.subscribed.push_interval_ms, DEFAULT_INTERVAL_MS)
        return None if now_ms - used_ms > kept_ms else found

    def put(self, client_instance_id: Uuid, instance: ClientInstance, now_ms: int) -> None:
        """Keep an instance, after a request of it."""
        self._used.pop(client_instance_id, None)
        self._used[client_instance_id] = now_ms, instance
        while len(self._used) > self._most:
            self._used.popitem(last=False)
