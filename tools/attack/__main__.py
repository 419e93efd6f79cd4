"""The command line of `scripts/attack`."""

import argparse
import sys
from collections.abc import Sequence
from random import SystemRandom

from tools.attack.campaign import MEASURES, SIZES, WORST, attack


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/attack", allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=60.0, metavar="N", help="for how long (60)")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="of all that is drawn (random)")
    parser.add_argument("--most-bytes", type=int, default=SIZES[-1], metavar="N", help=f"of a request ({SIZES[-1]})")
    parser.add_argument("options", nargs="*", metavar="-- OPTION", help="options of klamm serve")
    given = parser.parse_args(arguments)
    seed = SystemRandom().randrange(2**31) if given.seed is None else given.seed
    costs = attack(given.seconds, seed, options=given.options, most_bytes=given.most_bytes)
    print(f"{len(costs)} requests, seed {seed}")
    for name, measure in MEASURES.items():
        print(f"\n{name}")
        for cost in sorted(costs, key=measure, reverse=True)[:WORST]:
            print(f"{measure(cost):12,.1f}  {cost.attempt}: {cost.bytes_in:,} in, {cost.bytes_out:,} out")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
