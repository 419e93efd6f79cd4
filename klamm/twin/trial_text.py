"""The report of a trial as lines of text, at most 80 characters wide where names allow it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from klamm.assignment import NO_LIMIT
from klamm.assignment.wording import counted
from klamm.protocol.printable import printable
from klamm.twin.affected import Named
from klamm.twin.cluster_counts import NO_RACK, BrokerCounts
from klamm.twin.report import FAILURES, Report, ToCopy, time_of_copy
from klamm.twin.trial import StepResult, Trial

SHOWN_REFUSALS: Final = 10
SHOWN_BROKERS: Final = 100
SHOWN_PARTITIONS: Final = 5
KINDS: Final = {
    "offline": "without a leader",
    "under_min_isr": "under min.insync.replicas",
    "under_replicated": "under-replicated",
    "few_racks": "in fewer racks than possible",
    "placeholders": "placeholders",
}
_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")


def as_lines(report: Report) -> Iterator[str]:
    """The lines."""
    trial = report.trial
    yield from head_lines(trial)
    for number, step in enumerate(trial.steps, 1):
        yield ""
        yield f"step {number}: {printable(step.step)}"
        yield from (f"  {line}" for line in step_lines(step))
        yield from (f"  {line}" for line in changed_lines(trial, number))
    yield ""
    yield from _table(broker_rows(trial, report.copied))
    yield ""
    yield from _table(rack_rows(trial))
    for lines in (list(time_lines(report)), list(verdict_lines(report))):
        if lines:
            yield ""
            yield from lines


def head_lines(trial: Trial) -> Iterator[str]:
    """What the report is of."""
    yield f"cluster {trial.cluster_id}: {trial.before.partitions} partitions on {len(trial.before.brokers)} brokers"
    written = time_of_copy(trial)
    last = f", last record of {written}" if written is not None else ""
    yield f"metadata in {printable(trial.copy.path)}: up to offset {trial.copy.end_offset}{last}"
    yield f"profile {trial.profile}"


def step_lines(step: StepResult) -> Iterator[str]:
    """What the step itself did."""
    for refusal in step.refusals[:SHOWN_REFUSALS]:
        message = f": {_with_unlimited(printable(refusal.message))}" if refusal.message else ""
        yield f"refused: {printable(refusal.subject)}: {refusal.code}{message}"
    if step.refused > SHOWN_REFUSALS:
        yield f"refused: {step.refused - SHOWN_REFUSALS} more"
    yield from (f"warning: {printable(line)}" for line in step.warnings)
    yield from map(printable, step.done)
    if copied := sum(map(len, step.moves.values())):
        yield f"copied: {counted(copied, 'replica')} of {counted(len(step.moves), 'partition')}"
    lost = step.led_by_lost
    if lost is not None and lost.names:
        led = counted(len(lost.names) + lost.more, "partition")
        yield f"without a leader for up to {step.session_timeout_ms / 1000:g} s: {led}{_in_brackets(lost)}"
    if step.unfinished:
        yield f"not finished: {counted(step.unfinished, 'reassignment')}, because a broker is down"


def _with_unlimited(message: str) -> str:
    """The controller's message names both limits of KIP-578 with their values, also one that is not set."""
    return message.replace(f"={NO_LIMIT}", "=unlimited")


def changed_lines(trial: Trial, number: int) -> Iterator[str]:
    """The counts that step `number`, from 1 on, has changed, also while it lasted."""
    step = trial.steps[number - 1]
    before = trial.before if number == 1 else trial.steps[number - 2].after or trial.before
    changed = False
    for name, text in KINDS.items():
        first, last = getattr(before, name), getattr(step.after or before, name)
        during = max(first, last) if step.during is None else getattr(step.during, name)
        after = _names(step.newly_affected, name) if first != last else ""
        if during > max(first, last):
            yield f"{text}: {first} -> {last}{after}, and {during} meanwhile{_names(step.affected_meanwhile, name)}"
        elif first != last:
            yield f"{text}: {first} -> {last}{after}"
        changed |= first != last or during > max(first, last)
    if not changed:
        yield f"no {'other ' if step.done or step.moves else ''}change in leaders, ISRs or racks"


