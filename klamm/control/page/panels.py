"""What the page shows beside partitions, as JSON: the cluster, brokers, moves, groups, fault rules and the clock.

Each panel is a bounded amount of work and of bytes, whatever the cluster holds.
"""

from collections.abc import Iterable
from hashlib import sha256
from heapq import nsmallest
from itertools import islice
from typing import Any, Final

from klamm import __version__
from klamm.assignment import NO_LIMIT
from klamm.broker.simulated_broker import SimulatedBroker
from klamm.cluster.shown_groups import all_groups, described, group_count, share_progress
from klamm.cluster.steered import AWAY
from klamm.control.clock import described as described_clock
from klamm.control.page.cells import leader_counts
from klamm.controller.configs import max_broker_partitions, max_partitions
from klamm.controller.metadata.broker import BrokerState
from klamm.controller.metadata.usage import UNLIMITED_TOPICS
from klamm.server.faults.counting import RuleState
from klamm.server.server import Server

MAX_MOVES: Final = 200
MAX_GROUPS: Final = 200
MAX_OFFSETS: Final = 1_000
"""The committed offsets that count for the lag of all shown groups together."""
MAX_RULES: Final = 200
MAX_LOG_DIRS: Final = 8
"""The log directories of a broker that are shown."""
MAX_REQUESTS: Final = 60
"""Requests in one answer, and as many again with errors."""
MAX_ERRORS: Final = 3
"""Errors of a request that are shown."""
MAX_TEXT: Final = 120
"""The characters of a text that are shown."""


