"""Makes the events of the page while it is open somewhere: what the deltas of the metadata changed, what polls find.

Changes of partitions are collected and sent as they are then, so that a partition that changes a hundred times is sent
once. The feed works for a fifth of the time at most. While no page is open it does nothing at all.
"""

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import trio

from klamm.control.changes import Changes
from klamm.control.page.cells import CellWriter, Keys, keys_of
from klamm.control.page.events import Events
from klamm.control.page.panels import Panels
from klamm.controller.metadata.delta import Delta
from klamm.server.server import Server

COLLECT_SECONDS: Final = 0.02
"""How long changes are collected after the first one."""
REST: Final = 4
"""After its work the feed rests so many times as long as it worked."""
POLL_SECONDS: Final = 0.25
SLOW_POLL_SECONDS: Final = 1.0
"""For the panel of groups, which is the most work."""
BROKERS_AT_ONCE: Final = 64
"""Requests are served after so many brokers."""
BROKERS_REST: Final = 19
"""The panel of brokers is made again after so many times as long as it took: milliseconds for 1,000 brokers."""
UNWATCHED_SECONDS: Final = 10.0
"""How long the feed goes on without a page: one that reconnects needs no snapshot then."""
MAX_CHANGED: Final = 262_144
"""Changed partitions or topics up to which they are sent; beyond, pages get a new snapshot."""


class Feed:
    """The events of one server, made in a task of its own while somebody listens."""

    def __init__(self, server: Server, changes: Changes) -> None:
        self.events = Events()
        self.panels = Panels(server)
        self.cells = CellWriter(server.observed.settings)
        self.listeners = 0
        self._server = server
        self._changes = changes
        self._is_running = False
        self._watched_until = 0.0
        self._wake = trio.Event()
        self._keys: list[Keys] = []
        self._changed = 0
        self._topics: dict[int, str | None] = {}
        self._sent: dict[str, bytes] = {}
        self._seq = -1
        self._groups_at = self._brokers_at = 0.0
        self._brokers: dict[int, bytes] = {}
        """What was sent of each broker."""
        server.observed.subscribe(self._follow)

    def watch(self) -> None:
        """Begin, or go on for a while: a page is open, or is about to be."""
        self._watched_until = trio.current_time() + UNWATCHED_SECONDS
        if not self._is_running:
            self._is_running = True
            self.cells.configs_changed()  # the deltas meanwhile were not seen
            self.panels.limits_changed()
            self.panels.leaders_changed()
            self._changes.run_beside(self._run, "bug: the page gets no events")

    def begin_again(self) -> None:
        """Send every panel once more: a new page has seen a state between two events."""
        self._sent.clear()
        self._brokers.clear()
        self._brokers_at = 0.0

    def _follow(self, delta: Delta) -> None:
        if not self._is_running:
            return
        if delta.configs or delta.removed_topics:
            self.cells.configs_changed()
        if delta.configs or delta.brokers or delta.unregistered:
            self.panels.limits_changed()
        for topic in delta.new_topics:
            self._topics[topic.row] = topic.name
        for topic in delta.removed_topics:
            self._topics[topic.row] = None
        for rows in (delta.new_partitions, delta.changed_partitions):
            self._changed += len(rows)
            if len(rows) and self._changed <= MAX_CHANGED:
                self._keys.append(keys_of(*rows.columns()))
        if delta.has_new_leaders or delta.removed_topics or len(delta.new_partitions):
            self.panels.leaders_changed()
        self._wake.set()

    async def _run(self) -> None:
        try:
            while self.listeners or trio.current_time() < self._watched_until:
                with trio.move_on_after(POLL_SECONDS):
                    await self._wake.wait()
                await trio.sleep(COLLECT_SECONDS)
                self._wake = trio.Event()
                began = trio.current_time()
                await self._publish()
                await trio.sleep(REST * (trio.current_time() - began))
        except trio.Cancelled:
            self.events.end()
            raise
        finally:
            self._is_running = False
            self._forget()
            self.events.drop_all()

    def _forget(self) -> None:
        self._keys, self._changed, self._topics = [], 0, {}
        self.begin_again()

    async def _publish(self) -> None:
        topics, self._topics = self._topics, {}
        keys, changed, self._keys, self._changed = self._keys, self._changed, [], 0
        if changed > MAX_CHANGED or len(topics) > MAX_CHANGED:
            self.events.drop_all()
        else:
            if topics:
                self._publish_topics(topics)
            if keys:
                async for cells in self.cells.changed(self._server.image, np.sort(np.concatenate(keys))):
                    self.events.add("cells", b64encode(cells.tobytes()))
        await self._publish_panels()

    def _publish_topics(self, topics: dict[int, str | None]) -> None:
        added = [[row, name] for row, name in topics.items() if name is not None]
        removed = [row for row, name in topics.items() if name is None]
        self.events.add("topics", encoded({"added": added, "removed": removed}))

    async def _publish_panels(self) -> None:
        panels: dict[str, Callable[[], Any]] = {
            "cluster": self.panels.cluster,
            "moves": self.panels.moves,
            "faults": self.panels.faults,
            "clock": self.panels.clock,
        }
        if trio.current_time() >= self._groups_at:
            self._groups_at = trio.current_time() + SLOW_POLL_SECONDS
            panels["groups"] = self.panels.groups
        for name, panel in panels.items():
            await trio.lowlevel.checkpoint()  # requests are served between two panels
            content = encoded(panel())
            if self._sent.get(name) != content:
                self._sent[name] = content
                self.events.add(name, content)
        await self._publish_brokers()
        if found := self.panels.requests(self._seq):
            self._seq = found[-1]["seq"]
            self.events.add("requests", encoded(found))

    async def _publish_brokers(self) -> None:
        """The brokers that differ from what was sent, because a move of a leader changes two of a thousand."""
        if trio.current_time() < self._brokers_at:
            return
        broker_ids, changed, worked = self.panels.broker_ids(), list[bytes](), 0.0
        for first in range(0, len(broker_ids), BROKERS_AT_ONCE):
            await trio.lowlevel.checkpoint()
            began = trio.current_time()
            for broker in self.panels.brokers(broker_ids[first : first + BROKERS_AT_ONCE]):
                content = encoded(broker)
                if self._brokers.get(broker["id"]) != content:
                    self._brokers[broker["id"]] = content
                    changed.append(content)
            worked += trio.current_time() - began
        removed = sorted(self._brokers.keys() - set(broker_ids))
        for broker_id in removed:
            del self._brokers[broker_id]
        if changed or removed:
            self.events.add("brokers", b'{"changed":[%b],"removed":%b}' % (b",".join(changed), encoded(removed)))
        self._brokers_at = trio.current_time() + BROKERS_REST * worked


def encoded(content: object) -> bytes:
    """JSON in one line."""
    return json.dumps(content, separators=(",", ":")).encode()
