"""The command line of `scripts/attack`."""

import argparse
import sys
from collections.abc import Sequence
from random import SystemRandom

from tools.attack.campaign import MEASURES, SIZES, WORST, attack
from tools.attack.every_api import lines, measure_every_api
from tools.attack.half_open import attack_half_open


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/attack", allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=60.0, metavar="N", help="for how long (60)")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="of all that is drawn (random)")
    parser.add_argument("--most-bytes", type=int, default=SIZES[-1], metavar="N", help=f"of a request ({SIZES[-1]})")
    parser.add_argument("--table", action="store_true", help="every API and version at 1, 10 and 100 MB, instead")
    parser.add_argument("--newest", action="store_true", help="with --table: the newest version of each API")
    parser.add_argument("--only", default="", metavar="A,B", help="with --table: these APIs")
    parser.add_argument("--half-open", type=int, metavar="N", help="N handshakes that are not finished, instead")
    parser.add_argument("options", nargs="*", metavar="-- OPTION", help="options of klamm serve")
    given = parser.parse_args(arguments)
    if given.half_open is not None:
        for line in attack_half_open(given.half_open).lines():
            print(line, flush=True)
        return 0
    if given.table:
        only = [name for name in given.only.split(",") if name]
        for line in lines(measure_every_api(only=only, newest=given.newest, options=given.options)):
            print(line, flush=True)
        return 0
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
