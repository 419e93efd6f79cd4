"""Changes that outlive the requests for them: if the client closes the connection, the change is still completed.

A change runs in the nursery of the interface, and the request only waits for it. What a change raises reaches the
request as the same exception, but for two kinds: fatal ones end the process, and bugs are logged here, where they are
seen even if nobody waits any more.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import trio

from klamm.broker.brokers import NoSuchBroker
from klamm.broker.simulated_broker import BrokerError
from klamm.control.refusals import Refused
from klamm.controller.metadata_log import SnapshotFailed
from klamm.server.brokers import BrokerTimedOut
from klamm.server.event_log import EventLog
from klamm.server.listener import PortTaken

ResultT = TypeVar("ResultT")
STOPPING = "the server is stopping"
BUG = "this is a bug of Klamm; what it wrote to stderr tells more"


@dataclass(slots=True)
class _Change:
    """One change: the event of its end, and its result."""

    over: trio.Event = field(default_factory=trio.Event)
    result: Any = None
    refused: Refused | None = None


class Changes:
    """All changes under way. `fatal_errors` are those after which the process must not go on."""

    def __init__(self, nursery: trio.Nursery, events: EventLog, fatal_errors: tuple[type[Exception], ...]) -> None:
        self._nursery = nursery
        self._events = events
        self._fatal_errors = fatal_errors
        self.stopping = False
        """Whether no change can begin any more."""

    async def finish(self, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """The result of `work`, which is completed even if the caller is cancelled. Raises `Refused`."""
        if self.stopping:
            raise Refused(503, STOPPING)
        change = _Change()
        self._nursery.start_soon(self._run, work, change)
        await change.over.wait()
        if change.refused is not None:
            raise change.refused
        return cast("ResultT", change.result)

    def run_beside(self, task: Callable[[], Awaitable[object]], failure: str) -> None:
        """Run a task that no request waits for, until it ends or the interface does. `failure` is the event of a
        bug in it."""

        async def run() -> None:
            try:
                await task()
            except self._fatal_errors:
                raise
            except Exception as error:  # noqa: BLE001 - a bug in it must not end the cluster
                self._events.exception_rarely(failure, error)

        self._nursery.start_soon(run)

    async def _run(self, work: Callable[[], Awaitable[object]], change: _Change) -> None:
        # Stands if the work is cancelled, or ends the process.
        change.refused = Refused(503, STOPPING)
        try:
            change.result = await work()
            change.refused = None
        except NoSuchBroker as error:
            change.refused = Refused(404, str(error))
        except BrokerTimedOut as error:
            change.refused = Refused(504, str(error))
        except SnapshotFailed as error:
            change.refused = Refused(507, str(error))
        except (BrokerError, PortTaken) as error:
            change.refused = Refused(409, str(error))
        except Refused as error:
            change.refused = error
        except self._fatal_errors:
            raise
        except Exception as error:  # noqa: BLE001 - a bug in one request must not end the cluster
            self._events.exception_rarely("bug: a change asked for by control failed", error)
            change.refused = Refused(500, BUG)
        finally:
            change.over.set()
