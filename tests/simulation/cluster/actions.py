"""What happens to a cluster: one function each, with the weight of its chance. To add one, write it and list it.

An action starts something and comes back; what takes time goes on beside the next ones.
"""

from collections.abc import Awaitable, Callable
from random import Random

import trio

from klamm.broker.simulated_broker import BrokerError
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.codec.requests import encode_request
from tests.simulation.cluster.client import BROKEN_CORRELATION_ID, SimulatedClient
from tests.simulation.cluster.outside import OutsideBroker
from tests.simulation.cluster.requests import Asker
from tests.simulation.cluster.surroundings import Refused
from tests.simulation.cluster.world import OUTSIDE_IDS, World

MOST_CLIENTS = 8
MOST_BROKERS = 6
PAUSES = (0.01, 0.1, 0.1, 0.5, 0.5, 3.0, 12.0)
LEAPS = (1.0, 8.0, 15.0, 400.0)
GARBAGE_SIZES = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00", b"\x00\x00\x00\x09")

Action = Callable[[World], Awaitable[None]]


def connect_one(world: World) -> SimulatedClient | None:
    """A new client of some broker, or of the controller."""
    broker_id = world.chance.choice((*world.living.server.brokers.by_id, None))
    try:
        client = SimulatedClient(world, broker_id)
    except Refused:
        return None
    world.note(f"{client.name} connects to {broker_id or 'the controller'}")
    return client


async def talk(world: World) -> None:
    """Some clients ask something, one or several requests in a row."""
    useful = [client for client in world.clients if client.is_of_use]
    beats = {broker.client_name for broker in world.outside.values()}
    useful = [client for client in useful if client.name not in beats and not client.is_private]
    while len(useful) < 3 and (client := connect_one(world)):
        useful.append(client)
    for client in world.chance.sample(useful, min(len(useful), world.chance.choice((1, 1, 2, 3)))):
        for _ in range(world.chance.choice((1, 1, 2, 4))):
            api, request = Asker(world, world.chance).make(client.broker_id)
            newest = api.latest_stable
            version = newest if world.chance.random() < 0.7 else world.chance.randint(api.kept_versions.start, newest)
            world.note(f"{client.name} asks {client.broker_id or 'the controller'}: {api.name} v{version} {request}")
            client.ask(api, version, request)


async def come(world: World) -> None:
    if sum(not client.is_private for client in world.clients) < MOST_CLIENTS:
        connect_one(world)


async def leave(world: World) -> None:
    """A client says that it is done, and wants its answers."""
    if client := _some_client(world):
        world.note(f"{client.name} says that nothing more will come")
        client.leave()


async def hang_up(world: World) -> None:
    """A client is gone, perhaps with answers on their way."""
    if client := _some_client(world):
        world.note(f"{client.name} hangs up")
        client.hang_up()


async def misbehave(world: World) -> None:
    """A client sends what is no request, or half of one."""
    client = connect_one(world)
    if client is None:
        return
    api, request = Asker(world, world.chance).make(client.broker_id)
    if world.chance.random() < 0.5:
        client.ask(api, api.latest_stable, request)
    client.broken = True
    frame = bytearray(encode_frame(encode_request(api, api.latest_stable, BROKEN_CORRELATION_ID, client.name, request)))
    data = _spoilt(frame, world.chance)
    world.note(f"{client.name} sends {data.hex()}")
    client.send(data)
    if world.chance.random() < 0.5:
        client.hang_up()


def _spoilt(frame: bytearray, chance: Random) -> bytes:
    kind = chance.randrange(5)
    if kind == 0:
        return bytes(frame[: chance.randrange(1, len(frame))])
    if kind == 1:
        return chance.choice(GARBAGE_SIZES) + chance.randbytes(20)
    if kind == 2:
        return chance.randbytes(chance.randint(1, 100))
    if kind == 3:
        cut = frame[4 : chance.randrange(5, len(frame))]
        return encode_frame(bytes(cut))
    for _ in range(chance.randint(1, 3)):
        frame[chance.randrange(4, len(frame))] ^= 1 << chance.randrange(8)
    return bytes(frame)


