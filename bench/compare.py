"""Klamm beside its peers, in one run: starts, CreateTopics small and large, Metadata, a million partitions, group
commit, limits, long work, reassignments, records, the pipeline, the codec, placement.

    bench/run                             everything beside kfake, some minutes
    bench/run --kafka --json FILE         beside Apache Kafka, too, and for bench/render
    bench/run --only start,create --quick

A time never fails a run: the table says which marks were reached. The exit code is 1 only if something could not be
measured, because a server did not start or refused what was asked of it.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from bench.machine import describe_machine, describe_versions, load_average, today
from bench.measure_codec import measure_codec
from bench.measure_connections import measure_connections
from bench.measure_create import measure_create
from bench.measure_group_commit import measure_group_commit
from bench.measure_groups import measure_groups
from bench.measure_hostile import measure_hostile
from bench.measure_large_topic import measure_large_topic
from bench.measure_limits import measure_limits
from bench.measure_long_requests import measure_long_requests
from bench.measure_long_work import measure_long_work
from bench.measure_metadata import measure_metadata
from bench.measure_pipeline import measure_pipeline
from bench.measure_placement import WrongPlacement, measure_placement
from bench.measure_real_brokers import measure_real_brokers
from bench.measure_reassign import measure_reassign
from bench.measure_records import measure_records
from bench.measure_scale import measure_scale
from bench.measure_security import measure_security
from bench.measure_shares import measure_shares
from bench.measure_start import measure_start
from bench.measure_streams import measure_streams
from bench.measure_volume import measure_volume
from bench.measure_warm_start import measure_warm_start
from bench.placement_rows import PlacementRow
from bench.placement_table import print_placements
from bench.processes import ServerFailed
from bench.raw_client import Refused
from bench.rows import Report, Row
from bench.tables import print_table
from bench.workbench import Workbench, write_bytecode
from klamm import ControlError
from klamm import ServerFailed as KlammFailed
from tools.toolchain_checks.kafka_jars import fetch_class_path
from tools.toolchain_checks.report import CheckFailed

KFAKE_BUILD = Path(__file__).resolve().parent / "peers" / "kfake" / "build"
BUILD_SECONDS = 900
MEASUREMENTS: dict[str, Callable[[Workbench], list[Row]]] = {
    "start": measure_start,
    "warm-start": measure_warm_start,
    "create": measure_create,
    "large-topic": measure_large_topic,
    "metadata": measure_metadata,
    "scale": measure_scale,
    "group-commit": measure_group_commit,
    "limits": measure_limits,
    "long-work": measure_long_work,
    "long-requests": measure_long_requests,
    "reassign": measure_reassign,
    "records": measure_records,
    "volume": measure_volume,
    "groups": measure_groups,
    "streams": measure_streams,
    "shares": measure_shares,
    "connections": measure_connections,
    "hostile": measure_hostile,
    "security": measure_security,
    "real-brokers": measure_real_brokers,
    "pipeline": measure_pipeline,
    "codec": measure_codec,
}
PLACEMENT = "placement"
"""Placements have a table of their own, with evenness beside each time."""
NAMES = (*MEASUREMENTS, PLACEMENT)
FAILURES = (
    ServerFailed,
    KlammFailed,
    ControlError,
    Refused,
    WrongPlacement,
    CheckFailed,
    OSError,
    subprocess.SubprocessError,
)


def main() -> int:
    options = _parser().parse_args()
    # Leave every block at the end: servers are stopped and folders removed.
    signal.signal(signal.SIGTERM, _leave)
    try:
        kfake = _build_kfake()
        kafka_class_path = fetch_class_path() if options.kafka else None
        with tempfile.TemporaryDirectory(prefix="klamm-bench-bytecode-") as bytecode:
            bench = Workbench(
                bytecode_dir=Path(bytecode),
                kfake_program=kfake,
                kafka_class_path=kafka_class_path,
                data_parent=options.data_parent,
                quick=options.quick,
                other_tree=options.beside_tree and options.beside_tree.resolve(),
            )
            machine = {**describe_machine(options.data_parent), "load before": load_average()}
            write_bytecode(bench)
            rows, placements = _measure(bench, options.only)
            if options.beside_tree:
                rows = [_beside_tree(row) for row in rows]
    except FAILURES as failure:
        notes = getattr(failure, "__notes__", ())
        sys.stderr.write("\n".join([f"bench: {failure}", *notes]) + "\n")
        return 1
    machine["load after"] = load_average()
    versions = describe_versions(kfake, kafka_class_path)
    report = Report(date=today(), machine=machine, versions=versions, rows=rows, placements=placements)
    if rows:
        print_table(report)
    if placements:
        print_placements(placements)
    if options.json:
        options.json.write_text(json.dumps(report.to_json(), indent=1, ensure_ascii=False) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/run", description="Klamm beside its peers, in one run.")
    add = parser.add_argument
    add("--only", metavar="A,B", type=_names, default=list(NAMES), help=", ".join(NAMES))
    add("--kafka", action="store_true", help="beside Apache Kafka, too (needs Java and Maven, takes minutes longer)")
    add("--json", metavar="FILE", type=Path, help="write the figures there, with all details")
    add("--beside-tree", metavar="DIR", type=Path, help="beside Klamm of another working tree instead of kfake")
    add("--quick", action="store_true", help="a tenth of the samples: to see that it works")
    add("--data-parent", metavar="DIR", type=Path, default=Path(tempfile.gettempdir()), help="where data directories "
        "are made, to measure another disk")  # fmt: skip
    return parser


def _beside_tree(row: Row) -> Row:
    """The same row with the other working tree, which was measured in kfake's place; marks about kfake are removed."""
    return replace(row, peer="other tree", mark=None, reached=None) if row.peer == "kfake" else row


def _names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in NAMES:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(NAMES)}")
    return names


def _measure(bench: Workbench, names: Sequence[str]) -> tuple[list[Row], list[PlacementRow]]:
    rows: list[Row] = []
    placements: list[PlacementRow] = []
    for name in names:
        sys.stderr.write(f"bench: {name}\n")
        if name == PLACEMENT:
            placements += measure_placement(bench)
        else:
            rows += MEASUREMENTS[name](bench)
    return rows, placements


def _build_kfake() -> Path:
    """The program, which is built if necessary."""
    done = subprocess.run([str(KFAKE_BUILD)], stdout=subprocess.PIPE, text=True, check=True, timeout=BUILD_SECONDS)
    return Path(done.stdout.strip())


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
