"""The command line of `scripts/fuzz`."""

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom
from typing import Final

from klamm.console.options import CommandParser, UsageError
from tools.fuzzing.corpus import CORPUS

_NO_ATHERIS: Final = "fuzz codec: atheris is not installed here: it has packages for Linux x86_64, Python 3.11 to 3.13"


def main(arguments: Sequence[str]) -> int:
    parser = CommandParser(prog="scripts/fuzz")
    parser.add_argument("what", choices=("codec", "server"))
    parser.add_argument("--seconds", type=float, default=60.0, metavar="N", help="duration (60)")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="random seed (drawn and printed)")
    parser.add_argument(
        "--keep", type=Path, default=None, metavar="DIR", help="directory for findings (tests/corpus/…)"
    )
    parser.add_argument("--memory", action="store_true", help="codec: also measure memory; about ten times slower")
    try:
        given = parser.parse_args(arguments)
    except UsageError as error:
        sys.stderr.write(f"scripts/fuzz: {error}\n")
        return 2
    seed = SystemRandom().randrange(2**31) if given.seed is None else given.seed
    corpus = given.keep or CORPUS / given.what
    if given.what == "server":
        from tools.fuzzing.server_run import fuzz_server

        return 1 if fuzz_server(given.seconds, seed, corpus) else 0
    if importlib.util.find_spec("atheris") is None:
        print(_NO_ATHERIS, file=sys.stderr)
        return 2
    from tools.fuzzing.codec_run import fuzz_codec

    return 1 if fuzz_codec(given.seconds, seed, corpus, memory=given.memory) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
