"""Runs cases one after the other, each on a copy that is up to date."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Final

from klamm import ElectionType
from klamm.admin.connection import Connection, open_connection
from klamm.controller.metadata.partition import NO_LEADER
from klamm.server.addresses import Address, decode_listen
from klamm.twin.followed_log import FollowedLog
from klamm.twin.follower import Follower
from tools.predictions.cases import CaseResult, run_case, run_steps
from tools.predictions.named import NAMED
from tools.predictions.sides import RealSide, ask
from tools.predictions.steps import DeleteTopic, Elect, Step, StopBroker
from tools.toolchain_checks.real_cluster import RealCluster

TWIN_CONFIGS: Final[Mapping[str, str]] = {"auto.leader.rebalance.enable": "false"}
REAL_CONFIGS: Final[Mapping[str, str]] = {
    **TWIN_CONFIGS,
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "unclean.leader.election.interval.ms": "86400000",
}
"""Static configs: a lost broker is fenced after six seconds, and no periodic election happens beside the cases."""
MAX_ANSWER_BYTES: Final = 100 << 20


async def run_cases(
    cluster: RealCluster, copy: Path, cases: Iterable[int], seed: int, say: Callable[[str], None]
) -> list[CaseResult]:
    """The results of the cases with these numbers. A number draws a case, from what the cluster is at that time."""
    real, found = RealSide(cluster), []
    for number in cases:
        await _clean(real)
        await follow_once(cluster.controller, copy)
        result = await run_case(real, copy, TWIN_CONFIGS, Random(f"{seed}/{number}"))
        found.append(result)
        _report(f"case {number}", result, say)
    return found


async def run_named(
    cluster: RealCluster, copy: Path, say: Callable[[str], None], *, stops_brokers: bool = True
) -> list[CaseResult]:
    """The results of the cases that were once predicted wrongly; with `stops_brokers=False` only of those cases that
    stop no broker, which takes a while."""
    real, found = RealSide(cluster), []
    for name, steps in NAMED.items():
        if not stops_brokers and any(isinstance(step, StopBroker) for step in steps):
            continue
        await _clean(real)
        await follow_once(cluster.controller, copy)
        result = await run_steps(real, copy, TWIN_CONFIGS, steps)
        found.append(result)
        _report(name, result, say)
    return found


def _report(name: str, result: CaseResult, say: Callable[[str], None]) -> None:
    verdict = "as predicted" if result.is_as_predicted else "NOT AS PREDICTED"
    say(f"{name}: {verdict}: {'; '.join(map(worded, result.steps))}")
    for step, difference in result.differences:
        say(f"  {name}, {worded(step)}:\n    {difference}")


async def _clean(real: RealSide) -> None:
    """Delete topics where known differences have come about, and elect leaders where the periodic task would: the
    brokers of a twin have just registered, which elects them."""
    servers = real.cluster.bootstrap_servers
    for name in sorted({partition.topic_name for partition in real.state().stale}):
        await ask(servers, DeleteTopic(name))
        await real.settle(None)
    if any(found.leader == NO_LEADER for found in real.state().partitions.values()):
        await ask(servers, Elect(None, ElectionType.UNCLEAN))
        await real.settle(None)


async def follow_once(controller: str, copy: Path) -> None:
    """Bring the copy up to date."""
    log = FollowedLog(copy)
    try:
        follower = Follower(log, [decode_listen(controller)], _connect, lambda _: None, timeout_seconds=60.0)
        await follower.follow(until_caught_up=True)
    finally:
        log.close()


async def _connect(address: Address) -> Connection:
    return await open_connection(address, "klamm-predictions", MAX_ANSWER_BYTES)


def worded(step: Step) -> str:
    """A step in a line."""
    return str(step)
