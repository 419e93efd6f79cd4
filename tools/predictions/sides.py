"""The two sides of a prediction: the twin, which goes first, and the real cluster, on which the same is done then.

Both get the same requests from the same client. A side reads what its controller writes into its metadata log.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final, Literal, NamedTuple

import trio

from klamm import AdminClient, Cluster, RequestFailed
from klamm.admin.types import Result
from klamm.protocol.record_batch import decode_batches
from tools.predictions import steps
from tools.predictions.changes import Changes, LogTail, State, state_of
from tools.predictions.steps import Step
from tools.toolchain_checks.real_cluster import RealCluster, wait_started

TAIL_BYTES: Final = 64 << 20
SESSION_IS_OVER: Final = "20s"
AFTER_REQUEST: Final = "2s"
LOOK_SECONDS: Final = 0.05
QUIET_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 15.0
"""So long the real cluster may take to become what was predicted."""


class Refused(NamedTuple):
    """An item of a request that was refused."""

    subject: str
    code: str
    message: str | None


async def ask(servers: str, step: Step) -> tuple[Refused, ...]:
    """Send the request of a step. Returns what is refused."""
    async with AdminClient(servers) as admin:
        try:
            return _refused(await _results(admin, step))
        except RequestFailed as failed:
            return (Refused("request", failed.code.name, failed.error.message),)


async def _results(admin: AdminClient, step: Step) -> Iterable[Result]:
    match step:
        case steps.Reassign(targets, may_change_factor):
            return await admin.alter_partition_reassignments(targets, allow_replication_factor_change=may_change_factor)
        case steps.CreateTopic(topic):
            return await admin.create_topics([topic])
        case steps.AddPartitions(wanted):
            return await admin.create_partitions([wanted])
        case steps.DeleteTopic(name):
            return await admin.delete_topics([name])
        case steps.SetConfigs(resource, edits):
            return await admin.incremental_alter_configs({resource: edits})
        case steps.Elect(partitions, kind):
            return await admin.elect_leaders(partitions, kind)
        case _:
            raise AssertionError(f"{step} is no request")


def _refused(results: Iterable[Result]) -> tuple[Refused, ...]:
    return tuple(
        sorted(
            Refused(one._subject, one.error.code.name, one.error.message) for one in results if one.error is not None
        )
    )


class TwinSide:
    """A fork of the twin, with a clock that is advanced by hand."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._log = cluster._up._parts.log.reader()
        self._read_up_to = self._log.end_offset
        self.changes = Changes(cluster._up.image)
        self.changes.forget()

    async def do(self, step: Step) -> tuple[Refused, ...]:
        """Do a step, and let time pass until nothing happens any more."""
        refused: tuple[Refused, ...] = ()
        match step:
            case steps.StopBroker(broker_id, mode):
                await self._cluster.stop_broker(broker_id, mode)
                await self._cluster.advance(SESSION_IS_OVER)
            case steps.StartBroker(broker_id):
                await self._cluster.start_broker(broker_id)
                await self._cluster.advance(AFTER_REQUEST)
            case _:
                refused = await ask(self._cluster.bootstrap_servers, step)
                await self._cluster.advance(AFTER_REQUEST)
        self._follow()
        return refused

    async def would_refuse(self, step: Step) -> tuple[Refused, ...]:
        """What would be refused of new topics or partitions."""
        async with AdminClient(self._cluster.bootstrap_servers) as admin:
            match step:
                case steps.CreateTopic(topic):
                    return _refused(await admin.create_topics([topic], validate_only=True))
                case steps.AddPartitions(wanted):
                    return _refused(await admin.create_partitions([wanted], validate_only=True))
                case _:
                    raise AssertionError(f"{step} creates nothing")

    def state(self) -> State:
        """What the twin has become."""
        return state_of(self.changes.image)

    def _follow(self) -> None:
        for batch in decode_batches(self._log.read(self._read_up_to, TAIL_BYTES)):
            self._read_up_to = batch.last_offset + 1
            if not batch.is_control:
                self.changes.note(batch.records)


class RealSide:
    """The real cluster."""

    def __init__(self, cluster: RealCluster) -> None:
        self.cluster = cluster
        self.changes = Changes()
        self._tail = LogTail(cluster.metadata_log)
        self.read()

    @property
    def end_offset(self) -> int:
        """The end of what was read of the controller's log."""
        return self._tail.end_offset

    def read(self) -> int:
        """Read what is new in the controller's log. Returns the number of all records that say something."""
        for batch in self._tail.read():
            self.changes.take(batch)
        return self.changes.records

    def state(self) -> State:
        """What the cluster has become."""
        self.read()
        return state_of(self.changes.image)

    async def do(self, step: Step) -> tuple[Refused, ...]:
        """Do a step, and do not wait for what follows from it."""
        match step:
            case steps.StopBroker(broker_id, mode):
                await trio.to_thread.run_sync(self._stop, broker_id, mode)
                return ()
            case steps.StartBroker(broker_id):
                await trio.to_thread.run_sync(partial(wait_started, self.cluster.begin_start(broker_id)))
                return ()
            case _:
                return await ask(self.cluster.bootstrap_servers, step)

    def _stop(self, broker_id: int, mode: Literal["shutdown", "crash"]) -> None:
        self.cluster.stop(broker_id, mode)

    async def settle(self, predicted: State | None, seconds: float = PATIENCE_SECONDS) -> bool:
        """Wait until the cluster is what was predicted, and nothing happens any more. Returns whether it is. Without a
        prediction it is enough that nothing happens."""
        deadline = trio.current_time() + seconds
        seen, changed_at = self.read(), trio.current_time()
        while trio.current_time() < deadline:
            await trio.sleep(LOOK_SECONDS)
            now = trio.current_time()
            if (found := self.read()) != seen:
                seen, changed_at = found, now
            elif now - changed_at >= QUIET_SECONDS and (predicted is None or self.state() == predicted):
                return True
        return False
