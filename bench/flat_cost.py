"""How long `klamm pipeline ingest` takes for each record of a short and of a long log, in one run on two cores.

    python -m bench.flat_cost [--records 2000000 20000000]

The log of 20 million records takes 2 GB of disk, its tables some more, and the run some minutes.
"""

import argparse
import tempfile
from pathlib import Path

from bench.measure_pipeline import TWO_CORES, timed, warm_session
from bench.pipeline_logs import write_log

RECORDS = (2_000_000, 20_000_000)


def main() -> None:
    from klamm.pipeline import jobs

    parser = argparse.ArgumentParser(prog="python -m bench.flat_cost", allow_abbrev=False)
    parser.add_argument("--records", metavar="N", type=int, nargs="+", default=RECORDS)
    lengths: list[int] = parser.parse_args().records
    with tempfile.TemporaryDirectory(prefix="klamm-flat-cost-") as name, warm_session(TWO_CORES, Path(name)) as spark:
        for records in lengths:
            log, out = Path(name) / f"log-{records}", Path(name) / f"tables-{records}"
            written = write_log(log, records)
            seconds = timed(lambda: jobs.ingest(spark, out, logs=[str(log)])["bronze.metadata_record"], written)  # noqa: B023
            print(f"{written:,} records: {seconds:.1f} s, {seconds / written * 1e6:.2f} µs a record", flush=True)


if __name__ == "__main__":
    main()
