"""What clients use of their quotas, by quota: a table of bounded size that forgets the clients that are idle."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from klamm.controller.quotas.limits import Limit, Sharing
from klamm.controller.quotas.rates import WindowedRate, Windows
from klamm.controller.settings import Settings

MAX_CLIENTS: Final = 10_000
"""Most entries of a table. Above it, the client that was idle for the longest time is forgotten."""
IDLE_MS: Final = 3_600_000
"""After this time without use an entry is forgotten, as in Kafka."""

_Entry = TypeVar("_Entry")
_Key = TypeVar("_Key")


class Usage(Generic[_Key, _Entry]):
    """Entries by key, made when they are first used."""

    def __init__(self, new: Callable[[], _Entry], most: int = MAX_CLIENTS) -> None:
        self._new = new
        self._most = most
        self._entries: OrderedDict[_Key, tuple[int, _Entry]] = OrderedDict()
        """With the time of the last use, in that order."""

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: _Key) -> _Entry | None:
        """The entry of `key`, unused."""
        found = self._entries.get(key)
        return None if found is None else found[1]

    def use(self, key: _Key, now_ms: int) -> _Entry:
        """The entry of `key`, or a new one. Forgets entries that are idle, and one if there are too many."""
        found = self._entries.pop(key, None)
        entry = self._new() if found is None else found[1]
        self.put(key, entry, now_ms)
        return entry

    def put(self, key: _Key, entry: _Entry, now_ms: int) -> None:
        """Set the entry of `key`, used at `now_ms`."""
        self._entries.pop(key, None)
        self._entries[key] = now_ms, entry
        while len(self._entries) > self._most or next(iter(self._entries.values()))[0] <= now_ms - IDLE_MS:
            self._entries.popitem(last=False)


class ClientRates:
    """The rates at which clients use the quotas of one node, a broker or the controller."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self._rates: Usage[tuple[str, Sharing], WindowedRate] = Usage(WindowedRate)

    def charge(self, key: str, limit: Limit, amount: float, now_ms: int) -> int:
        """Count `amount` of the quota `key`, and return the time in ms for which that throttles the client."""
        rate = self._rates.use((key, limit.shared_by), now_ms)
        rate.add(amount, now_ms, self.windows)
        return rate.throttle_ms(limit.bound, now_ms, self.windows)

    def take_back(self, key: str, limit: Limit, amount: float, now_ms: int) -> None:
        """Count `amount` no longer, which `charge` has just counted."""
        self._rates.use((key, limit.shared_by), now_ms).add(-amount, now_ms, self.windows)


def windows_of(settings: Settings, prefix: str, broker_id: int | None = None) -> Windows:
    """The windows of quotas, by the configs of a broker, or of all: those that begin with `prefix`."""
    seconds = settings.static_int(f"{prefix}.window.size.seconds", broker_id)
    return Windows(settings.static_int(f"{prefix}.window.num", broker_id), seconds * 1000)
