"""`klamm serve --twin PATH --follow`: when the twin begins again, with the metadata that its source has then.

SIGHUP and the control interface ask for it. The source is read first: as long as it cannot be read, the twin that runs
goes on.
"""

import signal
from pathlib import Path

import trio

from klamm.controller.log.errors import LogError
from klamm.controller.log.past import read_past
from klamm.server.event_log import EventLog


class Forks:
    """The forks of one source, one after the other."""

    def __init__(self, source: Path, events: EventLog) -> None:
        self.source = source
        self.restarts = 0
        """How many times the twin has begun again."""
        self._events = events
        self._wanted = trio.Event()
        self._reading = trio.Lock()

    async def next_wanted(self) -> None:
        """Wait until the twin has to begin again."""
        await self._wanted.wait()
        self._wanted = trio.Event()
        self.restarts += 1
        self._events.info("the twin begins again", source=str(self.source))

    async def ask_on_signals(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take each SIGHUP for a wish, for ever."""
        with trio.open_signal_receiver(signal.SIGHUP) as signals:
            task_status.started()
            async for _ in signals:
                try:
                    await self.ask()
                except LogError as error:
                    self._events.warning("the twin cannot begin again, and goes on as it is", reason=str(error))

    async def ask(self) -> int:
        """Read the source, and let the twin begin again. Returns the number of the restart. Raises LogError, and then
        the twin goes on as it is."""
        async with self._reading:  # one at a time: a source may be large
            await trio.to_thread.run_sync(read_past, self.source)
        self._wanted.set()
        return self.restarts + 1