def _names(affected: Mapping[str, Named], kind: str) -> str:
    """The first of these partitions, in brackets."""
    named = affected.get(kind)
    return "" if named is None else _in_brackets(named)


def _in_brackets(named: Named) -> str:
    names = named.names[:SHOWN_PARTITIONS]
    others = len(named.names) - len(names) + named.more
    more = f" and {others} more" if others else ""
    return f" ({', '.join(map(printable, names))}{more})"


def broker_rows(trial: Trial, copied: ToCopy | None) -> list[tuple[str, ...]]:
    """A row for each broker, under a header."""
    before = {one.broker_id: one for one in trial.before.brokers}
    after = {one.broker_id: one for one in trial.after.brokers}
    of_bytes = ("received", "sent") if copied is not None else ()
    rows: list[tuple[str, ...]] = [("broker", "rack", "state", "replicas", "leaders", "limit", *of_bytes)]
    for broker_id in sorted(before.keys() | after.keys())[:SHOWN_BROKERS]:
        first, last = before.get(broker_id), after.get(broker_id)
        known = last or first
        assert known is not None, "it is in one of the two"
        row = (
            str(broker_id),
            printable(known.rack or NO_RACK),
            changed(_state(first), _state(last)),
            changed(first.replicas if first else 0, last.replicas if last else 0),
            changed(first.leaders if first else 0, last.leaders if last else 0),
            _limit(known),
        )
        sizes = () if copied is None else (copied.received.get(broker_id, 0), copied.sent.get(broker_id, 0))
        rows.append((*row, *map(size_text, sizes)))
    return rows


def rack_rows(trial: Trial) -> list[tuple[str, ...]]:
    """A row for each rack, under a header."""
    before, after = trial.before.racks, trial.after.racks
    rows: list[tuple[str, ...]] = [("rack", "replicas", "leaders")]
    for rack in sorted(before.keys() | after.keys()):
        first, last = before.get(rack, (0, 0)), after.get(rack, (0, 0))
        rows.append((printable(rack), changed(first[0], last[0]), changed(first[1], last[1])))
    return rows


def time_lines(report: Report) -> Iterator[str]:
    """How much is copied, and how long that takes at least."""
    copied, rate = report.copied, report.rate
    if copied is None:
        if rate is not None:
            yield "time: unknown, because the copy has no sizes of replicas: give them with --sizes FILE"
        return
    if not copied.replicas:
        if rate is not None:
            yield "to copy: nothing"
        return
    yield f"to copy: {size_text(copied.total)}, at most {size_text(copied.most)} to one broker"
    if copied.between_racks:
        yield f"between racks: {size_text(copied.between_racks)}"
    if rate is not None:
        yield f"time: at least {copied.least_seconds(rate):,.0f} s at {size_text(rate)} per second and broker"
    if copied.unknown:
        yield (
            f"warning: sizes of {copied.unknown} of {counted(copied.replicas, 'replica')} are unknown, and count as 0 B"
        )


def verdict_lines(report: Report) -> Iterator[str]:
    """What --fail-on has found."""
    verdict = report.verdict
    for kind in verdict.failed:
        yield f"failed: {kind}: {FAILURES[kind][0]}"
    if verdict.asked and not verdict.failed:
        yield f"passed: none of {', '.join(verdict.asked)}"
    if verdict.note is not None:
        yield f"warning: limit: {verdict.note}"


def changed(before: object, after: object) -> str:
    """One value, or both if they differ."""
    return str(after) if before == after else f"{before} -> {after}"


def size_text(size: float) -> str:
    """Bytes with a unit: 1.5 MB."""
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def _state(broker: BrokerCounts | None) -> str:
    if broker is None:
        return "removed"
    return "up" if broker.is_up else "down"


def _limit(broker: BrokerCounts) -> str:
    if broker.limit is None:
        return "-"
    return f"{broker.limit}, exceeded" if broker.is_over_limit else str(broker.limit)


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
