"""What holds after every step, by name. Each raises Violation, and changes nothing.

Those of `tests.simulation` that look at the image alone hold here, too. More stands where it is seen: in `witness` (of
each batch of the log and of each restart), in `client` (of each answer) and in `simulation` (at the end).
"""

from collections.abc import Callable, Iterator

import trio

from klamm.broker.coordinator.shard import Shard
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import Partition
from tests.controller.snapshots import lasting_facts
from tests.simulation import invariants, move_invariants
from tests.simulation.applications.holds import (
    a_coordinator_is_what_its_records_make,
    a_share_coordinator_is_what_its_records_make,
)
from tests.simulation.cluster.violation import Violation, demand
from tests.simulation.cluster.witness import Place
from tests.simulation.cluster.world import World
from tests.simulation.model_configs import BROKER, ModelConfigs

RETENTION = "retention.ms"


class Shown:
    """What the invariants of `tests.simulation` look at."""

    def __init__(self, world: World) -> None:
        self.image = world.living.image
        self.shadow = world.witness.shadow
        self.changes = world.witness.changes
        self.configs: ModelConfigs = world.witness.configs
        self.configs.dynamic = {name: dict(of) for (kind, name), of in self.image.configs.items() if kind == BROKER}
        self._partitions = {
            (topic.topic_id, index): self.image.partitions.read(topic.row, index)
            for topic in self.image.topics_by_name.values()
            for index in range(self.image.partition_count(topic))
        }

    def partitions(self) -> dict[Place, Partition]:
        return self._partitions


def the_image_is_a_replay_of_the_log(world: World) -> None:
    """Of all its bytes, also where the process began with a snapshot and what came behind it."""
    told, replayed = lasting_facts(world.living.image), lasting_facts(world.witness.shadow)
    told["next_offset"] = replayed["next_offset"] = None  # a snapshot ends behind control records, too
    different = [(name, told[name], replayed[name]) for name in told if told[name] != replayed[name]]
    demand("the_image_is_a_replay_of_the_log", not different, f"{different}")


def the_high_watermark_never_goes_back(world: World) -> None:
    """While a member of the ISR lives: unclean elections forget it. In whole batches: replicas may be in the middle of
    one, which goes if one of them is elected then, and nobody has read of it."""
    now_ms, seen = world.now_ms(), world.living.high_watermarks
    for topic in world.living.image.topics_by_id.values():
        for index, found in world.living.brokers.data.partitions_of(topic.topic_id).items():
            place, now = (topic.topic_id, index), found.log.batch_start(found.high_watermark(now_ms))
            before = seen.get(place, 0)
            demand("the_high_watermark_never_goes_back", now >= before, f"{topic.name}-{index}: {now} after {before}")
            seen[place] = now


def acknowledged_records_are_not_lost(world: World) -> None:
    """All of them are on every broker in sync, as they were written, but those that retention has removed."""
    image, now_ms = world.living.image, world.now_ms()
    short_lived = {name for _, name, config, _ in world.witness.written.configs if config == RETENTION}
    for one in world.living.acknowledged:
        topic_id, index = one.place
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            continue
        name = f"{topic.name}-{index} at {one.base_offset}"
        found = world.living.find_records(one.place)
        if found is None:
            raise Violation("acknowledged_records_are_not_lost", f"{name}: nothing is there")
        if topic.name in short_lived and one.base_offset < found.log.log_start_offset:
            continue
        there = found.log.read(one.base_offset, 1, found.log.log_end_offset) or b""
        demand("acknowledged_records_are_not_lost", one.value in there, f"{name}: {one.value!r} is not in {there!r}")
        for replica in image.partitions.read(topic.row, index).isr:
            has = found.log_end_offset(replica, now_ms)
            demand("acknowledged_records_are_not_lost", has > one.base_offset, f"{name}: broker {replica} has {has}")


class _Coordinators:
    """As much of a life as the invariants of coordinators look at."""

    def __init__(self, world: World) -> None:
        self.image, self._living = world.living.image, world.living
        self.data = world.living.brokers.data

    def shards(self, topic_name: str) -> list[Shard]:
        """Those whose broker still leads; the others end with the next request."""
        topic, found = self.image.topics_by_name.get(topic_name), []
        for shard in self._living.brokers.coordinators.loaded_shards(topic_name) if topic else ():
            assert topic is not None
            is_there = shard.topic.topic_id == topic.topic_id and shard.broker_id not in self.data.down
            if is_there and self.image.partitions.read(topic.row, shard.index).leader == shard.broker_id:
                found.append(shard)
        return found


