"""`klamm try`: applies changes to a fork of a twin, and reports what happens (docs/twins.md).

Exit codes: 0; 1 if something that --fail-on names has happened; 2 for a wrong call, a file or a twin that cannot be
read, and names that the twin does not have.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import trio

from klamm.assignment import CannotPlace
from klamm.cluster.errors import ClusterError
from klamm.console.options import CommandParser, Once, UsageError, argument_of, file_path
from klamm.protocol.printable import printable
from klamm.reassign.files import as_file, as_text
from klamm.twin.changes import InvalidChanges, Step, read_changes
from klamm.twin.log_dir_sizes import SIZES_FILE, InvalidSizes, read_sizes
from klamm.twin.report import FAILURES, Report, judged, to_copy
from klamm.twin.trial import run_trial, suggest
from klamm.twin.trial_html import as_html
from klamm.twin.trial_json import as_json
from klamm.twin.trial_text import as_lines

EXIT_DONE, EXIT_FAILED, EXIT_UNUSABLE = 0, 1, 2
MAX_RATE: Final = 10**12
_RATE: Final = re.compile(r"(?P<number>[0-9]{1,13}(\.[0-9]{1,3})?)(?P<unit>[kKMGT]?)B?(/s)?", re.ASCII)
_FACTORS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


@dataclass(frozen=True, slots=True)
class TryOptions:
    """The parsed options of `klamm try`."""

    twin: Path
    changes: Path | None
    suggest: bool
    broker_list: Sequence[int] | None
    profile: Literal["kip", "kafka"]
    output: Literal["text", "json", "html"]
    sizes: Path | None
    rate: int | None
    fail_on: Sequence[str]
    configs: Mapping[str, str]
    """Static configs of all brokers, which a metadata log does not have."""


def try_parser() -> CommandParser:
    """The options of `klamm try`."""
    parser = CommandParser(
        prog="klamm try",
        description="Apply changes to a fork of a cluster's metadata. The report has the refused changes, the moved "
        "replicas, and the effects on leaders, racks, limits and ISRs. Klamm only reads the metadata.",
        example="klamm try --twin copy plan.json --fail-on under-min-isr,limit",
    )
    add = parser.add_argument
    add("changes", metavar="FILE", nargs="?", type=file_path,
        help="a reassignment file of Kafka's tool, or steps as YAML or JSON; - is stdin (default: none)")  # fmt: skip
    add("--twin", metavar="PATH", type=file_path, action=Once, required=True,
        help="a data directory, such as that of klamm follow, or FILE.checkpoint or FILE.log of one")  # fmt: skip
    add("--suggest", action="store_true",
        help="print a reassignment file that makes replicas even with few moves, instead of a report")  # fmt: skip
    add("--broker-list", metavar="N,…", type=argument_of(_broker_ids), action=Once,
        help="with --suggest: the brokers that may hold replicas (default: those that are up)")  # fmt: skip
    add("--profile", choices=("kip", "kafka"), action=Once,
        help="kip: with limits and placeholders, kafka: as Apache Kafka 4.3 (default: kip)")  # fmt: skip
    add("--set", metavar="NAME=VALUE", dest="sets", type=argument_of(_assignment), action="append", default=[],
        help="a static config of all brokers, as in server.properties, can be repeated (default: Kafka's default "
        "values, because a metadata log has no static configs)")  # fmt: skip
    add("--output", choices=("text", "json", "html"), action=Once, help="the form of the report (default: text)")
    add("--sizes", metavar="FILE", type=file_path, action=Once,
        help="the sizes of replicas, as kafka-log-dirs --describe printed them (default: those of klamm "
        "clone)")  # fmt: skip
    add("--rate", metavar="BYTES", type=argument_of(_rate), action=Once,
        help="bytes per second that a broker receives, such as 50MB, for the time of moves (default: no "
        "times)")  # fmt: skip
    add("--fail-on", metavar="KIND,…", type=argument_of(_kinds), action=Once,
        help=f"exit with code 1 on any of {', '.join(FAILURES)} (default: none)")  # fmt: skip
    return parser


def decode_try_options(arguments: Sequence[str]) -> TryOptions:
    """The options after `klamm try`. Raises UsageError."""
    given: argparse.Namespace = try_parser().parse_args(arguments)
    if given.suggest and given.changes is not None:
        raise UsageError("give FILE or --suggest, not both")
    if not given.suggest and given.changes is None:
        raise UsageError("either FILE with changes or --suggest is needed")
    if given.broker_list is not None and not given.suggest:
        raise UsageError("--broker-list is for --suggest")
    if given.suggest:
        _refuse_beside_suggest(given)
    return TryOptions(
        given.twin,
        given.changes,
        given.suggest,
        given.broker_list,
        given.profile or "kip",
        given.output or "text",
        given.sizes,
        given.rate,
        given.fail_on or (),
        _configs(given.sets),
    )


def _refuse_beside_suggest(given: argparse.Namespace) -> None:
    """Options of the report, because --suggest prints a plan and no report. Raises UsageError."""
    beside = {
        "--fail-on": given.fail_on is not None,
        "--sizes": given.sizes is not None,
        "--rate": given.rate is not None,
        "--profile": given.profile is not None,
        "--output": given.output is not None,
    }
    for option, is_given in beside.items():
        if is_given:
            raise UsageError(
                f"{option} cannot be given beside --suggest, which prints a plan: save the plan, and try it with "
                f"klamm try --twin PATH PLAN {option} …"
            )


def _broker_ids(text: str) -> Sequence[int]:
    try:
        found = [int(one) for one in text.split(",")]
    except ValueError:
        raise ValueError(f"{text[:40]!r}: broker ids are expected, such as 1,2,3") from None
    if min(found) < 0 or len(set(found)) < len(found):
        raise ValueError(f"{text[:40]!r}: distinct broker ids are expected")
    return found


def _rate(text: str) -> int:
    found = _RATE.fullmatch(text)
    rate = float(found["number"]) * _FACTORS[found["unit"].lower()] if found else 0.0
    if not 1 <= rate <= MAX_RATE:
        raise ValueError(f"{text[:40]!r}: bytes per second from 1 to {MAX_RATE} are expected, such as 50000000 or 50MB")
    return int(rate)


def _assignment(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise ValueError(f"{text[:40]!r}: NAME=VALUE is expected, such as num.partitions=12")
    return name.strip(), value.strip()


def _configs(assignments: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    configs: dict[str, str] = {}
    for name, value in assignments:
        if name in configs:
            raise UsageError(f"argument --set: {name} is given twice")
        configs[name] = value
    return configs


def _kinds(text: str) -> Sequence[str]:
    kinds = text.split(",")
    for kind in kinds:
        if kind not in FAILURES:
            from klamm.protocol.near_names import did_you_mean

            raise ValueError(f"{kind[:40]!r} is none of {', '.join(FAILURES)}{did_you_mean(kind, FAILURES)}")
    return kinds


def try_command(options: TryOptions) -> int:
    """Run `klamm try` with these options; returns the exit code."""
    try:
        if options.suggest:
            targets = trio.run(suggest, options.twin, options.broker_list, options.configs)
            sys.stdout.write(f"{as_text(as_file(targets))}\n")
            return EXIT_DONE
        assert options.changes is not None, "one of the two is given"
        steps: Sequence[Step] = read_changes(options.changes)
        beside = options.twin / SIZES_FILE
        sizes_from = options.sizes or (beside if beside.is_file() else None)
        sizes = None if sizes_from is None else read_sizes(sizes_from)
        trial = trio.run(run_trial, options.twin, steps, options.profile, options.configs)
    except (InvalidChanges, InvalidSizes, ClusterError, CannotPlace, ValueError) as error:
        sys.stderr.write(f"klamm try: {printable(str(error))}\n")
        return EXIT_UNUSABLE
    copied = None if sizes is None else to_copy(trial, sizes)
    report = Report(trial, copied, options.rate, judged(trial, options.fail_on))
    sys.stdout.write(_WRITERS[options.output](report))
    if report.verdict.note is not None:
        sys.stderr.write(f"klamm try: limit: {report.verdict.note}\n")
    for kind in report.verdict.failed:
        sys.stderr.write(f"klamm try: {kind}: {FAILURES[kind][0]}\n")
    return EXIT_FAILED if report.verdict.failed else EXIT_DONE


_WRITERS: Final[Mapping[str, Callable[[Report], str]]] = {
    "text": lambda report: "\n".join(as_lines(report)) + "\n",
    "json": lambda report: json.dumps(as_json(report), indent=2) + "\n",
    "html": as_html,
}
