"""Kill a server with `kill -9` at random moments under load, and check its metadata log after each kill.

    python -m tools.hard_knocks --times 1000 --seed 7 [--keep DIR] [--kafka]
    python -m tools.hard_knocks --seed 7 --round 123       repeats one round, from the start of its directory

Exit code 0 if after every kill all acknowledged changes were present and no change was present in part. Otherwise 1,
and the directory of the failed round is kept. With --kafka, Apache Kafka's DumpLogSegments reads the last log.
"""

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import trio

from tools.hard_knocks.clients import Tally
from tools.hard_knocks.progress import Progress
from tools.hard_knocks.rounds import (
    ROUNDS_OF_A_DIRECTORY,
    Life,
    keep_for_a_look,
    plan_round,
    play_ending,
    play_round,
)
from tools.hard_knocks.warm_start import WarmInterpreter

MAX_FAULTY_ROUNDS = 10
"""The number of failed rounds after which the run stops."""
SHOWN_FAULTS = 5
STOPPING_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def main(arguments: Sequence[str]) -> int:
    given = _parser().parse_args(arguments)
    first, times = 0, given.times
    if given.round is not None:
        first = given.round - given.round % ROUNDS_OF_A_DIRECTORY
        times = given.round - first + 1
    for number in STOPPING_SIGNALS:
        signal.signal(number, _stop)
    folder = Path(tempfile.mkdtemp(prefix="klamm-crash-")) if given.keep is None else given.keep.absolute()
    tally = Tally()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ended_by = trio.run(_play_until_signal, given.seed, range(first, first + times), folder, tally)
        read_by_kafka = ended_by is not None or not given.kafka or _check_by_kafka(folder / "data", folder)
    finally:
        if given.keep is None and not tally.faulty_rounds:
            shutil.rmtree(folder)
    print(closing_line(tally, given.seed), flush=True)
    if ended_by is not None:
        return _exit_code(ended_by)
    return 1 if tally.faulty_rounds or not read_by_kafka else 0


def _stop(number: int, _frame: object) -> None:
    sys.exit(_exit_code(number))


def _exit_code(number: int) -> int:
    """The exit code that shells use for a process that a signal has ended."""
    return 128 + number


async def _play_until_signal(seed: int, numbers: range, folder: Path, tally: Tally) -> int | None:
    """Run `play`. Returns the number of the signal that ended it early."""
    reported: list[int] = []
    with trio.open_signal_receiver(*STOPPING_SIGNALS) as signals:
        async with trio.open_nursery() as nursery:

            async def cancel_on_signal() -> None:
                reported.append(await anext(aiter(signals)))
                nursery.cancel_scope.cancel()

            nursery.start_soon(cancel_on_signal)
            await play(seed, numbers, folder, tally)
            nursery.cancel_scope.cancel()
    return reported[0] if reported else None


async def play(seed: int, numbers: range, folder: Path, tally: Tally) -> None:
    """Play the rounds of these numbers. Afterwards `folder`/data is the last log, after a clean stop."""
    with WarmInterpreter() as interpreter, Progress(len(numbers)) as progress:
        life = Life(folder / "data", folder / "stderr", interpreter)
        plan = plan_round(seed, numbers[0])
        for number in numbers:
            plan = plan_round(seed, number)
            if plan.opens_directory or tally.faults:
                # The directory of a failed round would make the next one fail, too.
                shutil.rmtree(life.data_dir, ignore_errors=True)
                life = Life(life.data_dir, life.stderr, interpreter)
            tally.faults = []
            await play_round(plan, life, tally)
            tally.rounds += 1
            if tally.faults:
                tally.faulty_rounds += 1
                progress.tell(_told(number, tally.faults, keep_for_a_look(life, plan, tally.faults, folder)))
                if tally.faulty_rounds >= MAX_FAULTY_ROUNDS:
                    progress.tell(f"{tally.faulty_rounds} rounds found something wrong: that is enough")
                    return
            progress.step(tally)
        if not tally.faults:
            await play_ending(plan, life, tally)
            if tally.faults:
                tally.faulty_rounds += 1
                kept = keep_for_a_look(life, plan, tally.faults, folder)
                progress.tell(_told(plan.number, tally.faults, kept))


def closing_line(tally: Tally, seed: int) -> str:
    """The line with the results of all rounds."""
    unanswered = tally.carried_out + tally.left_undone
    return (
        f"crash: seed {seed}, {tally.rounds} kills, {sum(tally.acknowledged.values())} changes acknowledged, "
        f"{unanswered} not answered ({tally.carried_out} carried out, {tally.left_undone} not), "
        f"{tally.repaired} torn tails cut off, {tally.snapshots} snapshots read; "
        f"{tally.rounds - tally.faulty_rounds} rounds passed, {tally.faulty_rounds} failed"
    )


def _told(number: int, faults: Sequence[str], kept: Path) -> str:
    more = [f"  … and {len(faults) - SHOWN_FAULTS} more"] if len(faults) > SHOWN_FAULTS else []
    return "\n".join([f"round {number}, kept in {kept}:", *(f"  {line}" for line in faults[:SHOWN_FAULTS]), *more])


def _check_by_kafka(data_dir: Path, folder: Path) -> bool:
    from tools.hard_knocks.kafka_check import check_by_kafka

    return check_by_kafka(data_dir, folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/crash", description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--times", metavar="N", type=_count, default=1000, help="number of kills (1000)")
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="random seed (1)")
    parser.add_argument("--round", metavar="N", type=int, help="repeat one round, from its directory's first files")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="directory of all files, which are kept")
    parser.add_argument("--kafka", action="store_true", help="also read the last log with Kafka's tool (needs java)")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: at least one kill is expected")
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