def coordinators_are_what_their_records_make(world: World) -> None:
    """Those of groups and of share partitions."""
    if world.shares is not None:
        a_coordinator_is_what_its_records_make(_Coordinators(world))
        a_share_coordinator_is_what_its_records_make(_Coordinators(world))


def no_handler_fails(world: World) -> None:
    """Whatever was asked: a bug of ours is an event, and told here."""
    events = world.living.events.getvalue()
    demand("no_handler_fails", "bug:" not in events, events)


def every_answer_comes_in_time(world: World) -> None:
    for client in world.clients:
        client.look_at_the_time()


def no_task_is_left(tasks_before: int) -> None:
    """When server and clients are gone."""
    living = trio.lowlevel.current_statistics().tasks_living
    demand("no_task_is_left", living == tasks_before, f"{living} tasks, {tasks_before} before")


ALWAYS: tuple[Callable[[World], None], ...] = (
    the_image_is_a_replay_of_the_log,
    the_high_watermark_never_goes_back,
    acknowledged_records_are_not_lost,
    coordinators_are_what_their_records_make,
    no_handler_fails,
    every_answer_comes_in_time,
)
OF_THE_IMAGE: tuple[Callable[[invariants.Shown], None], ...] = (
    invariants.the_isr_is_among_the_replicas,
    invariants.who_is_eligible_is_not_in_sync,
    invariants.placeholders_stand_last_and_never_lead_nor_are_in_sync,
    invariants.usage_is_what_a_recount_gives,
)
OF_THE_MOVES: tuple[Callable[[move_invariants.Changed], None], ...] = (
    move_invariants.no_move_leaves_fewer_in_sync_than_there_were_or_shall_be,
    move_invariants.replicas_leave_only_when_all_who_come_are_in_sync,
)
WHEN_NOTHING_IS_LEFT_TO_DO: tuple[Callable[[Shown], None], ...] = (
    invariants.the_leader_is_in_sync_and_live_or_nobody_leads,
    invariants.no_placeholder_is_left_that_a_broker_could_fill,
    invariants.a_partition_is_on_brokers_of_one_kind,
    move_invariants.nothing_is_being_moved_any_more_once_it_is_there,
)
"""Between two steps of long work these may not hold yet."""


def hold(world: World) -> None:
    """Raises Violation for the first that does not hold."""
    if world.violations:
        raise world.violations[0]
    for holds in ALWAYS:
        holds(world)
    shown = Shown(world)
    always: tuple[Callable[[Shown], None], ...] = (*OF_THE_IMAGE, *OF_THE_MOVES)
    for each in always:
        _named(each, shown)
    if not world.living.controller.has_work:
        for each in WHEN_NOTHING_IS_LEFT_TO_DO:
            _named(each, shown)
    world.witness.changes.clear()


def _named(holds: Callable[[Shown], None], shown: Shown) -> None:
    try:
        holds(shown)
    except Violation:
        raise
    except AssertionError as error:
        raise Violation(holds.__name__, str(error) or _where(error)) from error


def _where(error: AssertionError) -> str:
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    names = trace.tb_frame.f_locals if trace else {}
    return ", ".join(
        f"{name}={value}"
        for name, value in names.items()
        if name in ("partition", "before", "after", "broker_id", "live", "counted")
    )


def reassigning_though_all_live(image: MetadataImage) -> list[str]:
    """Partitions that would have ended their move by now."""
    return [
        f"{name}: {partition}"
        for name, partition in _partitions(image)
        if partition.reassigning
        and partition.leader >= 0
        and {replica for replica in partition.replicas if replica >= 0} <= _can_follow(image, partition)
        # As recorded from Kafka: who is to come and to go at once never comes.
        and not set(partition.adding_replicas) & set(partition.removing_replicas)
    ]


def out_of_sync_though_all_live(image: MetadataImage) -> list[str]:
    """Partitions of which a live replica is not in sync, though there is a leader to fetch from."""
    return [
        f"{name}: {partition}"
        for name, partition in _partitions(image)
        if partition.leader >= 0 and _can_follow(image, partition) - set(partition.isr)
    ]


def _partitions(image: MetadataImage) -> Iterator[tuple[str, Partition]]:
    for topic in image.topics_by_name.values():
        for index in range(image.partition_count(topic)):
            yield f"{topic.name}-{index}", image.partitions.read(topic.row, index)


def _can_follow(image: MetadataImage, partition: Partition) -> set[int]:
    """The replicas on live brokers that have the directory where the replica is: who was unregistered and comes again
    with another directory does not."""
    found = set()
    for replica, directory in zip(partition.replicas, partition.directories, strict=True):
        broker = image.brokers.get(replica)
        if broker is not None and broker.live and broker.has_directory(directory):
            found.add(replica)
    return found
