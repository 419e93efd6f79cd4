"""The report of a trial as a JSON object; docs/twins.md lists its members."""

from collections.abc import Mapping
from typing import Any

from klamm.twin.affected import Named
from klamm.twin.report import FAILURES, Report, time_of_copy
from klamm.twin.trial import StepResult


def as_json(report: Report) -> dict[str, Any]:
    """The result as a JSON object."""
    trial, copied = report.trial, report.copied
    return {
        "cluster_id": trial.cluster_id,
        "copy": {
            "path": trial.copy.path,
            "end_offset": trial.copy.end_offset,
            "last_record_time": time_of_copy(trial),
        },
        "profile": trial.profile,
        "before": trial.before.as_json(),
        "steps": [_step(one) for one in trial.steps],
        "received_bytes": None if copied is None else _by_broker(copied.received),
        "sent_bytes": None if copied is None else _by_broker(copied.sent),
        "to_copy": {
            "replicas": sum(len(brokers) for step in trial.steps for brokers in step.moves.values()),
            "replicas_of_unknown_size": None if copied is None else copied.unknown,
            "bytes": None if copied is None else copied.total,
            "bytes_between_racks": None if copied is None else copied.between_racks,
            "most_bytes_to_one_broker": None if copied is None else copied.most,
            "bytes_per_second": report.rate,
            "least_seconds": None
            if copied is None or report.rate is None
            else round(copied.least_seconds(report.rate), 3),
        },
        "verdict": {
            "fail_on": list(report.verdict.asked),
            "failed": [{"condition": kind, "reason": FAILURES[kind][0]} for kind in report.verdict.failed],
            "note": report.verdict.note,
        },
    }


def _step(step: StepResult) -> dict[str, Any]:
    return {
        "step": step.step,
        "refused": step.refused,
        "refusals": [{"subject": r.subject, "code": r.code, "message": r.message} for r in step.refusals],
        "done": list(step.done),
        "warnings": list(step.warnings),
        "copied_replicas": sum(map(len, step.moves.values())),
        "unfinished_reassignments": step.unfinished,
        "newly_affected": {kind: _named(named) for kind, named in step.newly_affected.items()},
        "affected_meanwhile": {kind: _named(named) for kind, named in step.affected_meanwhile.items()},
        "leader_lost_meanwhile": None
        if step.led_by_lost is None
        else {**_named(step.led_by_lost), "session_timeout_ms": step.session_timeout_ms},
        "during": None if step.during is None else step.during.as_json(),
        "after": None if step.after is None else step.after.as_json(),
    }


def _named(named: Named) -> dict[str, Any]:
    return {"partitions": list(named.names), "more": named.more}


def _by_broker(sizes: Mapping[int, int]) -> dict[str, int]:
    return {str(broker): size for broker, size in sorted(sizes.items())}
