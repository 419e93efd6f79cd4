"""Runs a server under load for a long time, with clients that come and go, and checks that no resource leaks.

    scripts/soak [--minutes M] [--requests N] [--json FILE] [-- OPTION OF KLAMM SERVE...]

A cycle begins and ends with no topic, no client and all brokers up; at its end a sample of the process is taken. The
exit code is 1 if an answer was wrong (the request log is then kept), or if memory, descriptors, threads or the metadata
log did not return to their former size.
"""

import argparse
import json
import logging
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import klamm
from tools.soak_run.conversation import WrongAnswer
from tools.soak_run.run import Soak
from tools.soak_run.table import print_report

MINUTES = 15.0
TOLD_CHARACTERS = 4_000
SERVER_OPTIONS = (
    *("--brokers", "3"),
    # A crash ends soon; the other brokers' heartbeats are frequent enough to keep their sessions.
    *("--set", "broker.session.timeout.ms=2000", "--set", "broker.heartbeat.interval.ms=500"),
    *("--set", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    *("--set", "super.users=User:ANONYMOUS"),
)


def main() -> int:
    options = _parser().parse_args()
    for name in ("kafka", "aiokafka"):  # The libraries' messages about a stopped broker are expected here.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    folder = Path(tempfile.mkdtemp(prefix="klamm-soak-"))
    is_kept = False
    soak = Soak(folder / "data", seconds=options.minutes * 60, requests=options.requests)
    files = ("--data-dir", str(folder / "data"), "--request-log", str(folder / "requests.jsonl"))
    server = klamm.ServerProcess(*SERVER_OPTIONS, *files, *options.serve, control=True)
    try:
        with server:
            try:
                soak.run(server)
            except Exception:
                server.stop()  # Not killed, because the last lines of the request log may be needed.
                raise
    except Exception as failure:  # Also exceptions of the libraries.
        is_kept = True
        sys.stderr.write(f"soak: what was asked is kept in {folder}\n")
        if not isinstance(failure, WrongAnswer | klamm.ServerFailed):
            raise
        sys.stderr.write(f"soak: {failure}\n")
        return 1
    finally:
        sys.stderr.write(server.stderr_text()[-TOLD_CHARACTERS:])
        if not is_kept:
            shutil.rmtree(folder)
    if options.json:
        options.json.write_text(json.dumps([asdict(sample) for sample in soak.samples]) + "\n")
    return print_report(soak)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/soak", description="A server under load for long.")
    add = parser.add_argument
    add("--minutes", metavar="M", type=float, default=MINUTES, help=f"duration ({MINUTES:g})")
    add("--requests", metavar="N", type=int, default=None, help="end earlier, after this many answered requests")
    add("--json", metavar="FILE", type=Path, help="file for the samples")
    add("serve", nargs="*", metavar="OPTION", help="options of klamm serve, after --")
    return parser


if __name__ == "__main__":
    sys.exit(main())
