"""What a report of `klamm try` has beside the trial: the bytes to copy, their least time, the verdict of --fail-on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from klamm.admin.partition_types import TopicPartition
from klamm.cluster.twin_configs import STATIC_CONFIGS_FILE
from klamm.twin.trial import Trial


def _under_min_isr(trial: Trial) -> bool:
    counts = [one for step in trial.steps for one in (step.during, step.after) if one is not None]
    return any(one.under_min_isr > trial.before.under_min_isr or one.offline > trial.before.offline for one in counts)


def _limit(trial: Trial) -> bool:
    over = any(broker.is_over_limit for broker in trial.after.brokers)
    return over or any(one.code == "POLICY_VIOLATION" for step in trial.steps for one in step.refusals)


FAILURES: Final[Mapping[str, tuple[str, Callable[[Trial], bool]]]] = {
    "under-min-isr": ("more partitions than before are under min.insync.replicas, or without a leader", _under_min_isr),
    "limit": ("a broker exceeds a limit of KIP-578, or the limit refuses a change", _limit),
    "rack": (
        "more partitions than before are in fewer racks than they could be",
        lambda trial: trial.after.few_racks > trial.before.few_racks,
    ),
    "refused": ("the cluster refuses a change", lambda trial: any(step.refused for step in trial.steps)),
    "unfinished": ("a reassignment cannot end", lambda trial: any(step.unfinished for step in trial.steps)),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What --fail-on has found."""

    asked: Sequence[str] = ()
    failed: Sequence[str] = ()
    note: str | None = None
    """Why the condition `limit` cannot be true; None: it can, or was not asked for."""


def judged(trial: Trial, kinds: Sequence[str]) -> Verdict:
    """The conditions of these kinds that are true of the trial."""
    failed = [kind for kind in kinds if FAILURES[kind][1](trial)]
    is_void = "limit" in kinds and "limit" not in failed and not trial.has_limit
    return Verdict(kinds, failed, _no_limit_found(Path(trial.copy.path)) if is_void else None)


def _no_limit_found(twin: Path) -> str:
    """Why --fail-on limit cannot fail."""
    stored = twin / STATIC_CONFIGS_FILE
    where = f"{stored} has none either" if stored.is_file() else "the copy has no static configs"
    return (
        "the twin has neither max.broker.partitions nor max.partitions (KIP-578; Apache Kafka 4.3 has no such limit), "
        f"so this check finds nothing; {where}. Give a limit with --set"
    )


@dataclass(frozen=True, slots=True)
class ToCopy:
    """What all moves of the trial copy."""

    received: Mapping[int, int]
    """The bytes that each broker receives."""
    sent: Mapping[int, int]
    """The bytes that each broker sends, as the leader when the move begins."""
    between_racks: int
    """The bytes from a broker to one of another rack."""
    replicas: int
    unknown: int
    """Replicas whose size is not known; they count as 0 bytes."""

    @property
    def total(self) -> int:
        return sum(self.received.values())

    @property
    def most(self) -> int:
        """The bytes that the broker receives that receives most."""
        return max(self.received.values(), default=0)

    def least_seconds(self, rate: int) -> float:
        """The time of all moves, if each broker receives `rate` bytes per second."""
        return self.most / rate


def to_copy(trial: Trial, sizes: Mapping[TopicPartition, int]) -> ToCopy:
    """The bytes of all moves, with the size of each partition."""
    racks = {one.broker_id: one.rack for one in trial.before.brokers}
    received: dict[int, int] = {}
    sent: dict[int, int] = {}
    between_racks = replicas = unknown = 0
    for step in trial.steps:
        for partition, brokers in step.moves.items():
            size, source = sizes.get(partition, 0), step.sources.get(partition)
            replicas += len(brokers)
            unknown += 0 if partition in sizes else len(brokers)
            for broker_id in brokers:
                received[broker_id] = received.get(broker_id, 0) + size
                between_racks += size if source is not None and racks.get(source) != racks.get(broker_id) else 0
            if source is not None:
                sent[source] = sent.get(source, 0) + size * len(brokers)
    return ToCopy(received, sent, between_racks, replicas, unknown)


@dataclass(frozen=True, slots=True)
class Report:
    """All that a report is made of."""

    trial: Trial
    copied: ToCopy | None = None
    """None: no sizes of replicas are known."""
    rate: int | None = None
    """Bytes per second that a broker receives; None: no times are wanted."""
    verdict: Verdict = Verdict()


def time_of_copy(trial: Trial) -> str | None:
    """The time of the copy's last record in UTC; None: the copy does not say it."""
    if trial.copy.last_timestamp_ms is None:
        return None
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=trial.copy.last_timestamp_ms)
    except OverflowError:
        return None
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
