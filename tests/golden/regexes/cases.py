"""Random expressions for `MatchNames.java`, and the comparison of its answers with ours (README.md).

python -m tests.golden.regexes.cases SEED COUNT | java -cp … MatchNames | python -m tests.golden.regexes.cases --compare
"""

import sys
from random import Random

from klamm.broker.groups.regex import InvalidRegex, compile_regex

ATOMS = (
    *"abAB01_.-^$",
    *(
        "[ab]",
        "[^a]",
        "[a-c0]",
        "[]a]",
        "[^]a-]",
        "[a-]",
        "[[:alpha:]]",
        "[[:^digit:]_]",
        "[\\d.]",
        "[\\W]",
        "[b-a]",
        "[[:no:]]",
    ),
    *(
        "\\d",
        "\\D",
        "\\w",
        "\\W",
        "\\s",
        "\\S",
        "\\b",
        "\\B",
        "\\A",
        "\\z",
        "\\.",
        "\\-",
        "\\_",
        "\\x61",
        "\\x{62}",
        "\\101",
    ),
    *(
        "\\pL",
        "\\p{Lu}",
        "\\P{Ll}",
        "\\p{^N}",
        "\\p{Latin}",
        "\\p{Greek}",
        "\\p{Common}",
        "\\pZ",
        "\\p{Nothing}",
        "\\p{Any}",
    ),
    *("\\Qa.b\\E", "\\Q", "\\8", "\\C", "\\z", "\\Z", "\\k", "\\n", "\\1", "\\07", "\\x", "\\x{", "\\x{110000}"),
    *(
        "[",
        "]",
        "{",
        "}",
        "{2",
        "\\",
        "(?i)",
        "(?-i)",
        "(?s)",
        "(?i:a)",
        "(?z)",
        "(?-)",
        "(?)",
        "(?P<n>a)",
        "(?<m>b)",
        "(?P<>a)",
    ),
    *("ſ", "K", "é", "[ſ]", "[K-é]", "[^ſ]", "[a", "[a-", "[\\", "(?", "(?P<n", "(?U)a", "(?m)", "(?im-s)b"),
)
REPEATS = (
    "*",
    "+",
    "?",
    "*?",
    "+?",
    "??",
    "{2}",
    "{0,2}",
    "{1,}",
    "{2,1}",
    "{1001}",
    "{,2}",
    "{01}",
    "{1,2}?",
    "{1",
    "{123456789}",
)


def expression(chance: Random, depth: int = 3) -> str:
    parts = []
    for _ in range(chance.randint(0 if depth < 3 else 1, 4)):
        kind = chance.random()
        if kind < 0.2 and depth:
            part = f"({expression(chance, depth - 1)})"
        elif kind < 0.3 and depth:
            part = f"(?:{expression(chance, depth - 1)}|{expression(chance, depth - 1)})"
        elif kind < 0.33:
            part = chance.choice(("|", "(", ")"))
        else:
            # The later atoms are mostly not valid: half of the choices are among the first.
            part = chance.choice(ATOMS[:50] if chance.random() < 0.8 else ATOMS)
        parts.append(
            part + (chance.choice(REPEATS[:9] if chance.random() < 0.9 else REPEATS) if chance.random() < 0.3 else "")
        )
    return "".join(parts)


def names(chance: Random) -> list[str]:
    return ["".join(chance.choices("abABcsSkK01_.-", k=chance.choice((1, 1, 2, 2, 3, 4, 6)))) for _ in range(12)]


def our_answer(regex: str, of: list[str]) -> str:
    try:
        program = compile_regex(regex)
    except InvalidRegex as invalid:
        return f"!{invalid}"
    return "".join("1" if program.fullmatch(name) else "0" for name in of)


def main(arguments: list[str]) -> int:
    if arguments != ["--compare"]:
        chance = Random(int(arguments[0]))
        for _ in range(int(arguments[1])):
            print("\t".join((expression(chance), *names(chance))))
        return 0
    compared = different = 0
    for line in sys.stdin:
        regex, *of, answer = line.rstrip("\n").split("\t")
        compared += 1
        if our_answer(regex, of) != answer:
            different += 1
            print(f"differs: {regex!r} {of} {answer} {our_answer(regex, of)}", file=sys.stderr)
    print(f"{compared} expressions compared, {different} differ")
    return different > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
