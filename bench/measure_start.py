"""How long a start takes, from the spawn of the process to its ready line, and how much memory it then holds."""

import shutil
from collections.abc import Callable

from bench.processes import ROOT, Klamm, ServerProcess
from bench.rows import Row, median
from bench.workbench import Workbench, write_bytecode

SPAWNS = 15
KAFKA_SPAWNS = 3
FIRST_STARTS = 3
MIB = 1024 * 1024
READY_MARK_SECONDS = 0.5
MEMORY_MARK_MB = 70
BYTES_PER_MB = 1_000_000


class Starts:
    """Spawns of one server."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.resident_mb: list[float] = []
        self.proportional_mb: list[float] = []

    def spawn(self, make: Callable[[], ServerProcess]) -> None:
        with make() as server:
            self.seconds.append(server.seconds_to_ready)
            self.resident_mb.append(server.resident_bytes / BYTES_PER_MB)
            self.proportional_mb.append(server.proportional_bytes / BYTES_PER_MB)


def measure_start(bench: Workbench) -> list[Row]:
    """Spawns of Klamm and of kfake in turn, then a few of Apache Kafka."""
    klamm, script, kfake, kafka = Starts(), Starts(), Starts(), Starts()
    for _ in range(bench.samples(SPAWNS)):
        klamm.spawn(bench.klamm)
        kfake.spawn(bench.kfake)
        script.spawn(lambda: Klamm(bench.bytecode_dir, command=[str(ROOT / "scripts" / "klamm")]))
    if bench.kafka_class_path:
        for _ in range(bench.samples(KAFKA_SPAWNS, fewest=1)):
            with bench.folder() as folder:
                kafka.spawn(lambda folder=folder: bench.kafka(folder))  # type: ignore[misc]
    first = _first_starts(bench)
    rows = [*_compared("kfake", klamm, kfake), *(_compared("Kafka", klamm, kafka) if kafka.seconds else ())]
    ready = median(script.seconds)
    rows.append(
        Row(
            group="start",
            what="process spawn to ready line, started by scripts/klamm",
            unit="s",
            klamm=ready,
            samples=len(script.seconds),
        )
    )
    ready = median(first.seconds)
    rows.append(
        Row(group="start", what="first start after the installation", unit="s", klamm=ready, samples=len(first.seconds))
    )
    return rows


def _compared(peer: str, klamm: Starts, other: Starts) -> list[Row]:
    ready, resident = median(klamm.seconds), median(klamm.resident_mb)
    return [
        Row(
            group="start",
            what="process spawn to ready line",
            unit="s",
            klamm=ready,
            peer=peer,
            theirs=median(other.seconds),
            samples=len(klamm.seconds),
            peer_samples=len(other.seconds),
            mark=f"<= {READY_MARK_SECONDS} s",
            reached=ready <= READY_MARK_SECONDS,
            details={"klamm_min": min(klamm.seconds), "klamm_max": max(klamm.seconds)},
        ),
        Row(
            group="start",
            what="resident memory when ready",
            unit="MB",
            klamm=resident,
            peer=peer,
            theirs=median(other.resident_mb),
            samples=len(klamm.seconds),
            peer_samples=len(other.seconds),
            mark=f"<= {MEMORY_MARK_MB} MB",
            reached=resident <= MEMORY_MARK_MB,
            details={"klamm_pss": median(klamm.proportional_mb), "peer_pss": median(other.proportional_mb)},
        ),
    ]


def _first_starts(bench: Workbench) -> Starts:
    """Starts that have to compile Klamm's own modules; pip has compiled those of the libraries."""
    starts = Starts()
    for _ in range(bench.samples(FIRST_STARTS, fewest=1)):
        for package in ("assignment", "broker", "controller", "klamm", "protocol"):
            shutil.rmtree(bench.bytecode_dir.joinpath(*ROOT.parts[1:], package), ignore_errors=True)
        starts.spawn(bench.klamm)
    write_bytecode(bench)
    return starts
