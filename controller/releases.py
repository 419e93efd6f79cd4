"""Releases of Apache Kafka as which brokers can act: the APIs that they list, their features and metadata.version.

Up to 3.0 the broker is one with ZooKeeper, from 3.3 on one of KRaft. `Emulation` is what the options of a cluster say:
a release for all clients, for the clients of a listener or for some client ids, and caps of single APIs by hand.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from klamm.controller.feature_names import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
)
from klamm.controller.metadata_versions import METADATA_VERSIONS
from klamm.protocol.release_apis import RELEASE_APIS
from klamm.quick_dataclasses import dataclass

if TYPE_CHECKING:
    from klamm.protocol.api import Listener

FIRST_WITH_EPOCH_OF_FEATURES: Final = (2, 8)
FIRST_WITH_UNKNOWN_CREATIONS: Final = (2, 8)
FIRST_WITH_INVALID_RECORD: Final = (2, 4)
FIRST_WITHOUT_OLD_VERSIONS: Final = (4, 0)
ApiRanges = Mapping[int, range]
"""Versions by API key."""


@dataclass(frozen=True, slots=True)
class Release:
    """One release."""

    name: str
    """Such as "2.8"."""
    full_name: str
    """The release whose jars were read, such as "2.8.2"."""
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The levels that it supports, by feature. Empty with ZooKeeper."""

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(map(int, self.name.split(".")))

    @property
    def has_zookeeper(self) -> bool:
        """Whether its brokers are those of a cluster with ZooKeeper."""
        return not self.features

    @property
    def has_old_versions(self) -> bool:
        """Whether it serves versions that 4.0 removed (KIP-896)."""
        return self.numbers < FIRST_WITHOUT_OLD_VERSIONS

    @property
    def features_epoch(self) -> int | None:
        """The epoch of the finalized features, as a broker with ZooKeeper has it; None: that of the metadata log."""
        if not self.has_zookeeper:
            return None
        return 0 if self.numbers >= FIRST_WITH_EPOCH_OF_FEATURES else -1

    @property
    def creates_in_background(self) -> bool:
        """Whether a topic that Metadata creates is unknown in its answer; else it is without a leader."""
        return self.numbers >= FIRST_WITH_UNKNOWN_CREATIONS

    @property
    def has_code_of_invalid_records(self) -> bool:
        """Whether it has the error INVALID_RECORD (KIP-467); else records that break a rule are corrupt."""
        return self.numbers >= FIRST_WITH_INVALID_RECORD

    @property
    def metadata_version(self) -> int | None:
        """The newest level of metadata.version; None with ZooKeeper, where there is none."""
        return self.features[METADATA_VERSION][1] if self.features else None

    def ranges(self, listener: "Listener") -> ApiRanges:
        """The APIs that it lists on its broker's or its controller's listener, with their versions."""
        kind = "zkBroker" if self.has_zookeeper and listener == "broker" else listener
        return _ranges(self.full_name, kind)


@cache
def _ranges(full_name: str, kind: str) -> ApiRanges:
    found = {}
    for word in RELEASE_APIS.get((full_name, kind), "").split():
        key, _, versions = word.partition(":")
        first, _, last = versions.partition("-")
        found[int(key)] = range(int(first), int(last) + 1)
    return found


def _kraft(newest: int, oldest: int = 1, **further: tuple[int, int]) -> dict[str, tuple[int, int]]:
    return {METADATA_VERSION: (oldest, newest), **{_NAMES[name]: levels for name, levels in further.items()}}


_NAMES: Final = {
    "kraft": KRAFT_VERSION,
    "transaction": TRANSACTION_VERSION,
    "group": GROUP_VERSION,
    "elr": ELIGIBLE_LEADER_REPLICAS_VERSION,
    "share": SHARE_VERSION,
    "streams": STREAMS_VERSION,
}
_OF_4_0: Final = {"kraft": (0, 1), "transaction": (0, 2), "group": (0, 1), "elr": (0, 1)}
RELEASES: Final = {
    release.name: release
    for release in (
        Release("2.1", "2.1.1"),
        Release("2.4", "2.4.1"),
        Release("2.8", "2.8.2"),
        Release("3.0", "3.0.2"),
        Release("3.3", "3.3.2", _kraft(7)),
        Release("3.6", "3.6.2", _kraft(14)),
        Release("3.9", "3.9.1", _kraft(21, kraft=(0, 1))),
        Release("4.0", "4.0.0", _kraft(25, 7, **_OF_4_0)),
        Release("4.1", "4.1.1", _kraft(27, 7, **_OF_4_0, share=(0, 1))),
        Release("4.2", "4.2.0", _kraft(29, 7, **_OF_4_0, share=(0, 1), streams=(0, 1))),
        Release("4.3", "4.3.0", _kraft(30, 7, **_OF_4_0, share=(0, 1), streams=(0, 1))),
    )
}
"""By name, the oldest first. Levels: MetadataVersion and Feature of each release's server-common."""
CURRENT: Final = RELEASES["4.3"]