class Panels:
    """The panels of one server. The limits of KIP-578 are looked up again after `limits_changed`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._limits: dict[int | None, int | None] = {}
        self._leaders: dict[int, int] | None = None

    def leaders_changed(self) -> None:
        """Partitions have other leaders, or there are others."""
        self._leaders = None

    def limits_changed(self) -> None:
        """Configs or brokers have changed."""
        self._limits.clear()

    def cluster(self) -> dict[str, Any]:
        """The cluster as a whole."""
        image = self._server.image
        return {
            "version": __version__,
            "cluster_id": self._server.identity.cluster_id,
            "topics": len(image.topics_by_row),
            "partitions": image.total_partitions(),
            "counted_partitions": image.usage.partitions,
            "partition_limit": self._limit(None),
            "placeholders": image.usage.placeholders,
            "moving": len(image.partitions.reassigning),
            "groups": group_count(self._server),
        }

    def broker_ids(self) -> list[int]:
        """The ids of all brokers, those that are no part of this process included."""
        return sorted(self._server.brokers.by_id.keys() | self._server.image.brokers.keys())

    def brokers(self, broker_ids: Iterable[int] | None = None) -> list[dict[str, Any]]:
        """These brokers, as far as they are there; None: all brokers."""
        image, simulated = self._server.image, self._server.brokers.by_id
        extra, rule_ids = self._uncounted_replicas(), {state.rule_id for state in self._server.faults.all()}
        if self._leaders is None:
            self._leaders = leader_counts(image.partitions)
        leaders = self._leaders
        return [
            {
                **self._state_of(simulated.get(broker_id), image.brokers.get(broker_id)),
                "id": broker_id,
                "counted": image.usage.replicas.get(broker_id, 0),
                "replicas": image.usage.replicas.get(broker_id, 0) + extra.get(broker_id, 0),
                "leaders": leaders.get(broker_id, 0),
                "limit": self._limit(broker_id),
                "no_disk": AWAY.format(broker_id) in rule_ids,
                "log_dirs": _log_dirs(simulated.get(broker_id)),
            }
            for broker_id in (self.broker_ids() if broker_ids is None else broker_ids)
            if broker_id in simulated or broker_id in image.brokers
        ]

    def _state_of(self, broker: SimulatedBroker | None, registered: BrokerState | None) -> dict[str, Any]:
        fenced = registered is None or registered.fenced
        rack = registered.rack if broker is None and registered is not None else broker.rack if broker else None
        return {
            "rack": _shortened(rack),
            "address": self._address(broker, registered),
            "simulated": broker is not None,
            "up": broker.is_up if broker is not None else not fenced,
            "fenced": fenced,
            "leaving": registered is not None and registered.in_controlled_shutdown,
        }

    def _address(self, broker: SimulatedBroker | None, registered: BrokerState | None) -> str:
        if broker is not None:
            return str(self._server.advertised(broker.broker_id))
        point = registered.end_point(None) if registered is not None else None
        return "" if point is None else f"{_shortened(point.host)}:{point.port}"

    def _uncounted_replicas(self) -> dict[int, int]:
        """Replicas of the topics that the limits do not count, by broker."""
        image, counts = self._server.image, dict[int, int]()
        for name in UNLIMITED_TOPICS & image.topics_by_name.keys():
            for owned, table in image.partitions.topic_ranges(image.topics_by_name[name].row):
                for replica in table.replicas[owned.rows].ravel().tolist():
                    counts[replica] = counts.get(replica, 0) + 1
        return counts

    def _limit(self, broker_id: int | None) -> int | None:
        """The most replicas of a broker, or the most partitions of the cluster; None: no limit."""
        if broker_id not in self._limits:
            configs, settings = self._server.image.configs, self._server.observed.settings
            limit = (
                max_partitions(configs, settings)
                if broker_id is None
                else max_broker_partitions(configs, settings, broker_id)
            )
            self._limits[broker_id] = None if limit >= NO_LIMIT else limit
        return self._limits[broker_id]

    def moves(self) -> dict[str, Any]:
        """The first partitions in reassignment, with how far their new replicas are."""
        image, data, now_ms = self._server.image, self._server.brokers.data, self._server.now_ms()
        shown = []
        for key, (adding, removing) in islice(image.partitions.reassigning.items(), MAX_MOVES):
            topic = image.topics_by_row.get(key.topic_row)
            log = None if topic is None else data.find(topic.topic_id, key.partition_index)
            end = 0 if log is None else log.log.log_end_offset
            has = end if log is None else min((log.log_end_offset(one, now_ms) for one in adding), default=end)
            shown.append({
                "row": key.topic_row,
                "partition": key.partition_index,
                "adding": list(adding),
                "removing": list(removing),
                "has": has,
                "end": end,
            })  # fmt: skip
        return {"count": len(image.partitions.reassigning), "shown": shown}

    def groups(self) -> list[dict[str, Any]]:
        """The first groups by id."""
        found = nsmallest(MAX_GROUPS, all_groups(self._server), key=lambda one: one.group_id)
        left, shown = MAX_OFFSETS, []
        shares = share_progress(self._server, {one.group_id for one in found if one.kind == "share"})
        for one in found:
            group = described(self._server, one, left, shares)
            left = max(0, left - (0 if one.kind == "share" else group["offsets"]))
            members = [{name: _shortened(value) for name, value in member.items()} for member in group["members"]]
            shown.append({**group, "id": _shortened(one.group_id), "key": _key(one.group_id), "members": members})
        return shown

    def faults(self) -> list[dict[str, Any]]:
        """The fault rules with their counts."""
        return [self._rule(state) for state in list(self._server.faults.all())[:MAX_RULES]]

    def _rule(self, state: RuleState) -> dict[str, Any]:
        given = {name: value for name, value in state.rule.given.items() if name != "id"}
        return {
            "id": state.rule_id[:MAX_TEXT],
            "key": state.rule_id,
            "rule": {name: _shortened(value) for name, value in given.items()},
            "over": state.is_over(self._server.now_ms()),
            "matches": state.matches,
            "hits": state.hits,
        }

    def clock(self) -> dict[str, Any]:
        """The controller's clock; a real one goes on in the page by itself."""
        if self._server.time.is_manual:
            return described_clock(self._server)
        return {"clock": "real"}

    def requests(self, after_seq: int) -> list[dict[str, Any]]:
        """The newest requests of clients behind a `seq`."""
        return [_request(line) for line in self._server.journal.newest(after_seq, MAX_REQUESTS)]


def _log_dirs(broker: SimulatedBroker | None) -> list[dict[str, Any]]:
    """The log directories of a broker that has several of them; otherwise none are shown."""
    every = broker.log_dirs.all if broker is not None else []
    shown = every[:MAX_LOG_DIRS] if len(every) > 1 else []
    return [{"path": one.path, "online": one.is_online, "failed": not one.is_whole} for one in shown]


def _request(line: dict[str, Any]) -> dict[str, Any]:
    names = ("seq", "time", "broker_id", "principal", "client_id", "api", "api_version", "microseconds", "faults")
    errors = [
        {
            "code": error["error_code"],
            "about": _shortened(error["topic_name"] or error["resource_name"]),
            "partition": error["partition_index"],
            "message": _shortened(error["error_message"]),
        }
        for error in line["errors"][:MAX_ERRORS]
    ]
    return {**{name: _shortened(line[name]) for name in names}, "errors": errors, "error_count": len(line["errors"])}


def _key(name: str) -> str:
    """A text of bounded length that differs for names that begin with the same characters."""
    return name if len(name) <= MAX_TEXT else f"{name[:MAX_TEXT]}…{sha256(name.encode()).hexdigest()}"


def _shortened(value: object) -> object:
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return value[:MAX_TEXT] + "…"
    if isinstance(value, (dict, list, tuple)):
        text = str(value)
        return value if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"
    return value
