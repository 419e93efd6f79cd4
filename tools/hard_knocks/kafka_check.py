"""Reads a log that has been killed many times with Apache Kafka's DumpLogSegments, and compares every batch."""

from pathlib import Path

from tools.toolchain_checks.dump_log_segments import compare_batches, compare_records, dump_segments
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.kafka_jars import fetch_class_path, find_program
from tools.toolchain_checks.own_log import decode_log
from tools.toolchain_checks.report import Report, expect_none


def check_by_kafka(data_dir: Path, folder: Path) -> bool:
    """Whether the tool reads the log in `data_dir` without an error, and with the same content as Klamm; its output
    goes to `folder`. Needs java; prints a line for each check."""
    report = Report()
    java = Java(find_program("java", "default-jre-headless"), fetch_class_path(), folder)
    check_killed_log(report, java, data_dir)
    return not report.failed


def check_killed_log(report: Report, java: Java, data_dir: Path) -> None:
    """The same as checks of an existing report."""
    log = decode_log(data_dir)
    dump = None
    claim = f"DumpLogSegments finds nothing invalid, skipped or torn in {len(log.segments)} segments after many kills"
    with report.check(claim):
        dump = dump_segments(java, log.segments)
        expect_none(dump.complaints, "complaints")
    if dump is not None:
        with report.check(f"the {len(log.batches)} batches and their records are to Kafka what they are to us"):
            compare_batches(dump, log)
            compare_records(dump, log)