@dataclass(frozen=True, slots=True)
class Emulation:
    """As which releases the brokers act."""

    release: Release = CURRENT
    """For all clients without another rule."""
    by_listener: Mapping[str, Release] = field(default_factory=lambda: MappingProxyType({}))
    """For the clients of a listener, by its name."""
    by_client_id: Mapping[str, Release] = field(default_factory=lambda: MappingProxyType({}))
    """For clients whose id matches a glob; the first one that does, before listeners."""
    max_versions: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """The newest version that is served of an API, by its key."""

    @property
    def releases(self) -> tuple[Release, ...]:
        """All of them."""
        return (self.release, *self.by_listener.values(), *self.by_client_id.values())

    @property
    def has_former_configs(self) -> bool:
        """Whether some client may set topic configs that 4.0 removed."""
        return any(release.has_old_versions for release in self.releases)


NO_EMULATION: Final = Emulation()
_CLIENT: Final = "client:"
_MOST_SHOWN: Final = 40
_MOST_DIGITS: Final = 5


def checked_release(name: str) -> Release:
    """The release of a name. Raises ValueError; its text is one clause."""
    if name in RELEASES:
        return RELEASES[name]
    raise ValueError(
        f"there is no Kafka version {_shown(name)} (there are {', '.join(RELEASES)}){_nearest_release(name)}"
    )


def _nearest_release(name: str) -> str:
    """The end of the refusal of a version: its neighbours, if it is a number such as 0.11, else a similar name."""
    words = name.split(".")
    if len(words) < 2 or not all(word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS for word in words):
        return _meant(name, RELEASES)
    wanted = tuple(map(int, words))
    numbers = {tuple(map(int, known.split("."))): known for known in RELEASES}
    if wanted[:2] in numbers:
        from klamm.protocol.near_names import suggestion

        return suggestion(numbers[wanted[:2]])
    below = [known for number, known in numbers.items() if number < wanted]
    above = [known for number, known in numbers.items() if number > wanted]
    if not below:
        return f"; the oldest is {above[0]}"
    return f"; the nearest are {below[-1]} and {above[0]}" if above else f"; the newest is {below[-1]}"


def decode_releases(text: str) -> Emulation:
    """The releases in a list such as `3.6,EXTERNAL=2.8,client:legacy-*=2.1`: for all clients, for those of a listener,
    and for those whose client id matches. Raises ValueError; its text is one clause."""
    everyone: Release | None = None
    by_listener: dict[str, Release] = {}
    by_client_id: dict[str, Release] = {}
    for word in text.split(","):
        who, equals, name = word.strip().rpartition("=")
        release = checked_release(name.strip())
        glob = who.removeprefix(_CLIENT)
        of = by_client_id if glob != who else by_listener
        key = glob if glob != who else who.upper()
        if (equals and not key) or (not equals and everyone is not None) or key in of:
            reason = "is given twice" if key or not equals else "names no listener and no client id"
            raise ValueError(f"{_shown(word.strip())} {reason}")
        if equals:
            of[key] = release
        else:
            everyone = release
    return Emulation(everyone or CURRENT, by_listener, by_client_id)


def decode_max_versions(text: str, apis: Mapping[str, int]) -> dict[int, int]:
    """The newest versions in a list such as `Metadata=9,Fetch=4`, by API key. `apis`: the keys by name. Raises
    ValueError; its text is one clause."""
    found: dict[int, int] = {}
    for word in text.split(","):
        name, equals, version = (part.strip() for part in word.partition("="))
        if not equals or not (version.isascii() and version.isdigit() and len(version) <= _MOST_DIGITS):
            raise ValueError(f"{_shown(word.strip())}: API=VERSION is expected, such as Metadata=9")
        if name not in apis:
            raise ValueError(f"there is no API {_shown(name)}{_meant(name, apis)}")
        if apis[name] in found:
            raise ValueError(f"{name} is given twice")
        found[apis[name]] = int(version)
    return found


def decode_metadata_version(text: str) -> int:
    """The level of a metadata.version that a new log may have: the level itself, its name such as 4.0-IV3, or a release
    such as 4.0 for its newest level. Raises ValueError; its text is one clause."""
    levels = {name: level for level, name in METADATA_VERSIONS.items()}
    levels |= {name.partition("-")[0]: level for level, name in METADATA_VERSIONS.items()}
    levels |= {str(level): level for level in METADATA_VERSIONS}
    level = levels.get(text.strip())
    if level is None:
        raise ValueError(f"there is no metadata.version {_shown(text)}{_meant(text, levels)}")
    return level


def _meant(name: str, known: Iterable[str]) -> str:
    from klamm.protocol.near_names import did_you_mean

    return did_you_mean(name, known)


def _shown(text: str) -> str:
    return repr(text[:_MOST_SHOWN])
