"""A seed's whole history, from an empty directory to a cluster at rest, and what became of it."""

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import trio

from klamm.broker.simulated_broker import BrokerError
from klamm.controller.settings import Profile
from klamm.server.request_log import RequestLine
from tests.simulation.cluster import holds, share_members
from tests.simulation.cluster.actions import ACTIONS
from tests.simulation.cluster.share_groups import ShareGroups
from tests.simulation.cluster.surroundings import surroundings
from tests.simulation.cluster.violation import Violation, demand
from tests.simulation.cluster.witness import Place
from tests.simulation.cluster.world import Life, World

STEPS = 60
SETTLE_SECONDS = (0.0, 0.0, 0.002, 0.05, 0.2)
SHARE_SECONDS = (0.0, 0.3, 1.0)
"""More time between two steps, in which members of share groups do something."""
CALM_SECONDS = 150.0
LOOK_SECONDS = 5.0
GONE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a seed ended."""

    seed: int
    failure: str | None
    """The invariant that did not hold, and why."""
    digest: str
    """Of all bytes that were appended to the log."""
    trace: tuple[str, ...]
    requests: int
    lives: int


def simulate(seed: int, *, steps: int = STEPS, profile: Profile | None = None, traced: bool = True) -> Ended:
    """Run one seed. What it finds is in the outcome: nothing is raised. Without `traced` it tells no history."""
    failure = None
    with tempfile.TemporaryDirectory(prefix="klamm-simulation-") as folder:
        world = World(seed, Path(folder), profile)
        try:
            play(world, steps)
        except Violation as violation:
            failure = str(violation)
        except Exception as error:  # noqa: BLE001 - whatever it is, this seed has found it
            failure = _told(error).replace(folder, "")
    trace = tuple(world.trace) if traced else ()
    return Ended(seed, failure, world.witness.digest, trace, world.requests_ever, world.lives)


def play(world: World, steps: int) -> None:
    """Run a world's seed; what it leaves behind is in `world.disk.data_dir`. Raises what it finds."""
    with surroundings(world.seed, world.disk):
        trio.run(_history, world, steps, clock=world.clock)


def _told(error: BaseException) -> str:
    leaves = list(_leaves(error))
    for leaf in leaves:
        if isinstance(leaf, Violation):
            return str(leaf)
    return "the_server_never_fails: " + "; ".join(map(repr, leaves))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error


async def _history(world: World, steps: int) -> None:
    if world.has_shares:
        world.shares = ShareGroups(world)
    world.disk.on_cut = world.power_is_cut
    world.witness.on_decided = lambda line: _tell(world, line)
    world.witness.on_unclean = lambda place, was_last: _forget(world, place, was_last=was_last)
    tasks_before = trio.lowlevel.current_statistics().tasks_living
    at_rest, left = False, steps
    while not at_rest:
        async with trio.open_nursery() as nursery:
            world.nursery = nursery
            async with world.open_life() as life:
                for broker in world.outside.values():
                    life.tasks.start_soon(broker.live)
                if world.shares is not None:
                    share_members.begin(world.shares)
                left = await _steps(world, life, left)
                if not left and _goes_on(world, life) and not world.violations:
                    at_rest = await _come_to_rest(world)
            await _all_clients_are_closed(world)
            nursery.cancel_scope.cancel()
        holds.no_task_is_left(tasks_before)
        if world.violations:
            raise world.violations[0]
    log = world.open_log()
    log.watch(world.witness)
    log.close()


async def _steps(world: World, life: Life, left: int) -> int:
    """As long as this process lives; how many steps are left."""
    actions, weights = zip(*ACTIONS, strict=True)
    while left and _goes_on(world, life):
        left -= 1
        [action] = world.chance.choices(actions, weights)
        await action(world)
        await trio.sleep(world.chance.choice(SETTLE_SECONDS))
        if world.shares is not None:
            await trio.sleep(world.chance.choice(SHARE_SECONDS))
        if not world.witness.dead and not _hold(world):
            return 0
    return left


def _goes_on(world: World, life: Life) -> bool:
    return not world.witness.dead and not life.stopping


def _hold(world: World) -> bool:
    try:
        holds.hold(world)
    except Violation as violation:
        world.violations.append(violation)
    return not world.violations


async def _come_to_rest(world: World) -> bool:
    """All brokers come up, nobody asks for anything any more, and time passes."""
    life = world.living
    world.disk.keep_power()
    world.note("all brokers come up")
    for broker in world.outside.values():
        broker.silent = False
    if world.shares is not None:
        world.shares.calm = True
    until = trio.current_time() + CALM_SECONDS
    while True:
        for broker_id, one in list(life.server.brokers.by_id.items()):
            if not one.is_up:
                with suppress(BrokerError):
                    await life.server.start_broker(broker_id)
        await trio.sleep(LOOK_SECONDS)
        moving = holds.reassigning_though_all_live(life.image)
        behind = holds.out_of_sync_though_all_live(life.image)
        waiting = any(client.waiting for client in world.clients if not client.is_private)
        if world.shares is not None:
            world.shares.stop_if_all_is_given()
        is_given = world.shares is None or world.shares.quiet
        at_rest = not moving and not behind and not waiting and is_given
        if not _hold(world) or at_rest or trio.current_time() > until:
            break
    try:
        demand("reassignments_end_once_all_brokers_live", not moving, "; ".join(moving))
        demand("replicas_catch_up_once_all_brokers_live", not behind, "; ".join(behind))
        if world.shares is not None:
            world.shares.demand_all()
    except Violation as violation:
        world.violations.append(violation)
    return True


async def _all_clients_are_closed(world: World) -> None:
    world.nobody_is_connected = trio.Event()
    with trio.move_on_after(GONE_SECONDS if world.clients else 0):
        await world.nobody_is_connected.wait()
    if world.clients:
        names = ", ".join(client.name for client in world.clients)
        world.violations.append(Violation("a_stop_closes_every_connection", names))


def _tell(world: World, line: RequestLine) -> None:
    for client in world.clients:
        if client.name == line.client_id:
            try:
                client.is_decided(line)
            except Violation as violation:
                world.violations.append(violation)


def _forget(world: World, place: Place, *, was_last: bool) -> None:
    """An unclean election may lose what was acknowledged."""
    if world.shares is not None and not was_last:
        world.shares.forget(place)
    world.witness.promised.record_offsets.pop(place, None)
    if world.life is not None:
        world.life.acknowledged = [one for one in world.life.acknowledged if one.place != place]
        world.life.high_watermarks.pop(place, None)