def _some_client(world: World) -> SimulatedClient | None:
    useful = [client for client in world.clients if client.is_of_use]
    return world.chance.choice(useful) if useful else None


async def stop_broker(world: World) -> None:
    """A controlled shutdown, or a crash."""
    broker_id = world.chance.choice(list(world.living.server.brokers.by_id))
    mode = world.chance.choice(("shutdown", "crash", "crash"))
    _let_go(world, broker_id)
    world.note(f"broker {broker_id}: {mode}")
    _at_its_pace(
        world, broker_id, lambda: world.living.server.stop_broker(broker_id, "crash" if mode == "crash" else "shutdown")
    )


async def start_broker(world: World) -> None:
    down = [broker_id for broker_id, broker in world.living.server.brokers.by_id.items() if not broker.is_up]
    if down:
        broker_id = world.chance.choice(down)
        world.note(f"broker {broker_id} starts")
        _at_its_pace(world, broker_id, lambda: world.living.server.start_broker(broker_id))


async def add_broker(world: World) -> None:
    if len(world.living.server.brokers.by_id) < MOST_BROKERS:
        world.note("one more broker")
        _at_its_pace(world, world.living.server.brokers.next_id(), world.living.server.add_broker)


async def remove_broker(world: World) -> None:
    broker_id = max(world.living.server.brokers.by_id)
    if broker_id > world.brokers:
        _let_go(world, broker_id)
        world.note(f"broker {broker_id} is removed")
        _at_its_pace(world, broker_id, lambda: world.living.server.remove_broker(broker_id))


def _let_go(world: World, broker_id: int) -> None:
    """Its clients have to expect that they are closed upon."""
    for client in world.clients:
        if client.broker_id == broker_id:
            client.expect_the_end()


def _at_its_pace(world: World, broker_id: int, change: Callable[[], Awaitable[object]]) -> None:
    changing = world.living.changing
    if broker_id in changing:
        return

    async def make() -> None:
        try:
            await change()
        except BrokerError as error:
            world.note(f"refused: {error}")
        changing.discard(broker_id)

    changing.add(broker_id)
    world.living.tasks.start_soon(make)


async def outside_broker(world: World) -> None:
    """A broker registers from outside, falls silent, or speaks again."""
    broker_id = world.chance.choice(OUTSIDE_IDS)
    broker = world.outside.get(broker_id)
    if broker is None:
        world.note(f"broker {broker_id} comes from outside")
        world.outside[broker_id] = broker = OutsideBroker(world, broker_id)
        world.living.tasks.start_soon(broker.live)
    else:
        broker.silent = not broker.silent
        world.note(f"broker {broker_id} outside is {'silent' if broker.silent else 'there again'}")


async def pass_time(world: World) -> None:
    await trio.sleep(world.chance.choice(PAUSES))


async def leap(world: World) -> None:
    """The process did not run for a while."""
    seconds = world.chance.choice(LEAPS)
    world.note(f"{seconds:.0f} seconds pass at once")
    for client in world.clients:
        for asked in client.waiting:
            asked.sent_at += seconds
    world.clock.jump(seconds)
    await trio.sleep(0.2)


async def cut_power(world: World) -> None:
    """The machine dies, now or at one of the next syncs."""
    if world.chance.random() < 0.5:
        world.disk.cut_power()
    else:
        world.disk.cut_power_soon(world.chance.randint(1, 12))


async def take_snapshot(world: World) -> None:
    """Somebody asks for one."""
    world.note("a snapshot")
    world.living.tasks.start_soon(world.living.server.snapshot)


async def stop(world: World) -> None:
    """The server is stopped as SIGTERM does it, and started again."""
    world.note("the server is stopped")
    world.living.stopping = True


ACTIONS: tuple[tuple[Action, float], ...] = (
    (talk, 20),
    (come, 1),
    (leave, 1),
    (hang_up, 1),
    (misbehave, 1.5),
    (stop_broker, 2),
    (start_broker, 2.5),
    (add_broker, 0.5),
    (remove_broker, 0.3),
    (outside_broker, 0.8),
    (pass_time, 3),
    (leap, 0.5),
    (take_snapshot, 0.5),
    (cut_power, 0.9),
    (stop, 0.5),
)
