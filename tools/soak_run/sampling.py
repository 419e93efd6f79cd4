"""Samples of a server process, from `/proc` and its data directory, and the search for leaks in the samples of a run.

Linux only. A leak is a resource that grows although the cluster returns to the same state: a line is fitted to the
second half of the samples, each taken when everything that a cycle created is deleted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from klamm.server.limits import MIB

BARS = "▁▂▃▄▅▆▇█"
FEWEST_FOR_A_LINE = 4
ALLOWED_GROWTH_BYTES = 8 * MIB
"""The allowed growth of resident memory over the second half of a run, for any number of requests: the variation of an
allocator."""
ALLOWED_BYTES_PER_REQUEST = 8.0
"""The allowed growth per request: less than any object of Python takes, so that nothing can be kept for each
request."""
ALLOWED_LOG_BYTES = 64 * MIB
"""The allowed growth of the metadata log and its snapshots, for any length of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A sample of the process."""

    seconds: float
    """Seconds since the run began."""
    requests: int
    """The answers so far to the clients that count theirs."""
    resident_bytes: int
    descriptors: int
    threads: int
    log_bytes: int
    """The files of the metadata log, snapshots included."""
    snapshots: int


def take_sample(process_id: int, data_dir: Path, seconds: float, requests: int) -> Sample:
    """Raises OSError if the process has ended."""
    process = Path("/proc") / str(process_id)
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines() if ":" in line)
    sizes = _log_files(data_dir)
    return Sample(
        seconds=seconds,
        requests=requests,
        resident_bytes=int(status["VmRSS"].split()[0]) * 1024,
        descriptors=len(list((process / "fd").iterdir())),
        threads=int(status["Threads"]),
        log_bytes=sum(sizes.values()),
        snapshots=sum(name.endswith(".checkpoint") for name in sizes),
    )


def _log_files(data_dir: Path) -> dict[str, int]:
    sizes = {}
    for path in data_dir.glob("__cluster_metadata-0/*"):
        try:
            sizes[path.name] = path.stat().st_size
        except FileNotFoundError:  # a segment that a snapshot has just replaced
            continue
    return sizes


def growth(samples: Sequence[Sample], what: Callable[[Sample], float]) -> float:
    """The growth of `what` over the second half of the samples, by linear regression; 0 if there are too few."""
    half = samples[len(samples) // 2 :]
    if len(half) < FEWEST_FOR_A_LINE:
        return 0.0
    xs = [float(sample.requests) for sample in half]
    ys = [what(sample) for sample in half]
    middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - middle_x) ** 2 for x in xs)
    if not spread:
        return 0.0
    slope = sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True)) / spread
    return slope * (xs[-1] - xs[0])


def leaks(samples: Sequence[Sample], first: Sample, last: Sample) -> list[str]:
    """The leaks, one clause each: `samples` were taken at the ends of cycles, `first` before all and `last` after all
    of them."""
    found = []
    half = samples[len(samples) // 2 :]
    requests = half[-1].requests - half[0].requests if half else 0
    allowed = max(ALLOWED_GROWTH_BYTES, ALLOWED_BYTES_PER_REQUEST * requests)
    grown = growth(samples, lambda sample: sample.resident_bytes)
    if grown > allowed:
        found.append(
            f"memory grew by {grown / MIB:.1f} MiB over the second half, {requests:,} requests; "
            f"{allowed / MIB:.1f} MiB are allowed"
        )
    if last.descriptors > first.descriptors:
        found.append(f"{last.descriptors - first.descriptors} descriptors are left open")
    if last.threads > first.threads:
        found.append(f"{last.threads - first.threads} threads are left")
    if last.log_bytes > ALLOWED_LOG_BYTES:
        found.append(f"the metadata log has {last.log_bytes / MIB:.0f} MiB; {ALLOWED_LOG_BYTES / MIB:.0f} are allowed")
    return found


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """The values as bars from the smallest to the largest, at most `width` of them."""
    if not values:
        return ""
    step = max(1, -(-len(values) // width))
    columns = [max(values[at : at + step]) for at in range(0, len(values), step)]
    low, high = min(columns), max(columns)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in columns)
